#include "collectives/nccl/log.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>

#include "collectives/nccl/log_records.h"

namespace nqd::collectives {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What stands behind `lead`; nothing when the text has no `lead`.
std::optional<std::string_view> after(std::string_view text, std::string_view lead) {
  const std::size_t at = text.find(lead);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + lead.size());
}

std::string_view word(std::string_view text) { return text.substr(0, text.find(' ')); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Takes a whole number >= 0 off the front.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<int> number_after(std::string_view text, std::string_view lead) {
  std::optional<std::string_view> rest = after(text, lead);
  return rest ? take_number(*rest) : std::nullopt;
}

// Lists that are searched stay this short, so that no log costs more than linear time. Jobs have
// tens of communicators and variables.
constexpr std::size_t kLongestSearch = 256;

void add_unique(std::vector<std::string>& list, std::string_view item) {
  if (list.size() >= kLongestSearch) return;
  if (std::find(list.begin(), list.end(), item) == list.end()) list.emplace_back(item);
}

// "[0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB …": the numbered ones. With `names_only` what stands
// before the colon.
std::vector<std::string> numbered_devices(std::string_view text, bool names_only) {
  std::vector<std::string> devices;
  text = text.substr(0, text.find(';'));
  while (!(text = trimmed(text)).empty()) {
    std::string_view item = word(text);
    text.remove_prefix(item.size());
    const std::size_t close = item.find(']');
    if (item.front() != '[' || close < 2 || close == std::string_view::npos) continue;
    if (item[1] < '0' || item[1] > '9') continue;
    item.remove_prefix(close + 1);
    if (names_only) item = item.substr(0, item.find(':'));
    if (!item.empty()) devices.emplace_back(item);
  }
  return devices;
}

// "eth0:10.0.0.1<0>" or "[0]eth0:10.0.0.1<0>".
std::string_view interface_name(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('[')) text.remove_prefix(std::min(text.find(']'), text.size() - 1) + 1);
  return text.substr(0, text.find(':'));
}

// "0[1b000] -> 1[0] [send] via NET/IB/4/GDRDMA", behind the channel's number.
std::optional<NcclEdge> read_edge(const NcclRecord& record) {
  const std::optional<std::string_view> via = after(record.text, " via ");
  const std::size_t colon = record.text.find(" : ");
  if (!via || colon == std::string_view::npos) return std::nullopt;
  NcclEdge edge;
  std::string_view ends = record.text.substr(colon + 3);
  const std::optional<int> from = take_number(ends);
  const std::optional<int> to = number_after(ends, "-> ");
  if (!from || !to) return std::nullopt;
  edge.from = *from;
  edge.to = *to;
  edge.receives = contains(record.text, "[receive]");
  if (via->starts_with("P2P/")) {
    edge.kind = NcclEdge::Kind::kPeerToPeer;
    return edge;
  }
  if (via->starts_with("SHM")) {
    edge.kind = NcclEdge::Kind::kSharedMemory;
    return edge;
  }
  if (!via->starts_with("NET/")) return std::nullopt;
  std::string_view rest = via->substr(4);
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  edge.network = rest.substr(0, slash);
  rest.remove_prefix(slash + 1);
  const std::optional<int> device = take_number(rest);
  if (!device) return std::nullopt;
  edge.device = *device;
  if (contains(rest, "/GDRDMA")) {
    edge.gpu_direct = true;
  } else if (!record.cut) {
    edge.gpu_direct = false;
  }
  return edge;
}

// The communicator that a line names. A new one may reuse the address of one that is gone.
NcclComm* comm_of(NcclProcess& process, std::string_view text, bool starts) {
  const std::optional<std::string_view> named = after(text, "comm ");
  if (!named) return nullptr;
  const std::optional<int> rank = number_after(*named, " rank ");
  if (!rank) return nullptr;
  const std::string_view id = word(*named);
  const std::size_t searched = std::min(process.comms.size(), kLongestSearch);
  const auto end = process.comms.rbegin() + static_cast<std::ptrdiff_t>(searched);
  const auto found = std::find_if(process.comms.rbegin(), end,
                                  [&](const NcclComm& comm) { return comm.id == id; });
  if (found != end && !(starts && found->completed)) return &*found;
  NcclComm& comm = process.comms.emplace_back();
  comm.id = id;
  comm.rank = *rank;
  return &comm;
}

