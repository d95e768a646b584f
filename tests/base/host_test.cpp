#include "base/host.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <vector>

namespace nqd {
namespace {

TEST_CASE("what the host says about itself is plausible") {
  const HostInfo host = read_host_info();
  CHECK_FALSE(host.hostname.empty());
  CHECK(host.kernel.starts_with("Linux "));
  CHECK(host.online_cpus == ::sysconf(_SC_NPROCESSORS_ONLN));
  CHECK(host.usable_cpus >= 1);
  CHECK(host.usable_cpus <= host.online_cpus);
  CHECK(host.memory_total_bytes > (64ull << 20));
  CHECK(host.memory_available_bytes > 0);
  CHECK(host.memory_available_bytes < host.memory_total_bytes);
  double load = -1;
  std::ifstream("/proc/loadavg") >> load;
  REQUIRE(load >= 0);
  CHECK(std::abs(host.load_1min - load) < 1);  // it moves slowly
}

CpuShare share_of(std::uint64_t low, std::uint64_t high = 0, int quota = 0) {
  CpuShare share;
  share.mask[0] = low;
  share.mask[15] = high;
  share.quota = quota;
  return share;
}

TEST_CASE("CPUs that processes may use together are the union within the lowest quota") {
  CHECK(usable_together({}) == 0);
  CHECK(usable_together(std::vector{share_of(0b0110), share_of(0b0011, 1)}) == 4);
  CHECK(usable_together(std::vector{share_of(0b1111, 0, 3), share_of(0b1111, 0, 2)}) == 2);
  const CpuShare own = own_cpu_share();
  CHECK(usable_together({&own, 1}) == read_host_info().usable_cpus);
}

TEST_CASE("processes have a CPU each where their masks and quotas leave one for each") {
  CHECK(have_a_cpu_each(std::vector{share_of(0b11), share_of(0b11)}));
  CHECK(have_a_cpu_each(std::vector{share_of(0b01), share_of(0b10)}));
  CHECK(have_a_cpu_each(std::vector{share_of(0b01), share_of(0b11)}));
  CHECK_FALSE(have_a_cpu_each(std::vector{share_of(0b11), share_of(0b11), share_of(0b11)}));
  // Plenty of CPUs, but two are bound to one.
  CHECK_FALSE(have_a_cpu_each(std::vector{share_of(0b01), share_of(0b01), share_of(0xf0)}));
  CHECK_FALSE(have_a_cpu_each(std::vector{share_of(0b11, 0, 1), share_of(0b11, 0, 1)}));
}

TEST_CASE("the memory limit is the cgroup's only where it is below what exists") {
  HostInfo host;
  CHECK(host.memory_limit_bytes() == 0);
  host.memory_total_bytes = 100;
  CHECK(host.memory_limit_bytes() == 100);
  host.cgroup_memory_bytes = 40;
  CHECK(host.memory_limit_bytes() == 40);
  host.cgroup_memory_bytes = 400;
  CHECK(host.memory_limit_bytes() == 100);
  host.memory_total_bytes = 0;
  CHECK(host.memory_limit_bytes() == 400);
}

TEST_CASE("the resident set grows by what is touched") {
  const std::uint64_t before = resident_bytes();
  CHECK(before > 100'000);
  constexpr std::size_t kBytes = 64 << 20;
  std::vector<char> block(kBytes, 1);
  const std::uint64_t after = resident_bytes();
  CHECK(block[kBytes / 2] == 1);
  CHECK(after - before > kBytes * 9 / 10);
  CHECK(after - before < kBytes * 6);  // a sanitizer's shadow memory is part of the set
}

}  // namespace
}  // namespace nqd
