#include "collectives/bench/machine_record.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/host.h"
#include "collectives/shared/cross_memory.h"

namespace nqd::collectives {
namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

template <typename T>
std::vector<T> gather(Communicator& world, const T& mine) {
  std::vector<T> all(index(world.size()));
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                   DType::kUInt8);
  return all;
}

// Records travel as lines of fields; neither sign occurs in what they hold.
constexpr char kField = '\x1f';
constexpr char kLine = '\x1e';

class TextOut {
 public:
  template <typename... Fields>
  void line(const Fields&... fields) {
    (..., (text_ << fields << kField));
    text_ << kLine;
  }
  std::string take() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

std::vector<std::vector<std::string>> lines_of(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line, kLine);) {
    std::istringstream fields(line);
    lines.emplace_back();
    for (std::string field; std::getline(fields, field, kField);) lines.back().push_back(field);
  }
  return lines;
}

std::uint64_t unsigned_of(const std::string& text) {
  return std::strtoull(text.c_str(), nullptr, 10);
}

std::string encode(const RankRecord& record) {
  TextOut out;
  out.line(format_cpu_list(record.cpus), format_cpu_list(record.numa_nodes), record.threads,
           record.cross_memory);
  for (const auto& [name, value] : record.environment) out.line(name, value);
  return out.take();
}

RankRecord decode_rank(const std::string& text, const std::string& host) {
  const auto lines = lines_of(text);
  RankRecord record;
  record.host = host;
  record.cpus = parse_cpu_list(lines[0][0]);
  record.numa_nodes = parse_cpu_list(lines[0][1]);
  record.threads = std::atoi(lines[0][2].c_str());
  record.cross_memory = lines[0][3];
  for (std::size_t i = 1; i < lines.size(); ++i) {
    record.environment.emplace_back(lines[i][0], lines[i][1]);
  }
  return record;
}

std::string encode(const MachineState& state) {
  TextOut out;
  out.line(state.thp_enabled, state.thp_shmem_enabled, state.governor, state.ptrace_scope,
           state.numa_nodes, state.load_1min);
  for (const NetworkInterface& interface : state.interfaces) {
    out.line("interface", interface.name, interface.state, interface.speed_mbps.value_or(0),
             interface.sent_bytes, interface.received_bytes);
  }
  for (const RdmaPort& port : state.rdma_ports) {
    out.line("port", port.device, port.port, port.state, port.link_layer, port.rate_gbits,
             port.sent_bytes, port.received_bytes);
  }
  return out.take();
}

MachineState decode_state(const std::string& text) {
  const auto lines = lines_of(text);
  MachineState state;
  state.thp_enabled = lines[0][0];
  state.thp_shmem_enabled = lines[0][1];
  state.governor = lines[0][2];
  state.ptrace_scope = lines[0][3];
  state.numa_nodes = lines[0][4];
  state.load_1min = std::strtod(lines[0][5].c_str(), nullptr);
  for (const auto& line : lines) {
    if (line[0] == "interface") {
      const auto speed = static_cast<std::int64_t>(unsigned_of(line[3]));
      state.interfaces.push_back({line[1], line[2], speed > 0 ? std::optional(speed) : std::nullopt,
                                  unsigned_of(line[4]), unsigned_of(line[5])});
    } else if (line[0] == "port") {
      state.rdma_ports.push_back({line[1], std::atoi(line[2].c_str()), line[3], line[4],
                                  std::strtod(line[5].c_str(), nullptr), unsigned_of(line[6]),
                                  unsigned_of(line[7])});
    }
  }
  return state;
}

int first_rank_of(const Communicator& world, const std::string& host) {
  int rank = 0;
  while (world.host(rank) != host) ++rank;
  return rank;
}

// The first rank of every host reads it; the others send nothing.
std::vector<std::string> gather_states(Communicator& world) {
  const bool reads = first_rank_of(world, world.host(world.rank())) == world.rank();
  return gather_texts(world, reads ? encode(read_machine_state(system_roots())) : "");
}

