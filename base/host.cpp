#include "base/host.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace nqd {
namespace {

// One "Key:   123 kB" line of /proc/meminfo, in bytes.
std::uint64_t meminfo_bytes(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key + ":")) continue;
    std::istringstream fields(line.substr(key.size() + 1));
    std::uint64_t kib = 0;
    fields >> kib;
    return kib * 1024;
  }
  return 0;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(std::min(colon + 2, line.size()));
    }
  }
  return {};
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// This process's group in a hierarchy: the v2 line is "0::/path", a v1 line "4:memory:/path".
std::string cgroup_path(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto second = line.rfind(':');
    const auto first = line.find(':');
    if (first == std::string::npos || second == first) continue;
    if (line.substr(first + 1, second - first - 1) == controller) return line.substr(second + 1);
  }
  return {};
}

// The tightest numeric value of `leaf` from the group up to the mount: a parent's limit binds too.
std::optional<std::uint64_t> tightest_limit(const std::filesystem::path& mount,
                                            std::filesystem::path group, const std::string& leaf) {
  std::optional<std::uint64_t> limit;
  for (;;) {
    const std::string text = first_line(mount / group.relative_path() / leaf);
    const std::uint64_t value =
        text.empty() || text == "max" ? 0 : std::strtoull(text.c_str(), nullptr, 10);
    // v1 writes "no limit" as a number near 2^63.
    if (value > 0 && value < (1ull << 60)) limit = std::min(limit.value_or(value), value);
    if (group.empty() || group == "/") return limit;
    group = group.parent_path();
  }
}

std::optional<std::uint64_t> cgroup_memory_limit() {
  if (auto v2 = tightest_limit("/sys/fs/cgroup", cgroup_path(""), "memory.max")) return v2;
  return tightest_limit("/sys/fs/cgroup/memory", cgroup_path("memory"), "memory.limit_in_bytes");
}

// Whole CPUs that one group's quota allows; nothing without a quota. v2 holds "QUOTA PERIOD" in one
// file, v1 in two, with -1 for "no quota".
std::optional<int> quota_cpus(const std::filesystem::path& group) {
  std::string text = first_line(group / "cpu.max");
  if (text.empty()) {
    text = first_line(group / "cpu.cfs_quota_us") + " " + first_line(group / "cpu.cfs_period_us");
  }
  std::istringstream fields(text);
  double quota_us = 0;
  double period_us = 0;
  if (!(fields >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return std::nullopt;
  return std::max(1, static_cast<int>(std::ceil(quota_us / period_us)));
}

// The tightest quota from the group up to the mount.
std::optional<int> tightest_quota(const std::filesystem::path& mount, std::filesystem::path group) {
  std::optional<int> tightest;
  for (;;) {
    if (const auto cpus = quota_cpus(mount / group.relative_path())) {
      tightest = std::min(tightest.value_or(*cpus), *cpus);
    }
    if (group.empty() || group == "/") return tightest;
    group = group.parent_path();
  }
}

std::optional<int> cgroup_cpus() {
  if (const auto v2 = tightest_quota("/sys/fs/cgroup", cgroup_path(""))) return v2;
  return tightest_quota("/sys/fs/cgroup/cpu", cgroup_path("cpu,cpuacct"));
}

using CpuMask = decltype(CpuShare::mask);

int count_of(const CpuMask& mask) {
  int count = 0;
  for (const std::uint64_t word : mask) count += std::popcount(word);
  return count;
}

bool holds(const CpuMask& mask, const CpuMask& part) {
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if ((part[i] & ~mask[i]) != 0) return false;
  }
  return true;
}

// In pages; zeros when unreadable.
struct Statm {
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;  // mapped files and shared memory
};

Statm read_statm() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0;
  Statm pages;
  if (!(file >> size >> pages.resident >> pages.shared)) return {};
  return pages;
}

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

HostInfo read_host_info() {
  HostInfo info;
  utsname names{};
  if (::uname(&names) == 0) {
    info.hostname = names.nodename;
    info.kernel = std::string(names.sysname) + " " + names.release;
  }
  info.cpu_model = cpu_model();
  info.online_cpus = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const CpuShare share = own_cpu_share();
  info.usable_cpus = usable_together({&share, 1});
  if (info.usable_cpus == 0) info.usable_cpus = info.online_cpus;
  info.memory_total_bytes = meminfo_bytes("MemTotal");
  info.memory_available_bytes = meminfo_bytes("MemAvailable");
  info.cgroup_memory_bytes = cgroup_memory_limit();
  std::istringstream(first_line("/proc/loadavg")) >> info.load_1min;
  return info;
}

CpuShare own_cpu_share() {
  CpuShare share;
  cpu_set_t set;
  CPU_ZERO(&set);
  static_assert(sizeof set == sizeof share.mask);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    share.mask = std::bit_cast<CpuMask>(set);
  }
  share.quota = cgroup_cpus().value_or(0);
  return share;
}

int usable_together(std::span<const CpuShare> shares) {
  CpuMask all{};
  int quota = std::numeric_limits<int>::max();
  for (const CpuShare& share : shares) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i] |= share.mask[i];
    if (share.quota > 0) quota = std::min(quota, share.quota);
  }
  return std::min(count_of(all), quota);
}

bool have_a_cpu_each(std::span<const CpuShare> shares) {
  if (static_cast<std::size_t>(usable_together(shares)) < shares.size()) return false;
  return std::all_of(shares.begin(), shares.end(), [&](const CpuShare& share) {
    const auto inside = std::count_if(shares.begin(), shares.end(), [&](const CpuShare& other) {
      return holds(share.mask, other.mask);
    });
    return inside <= count_of(share.mask);
  });
}

std::uint64_t resident_bytes() { return read_statm().resident * page_bytes(); }

std::uint64_t anonymous_resident_bytes() {
  const Statm pages = read_statm();
  return (pages.resident - std::min(pages.shared, pages.resident)) * page_bytes();
}

}  // namespace nqd