void read_comm(const NcclRecord& record, NcclProcess& process) {
  const bool starts = contains(record.text, "Init START");
  const bool completes = contains(record.text, "Init COMPLETE");
  const std::optional<int> nodes = number_after(record.text, " nNodes ");
  if (!starts && !completes && !nodes) return;
  NcclComm* comm = comm_of(process, record.text, starts);
  if (comm == nullptr) return;
  comm->started |= starts;
  comm->completed |= completes;
  if (nodes) comm->nodes = *nodes;
  for (const std::string_view key : {" nranks ", " nRanks "}) {
    if (const std::optional<int> ranks = number_after(record.text, key)) comm->ranks = *ranks;
  }
  if (const auto bus = after(record.text, " busId ")) comm->gpu = word(*bus);
}

void read_environment(const NcclRecord& record, NcclProcess& process) {
  const std::size_t at = record.text.find(" set by environment to ");
  if (at == std::string_view::npos || record.cut) return;
  const std::string_view before = record.text.substr(0, at);
  const std::size_t space = before.rfind(' ');
  const std::string_view name = space == std::string_view::npos ? before : before.substr(space + 1);
  if (!name.starts_with("NCCL_")) return;
  std::string_view value = trimmed(*after(record.text, " set by environment to "));
  // Numbers are printed with a full stop behind them.
  if (value.size() > 1 && value.back() == '.' && value[value.size() - 2] >= '0' &&
      value[value.size() - 2] <= '9') {
    value.remove_suffix(1);
  }
  for (auto& [known, old] : process.environment) {
    if (known != name) continue;
    old = value;
    return;
  }
  if (process.environment.size() < kLongestSearch) process.environment.emplace_back(name, value);
}

bool is_internal(std::string_view plugin) { return plugin == "IB" || plugin == "Socket"; }

void read_plugins(const NcclRecord& record, NcclProcess& process) {
  const std::string_view text = record.text;
  if (const auto name = after(text, "Failed to initialize NET plugin ")) {
    if (record.cut) return;
    add_unique(process.plugins_failed, trimmed(*name));
    if (!is_internal(trimmed(*name)) && process.plugin_failure.empty()) {
      process.plugin_failure = text;
    }
    return;
  }
  if (const auto name = after(text, "Initialized NET plugin ")) {
    if (!record.cut) add_unique(process.plugins_initialized, trimmed(*name));
    return;
  }
  // aws-ofi-nccl speaks for itself.
  const bool ofi = text.starts_with("NET/OFI");
  const bool gives_up = contains(text, "ailed") || contains(text, "Failing") ||
                        contains(text, "Couldn't") || contains(text, "Unable");
  if (ofi && gives_up && process.plugin_failure.empty()) process.plugin_failure = text;
}

void read_verbs(const NcclRecord& record, NcclProcess& process) {
  const std::string_view text = record.text;
  if (contains(text, "Failed to open libibverbs") || contains(text, "not open libibverbs")) {
    process.verbs_missing = true;
  }
  const bool refused = contains(text, "Unable to open device") ||
                       contains(text, "Unable to query") ||
                       contains(text, "ibv_open_device failed");
  if (refused && process.adapter_failure.empty()) process.adapter_failure = text;
  if (contains(text, "NET/IB : No device found")) process.adapters.emplace();
  if (contains(text, "Made virtual device") && contains(text, "+")) process.adapters_merged = true;
  const auto list = after(text, "NET/IB : Using");
  if (!list) return;
  // A list that was cut lacks adapters, unless the text behind it is there.
  if (record.cut && !contains(text, "OOB ")) return;
  process.adapters = numbered_devices(*list, false);
  if (const auto oob = after(text, "OOB "); oob && process.bootstrap_interface.empty()) {
    if (!record.cut || contains(*oob, ":")) process.bootstrap_interface = interface_name(*oob);
  }
}