// What a rank shows for its peers to read.
struct Probe {
  std::int64_t pid = 0;
  std::uint64_t address = 0;
};
constexpr std::uint64_t kProbeValue = 0x6e71642d70726f62;

// The next rank of this rank's host that is another process, or -1.
int probed_peer(const Communicator& world, const std::vector<Probe>& probes) {
  const int mine = world.rank();
  for (int step = 1; step < world.size(); ++step) {
    const int rank = (mine + step) % world.size();
    if (world.host(rank) != world.host(mine)) continue;
    if (probes[index(rank)].pid != probes[index(mine)].pid) return rank;
  }
  return -1;
}

// Collective.
std::string probe_cross_memory(Communicator& world) {
  const volatile std::uint64_t shown = kProbeValue;
  const auto probes = gather(world, Probe{::getpid(), reinterpret_cast<std::uintptr_t>(&shown)});
  const int peer = probed_peer(world, probes);
  std::string result = "not needed";
  if (peer >= 0) {
    std::uint64_t seen = 0;
    const int error = read_process_memory(probes[index(peer)].pid, probes[index(peer)].address,
                                          std::as_writable_bytes(std::span(&seen, 1)));
    result = error != 0            ? std::string("refused: ") + std::strerror(error)
             : seen == kProbeValue ? "allowed"
                                   : "refused: another process answered";
  }
  world.barrier();  // `shown` lives until every peer has read it
  return result;
}

// Collective.
std::vector<HostRecord> gather_hosts(Communicator& world) {
  const std::vector<CpuShare> shares = gather(world, own_cpu_share());
  const std::vector<std::string> states = gather_states(world);
  std::vector<HostRecord> hosts;
  std::vector<std::vector<CpuShare>> cpus;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string& name = world.host(rank);
    const auto found = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const HostRecord& host) { return host.host == name; });
    const auto place = static_cast<std::size_t>(found - hosts.begin());
    if (found == hosts.end()) {
      const MachineState state = decode_state(states[index(rank)]);
      hosts.push_back({.host = name, .start = state, .end = state});
      cpus.emplace_back();
    }
    ++hosts[place].ranks;
    cpus[place].push_back(shares[index(rank)]);
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) hosts[i].usable_cpus = usable_together(cpus[i]);
  return hosts;
}

int threads_of(const Variables& environment) {
  return std::max(1, std::atoi(value_of(environment, "OMP_NUM_THREADS").c_str()));
}

}  // namespace

std::vector<std::string> gather_texts(Communicator& world, const std::string& mine) {
  const std::vector<std::uint64_t> lengths = gather(world, static_cast<std::uint64_t>(mine.size()));
  const std::uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = mine;
  padded.resize(longest);
  std::string all(longest * lengths.size(), '\0');
  world.all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)),
                   DType::kUInt8);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    texts.push_back(all.substr(rank * longest, lengths[rank]));
  }
  return texts;
}

MachineRecord begin_record(Communicator& world) {
  RankRecord mine;
  mine.cpus = affinity_cpus();
  mine.numa_nodes = numa_nodes_of(mine.cpus, system_roots());
  mine.environment = own_environment();
  mine.threads = threads_of(mine.environment);
  mine.cross_memory = probe_cross_memory(world);
  MachineRecord record;
  const std::vector<std::string> texts = gather_texts(world, encode(mine));
  for (int rank = 0; rank < world.size(); ++rank) {
    record.ranks.push_back(decode_rank(texts[index(rank)], world.host(rank)));
  }
  record.hosts = gather_hosts(world);
  return record;
}

void finish_record(Communicator& world, MachineRecord& record) {
  const std::vector<std::string> states = gather_states(world);
  for (HostRecord& host : record.hosts) {
    host.end = decode_state(states[index(first_rank_of(world, host.host))]);
  }
}

}  // namespace nqd::collectives
