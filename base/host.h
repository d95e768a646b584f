// What this process may use of its host: name, cores, memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace nqd {

struct HostInfo {
  std::string hostname;
  std::string kernel;     // "Linux 6.1.0-18-amd64"
  std::string cpu_model;  // "AMD EPYC 7763 64-Core Processor", or empty when unknown
  int online_cpus = 0;
  int usable_cpus = 0;  // affinity mask and cgroup quota applied, at least 1
  std::uint64_t memory_total_bytes = 0;
  std::uint64_t memory_available_bytes = 0;  // MemAvailable
  // The cgroup's limit (v2 memory.max or v1 limit_in_bytes, nearest ancestor), when there is one.
  std::optional<std::uint64_t> cgroup_memory_bytes;
  double load_1min = 0;

  // What a job on this host may allocate: MemTotal, or the cgroup's limit where it is lower (a
  // limit above the memory that exists promises nothing). 0 when neither could be read.
  std::uint64_t memory_limit_bytes() const {
    if (!cgroup_memory_bytes) return memory_total_bytes;
    if (memory_total_bytes == 0) return *cgroup_memory_bytes;
    return std::min(*cgroup_memory_bytes, memory_total_bytes);
  }
};

// Reads /proc and /sys; an unreadable entry leaves its field at the default.
HostInfo read_host_info();

// The CPUs that a process may use. Plain data, which processes hand to each other.
struct CpuShare {
  std::array<std::uint64_t, 16> mask{};  // of CPUs 0 to 1023, from the affinity of its thread
  std::int32_t quota = 0;                // CPUs that its cgroup allows; 0 = no limit
};
CpuShare own_cpu_share();
// CPUs that processes of one host may use together: the union, within the lowest quota. 0 when
// unknown.
int usable_together(std::span<const CpuShare> shares);
// Whether each of these processes of one host can have a CPU to itself. By Hall's condition on the
// masks that occur: none holds more of the masks than CPUs. That suffices where masks are equal,
// apart or inside one another, as launchers bind.
bool have_a_cpu_each(std::span<const CpuShare> shares);

// Resident set of this process now, in bytes (/proc/self/statm); 0 when unreadable.
std::uint64_t resident_bytes();

// The anonymous part of it: heap and stacks, without mapped files and shared memory.
std::uint64_t anonymous_resident_bytes();

}  // namespace nqd
