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
