#include "collectives/nccl/log_records.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "collectives/nccl/log.h"

namespace nqd::collectives {
namespace {

constexpr std::string_view kInfo = "NCCL INFO ";
constexpr std::string_view kWarn = "NCCL WARN ";
// Between "[device]" and "NCCL WARN" stand a source file, line and function.
constexpr std::size_t kLongestPrefix = 512;
constexpr std::size_t kLongestHost = 64;  // HOST_NAME_MAX of Linux

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_host(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

// Walks left over characters of a class; the position of the leftmost.
template <typename Class>
std::size_t walk_left(std::string_view line, std::size_t end, std::size_t least, Class in_class) {
  while (end > least && in_class(line[end - 1])) --end;
  return end;
}

// nqd reads process ids of at most 18 digits; a longer run is no number of Linux.
std::int64_t number(std::string_view digits) {
  std::int64_t value = 0;
  if (digits.size() > 18) return 0;
  for (const char digit : digits) value = 10 * value + (digit - '0');
  return value;
}

struct Prefix {
  std::size_t begin = 0;
  std::string_view host;
  std::int64_t pid = 0;
};

// "host:pid:tid [device] " that ends where `line[at]` begins, not before `least`.
bool read_prefix(std::string_view line, std::size_t least, std::size_t at, Prefix& prefix) {
  if (at < least + 2 || line[at - 1] != ' ' || line[at - 2] != ']') return false;
  const std::size_t device = walk_left(line, at - 2, least, is_digit);
  if (device < least + 2 || line[device - 1] != '[' || line[device - 2] != ' ') return false;
  const std::size_t thread = walk_left(line, device - 2, least, is_digit);
  if (thread < least + 1 || thread == device - 2 || line[thread - 1] != ':') return false;
  const std::size_t process = walk_left(line, thread - 1, least, is_digit);
  if (process < least + 1 || process == thread - 1 || line[process - 1] != ':') return false;
  const std::size_t bound = process - 1 > kLongestHost ? process - 1 - kLongestHost : 0;
  const std::size_t host = walk_left(line, process - 1, std::max(least, bound), is_host);
  if (host == process - 1) return false;
  prefix.begin = host;
  prefix.host = line.substr(host, process - 1 - host);
  prefix.pid = number(line.substr(process, thread - 1 - process));
  return true;
}

// What may stand before a whole host name: "[1,3]<stdout>:node1", "rank 3| node1".
bool is_boundary(char c) { return c == ' ' || c == '\t' || c == ':' || c == '>' || c == '|'; }

// The prefix of the record whose marker is at `marker`; without one the record begins there.
Prefix prefix_of(std::string_view line, std::size_t least, std::size_t marker, bool warning) {
  Prefix prefix;
  prefix.begin = marker;
  if (read_prefix(line, least, marker, prefix) || !warning) return prefix;
  const std::size_t window = marker > kLongestPrefix ? marker - kLongestPrefix : 0;
  const std::size_t first = std::max(least, window);
  for (std::size_t at = marker; at > first + 1; --at) {
    if (line[at - 1] == ' ' && line[at - 2] == ']' && read_prefix(line, first, at, prefix)) break;
  }
  return prefix;
}

struct Marker {
  std::size_t at = std::string_view::npos;
  bool warning = false;
};

Marker next_marker(std::string_view line, std::size_t from) {
  for (std::size_t at = line.find("NCCL ", from); at != std::string_view::npos;
       at = line.find("NCCL ", at + 1)) {
    const std::string_view rest = line.substr(at);
    if (rest.starts_with(kInfo)) return {at, false};
    if (rest.starts_with(kWarn)) return {at, true};
  }
  return {};
}

void split_line(std::string_view line, bool ended, std::vector<NcclRecord>& records) {
  Marker marker = next_marker(line, 0);
  if (marker.at == std::string_view::npos) return;
  Prefix prefix = prefix_of(line, 0, marker.at, marker.warning);
  bool leads = prefix.begin == 0 || is_boundary(line[prefix.begin - 1]);
  while (marker.at != std::string_view::npos) {
    const std::size_t begin = marker.at + kInfo.size();
    const Marker next = next_marker(line, begin);
    const bool last = next.at == std::string_view::npos;
    const Prefix next_prefix = last ? Prefix{} : prefix_of(line, begin, next.at, next.warning);
    const std::size_t end = last ? line.size() : next_prefix.begin;
    records.push_back({prefix.host, prefix.pid, marker.warning, line.substr(begin, end - begin),
                       !last || !ended, leads});
    leads = false;
    marker = next;
    prefix = next_prefix;
  }
}

// How often each process is named.
using Names = std::map<std::pair<std::string_view, std::int64_t>, std::size_t>;

// The end of the record's host name that is named more often with its process id, if there is one:
// what stands before it is another line's rest. At the begin of a line that takes more evidence.
std::string_view mended(const NcclRecord& record, const Names& names) {
  constexpr std::size_t kLeadMargin = 4;
  const auto count = [&](std::string_view name) {
    const auto found = names.find({name, record.pid});
    return found == names.end() ? std::size_t{0} : found->second;
  };
  const std::size_t own = count(record.host) * (record.leads ? kLeadMargin : 1);
  for (std::size_t skip = 1; skip < record.host.size(); ++skip) {
    if (count(record.host.substr(skip)) > own) return record.host.substr(skip);
  }
  return record.host;
}

}  // namespace

std::size_t nccl_record_begin(std::string_view line) {
  const Marker marker = next_marker(line, 0);
  if (marker.at == std::string_view::npos) return marker.at;
  return prefix_of(line, 0, marker.at, marker.warning).begin;
}

std::vector<NcclRecord> split_nccl_records(std::span<const std::string_view> texts) {
  std::vector<NcclRecord> records;
  for (const std::string_view text : texts) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      std::string_view line = text.substr(begin, end - begin);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      split_line(line, end < text.size(), records);
      begin = end + 1;
    }
  }
  Names names;
  for (const NcclRecord& record : records) ++names[{record.host, record.pid}];
  std::map<std::pair<std::string_view, std::int64_t>, std::string_view> known[2];
  for (NcclRecord& record : records) {
    const auto [found, is_new] =
        known[record.leads ? 1 : 0].try_emplace({record.host, record.pid}, record.host);
    if (is_new) found->second = mended(record, names);
    record.host = found->second;
  }
  return records;
}

}  // namespace nqd::collectives
