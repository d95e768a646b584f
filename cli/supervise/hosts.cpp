#include "cli/supervise/hosts.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace nqd::cli {
namespace {

constexpr int kMostSlots = 1024;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ExitCode::kUsage, "NQD1405", what,
              "write hosts as NAME or NAME:RANKS with commas between them, each once, as "
              "--hosts a:2,b:2 --spares c:2");
}

HostSlots parse_host(const std::string& flag, const std::string& word) {
  const std::size_t colon = word.find(':');
  HostSlots host{word.substr(0, colon), 1};
  if (host.name.empty()) refuse(flag + " has a host without a name");
  if (colon == std::string::npos) return host;
  const char* const begin = word.data() + colon + 1;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(begin, end, host.slots);
  if (error != std::errc() || stop != end || host.slots < 1 || host.slots > kMostSlots) {
    refuse(flag + " has `" + word + "`, whose number of ranks is not one from 1 to 1024");
  }
  return host;
}

int slots_of(const std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  return slots;
}

bool has(const std::vector<HostSlots>& hosts, const std::string& name) {
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const HostSlots& host) { return host.name == name; });
}

std::string replaced(std::string word, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = word.find(what, at)) != std::string::npos; at += by.size()) {
    word.replace(at, what.size(), by);
  }
  return word;
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& flag, const std::string& text) {
  std::vector<HostSlots> hosts;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    HostSlots host = parse_host(flag, word);
    if (has(hosts, host.name)) refuse(flag + " has `" + host.name + "` twice");
    hosts.push_back(std::move(host));
  }
  if (hosts.empty() || text.ends_with(',')) refuse(flag + " has a host without a name");
  return hosts;
}

bool is_host(const std::string& listed, const std::string& reported) {
  if (listed == reported) return true;
  return listed.starts_with(reported + ".") || reported.starts_with(listed + ".");
}

HostPool::HostPool(std::vector<HostSlots> hosts, std::vector<HostSlots> spares)
    : hosts_(std::move(hosts)), spares_(std::move(spares)) {
  for (const HostSlots& spare : spares_) {
    if (has(hosts_, spare.name)) refuse("`" + spare.name + "` is in --hosts and in --spares");
  }
}

int HostPool::slots() const { return slots_of(hosts_); }

std::string HostPool::text() const {
  std::string text;
  for (const HostSlots& host : hosts_) {
    text += (text.empty() ? "" : ",") + host.name + ":" + std::to_string(host.slots);
  }
  return text;
}

std::string HostPool::listed(const std::string& reported) const {
  const auto found = std::find_if(hosts_.begin(), hosts_.end(), [&](const HostSlots& host) {
    return is_host(host.name, reported);
  });
  return found == hosts_.end() ? "" : found->name;
}

bool HostPool::can_spare(const std::string& name, int ranks) const {
  HostPool after = *this;
  after.leave_out(name, ranks);
  return after.slots() >= ranks;
}

void HostPool::leave_out(const std::string& name, int ranks) {
  std::erase_if(hosts_, [&](const HostSlots& host) { return host.name == name; });
  left_out_.push_back(name);
  while (slots() < ranks && !spares_.empty()) {
    hosts_.push_back(std::move(spares_.front()));
    spares_.erase(spares_.begin());
  }
}

std::vector<std::string> filled_in(const std::vector<std::string>& command, const HostPool& pool,
                                   int ranks) {
  std::vector<std::string> words;
  for (const std::string& word : command) {
    words.push_back(
        replaced(replaced(word, "{hosts}", pool.text()), "{ranks}", std::to_string(ranks)));
  }
  return words;
}

}  // namespace nqd::cli