// "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'". Lines with a distance judge one pair of
// GPU and adapter; many are far apart on a sound machine.
void read_gdr(const NcclRecord& record, NcclProcess& process) {
  for (const bool enabled : {true, false}) {
    const auto pair = after(
        record.text, enabled ? "GPU Direct RDMA Enabled for " : "GPU Direct RDMA Disabled for ");
    if (!pair || contains(*pair, "(distance")) continue;
    if (!contains(*pair, "HCA ")) continue;
    add_unique(enabled ? process.gdr_enabled : process.gdr_disabled, *after(*pair, "HCA "));
  }
}

void read_network(const NcclRecord& record, NcclProcess& process) {
  const std::string_view text = record.text;
  if (text.starts_with("Using network ") && !record.cut) {
    process.network = trimmed(text.substr(14));
  }
  if (const auto assigned = after(text, "Assigned NET plugin ");
      assigned && assigned->ends_with(" to comm") && process.network.empty()) {
    process.network = assigned->substr(0, assigned->size() - 8);
  }
  if (const auto list = after(text, "NET/Socket : Using"); list && !record.cut) {
    process.interfaces = numbered_devices(*list, true);
  }
  for (const std::string_view lead : {"Bootstrap : Using", "Bootstrap: Using"}) {
    const auto used = after(text, lead);
    if (used && contains(*used, ":")) process.bootstrap_interface = interface_name(*used);
  }
}

// The line that was cut may have been the one that says so.
void mark_unclear(NcclProcess& process) {
  const std::size_t marked = std::min(process.comms.size(), kLongestSearch);
  for (std::size_t i = process.comms.size() - marked; i < process.comms.size(); ++i) {
    process.comms[i].unclear |= process.comms[i].started;
  }
}

void read_record(const NcclRecord& record, NcclProcess& process) {
  if (record.cut) mark_unclear(process);
  const std::string_view text = record.text;
  if (record.warning) process.warnings.emplace_back(trimmed(text));
  if (text.starts_with("Channel ") || text.starts_with("Ring ") || text.starts_with("Tree ")) {
    if (std::optional<NcclEdge> edge = read_edge(record)) process.edges.push_back(std::move(*edge));
    return;
  }
  read_comm(record, process);
  read_environment(record, process);
  read_plugins(record, process);
  read_verbs(record, process);
  read_gdr(record, process);
  read_network(record, process);
}

// Rank 0 prints "NCCL version 2.28.9+cuda12.4" without a prefix.
std::string find_version(std::span<const std::string_view> texts) {
  for (const std::string_view text : texts) {
    const auto rest = after(text, "NCCL version ");
    if (!rest) continue;
    const std::size_t end = rest->find_first_not_of("0123456789.+abcdefghijklmnopqrstuvwxyz-");
    return std::string(rest->substr(0, std::min<std::size_t>({end, rest->size(), 40})));
  }
  return {};
}

}  // namespace

NcclLog parse_nccl_logs(std::span<const std::string_view> texts) {
  NcclLog log;
  log.version = find_version(texts);
  std::map<std::pair<std::string_view, std::int64_t>, std::size_t> known;
  for (const NcclRecord& record : split_nccl_records(texts)) {
    ++log.records;
    if (record.cut) ++log.cut_records;
    const auto [at, is_new] = known.try_emplace({record.host, record.pid}, log.processes.size());
    if (is_new) {
      NcclProcess& process = log.processes.emplace_back();
      process.host = record.host;
      process.pid = record.pid;
    }
    read_record(record, log.processes[at->second]);
  }
  return log;
}

}  // namespace nqd::collectives
