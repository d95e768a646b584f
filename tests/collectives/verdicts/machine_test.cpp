#include "base/machine.h"

#include <doctest/doctest.h>

#include "base/file.h"
#include "collectives/bench/machine_record.h"
#include "collectives/world.h"
#include "tests/temporary_folder.h"

namespace nqd {
namespace {

void put(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  write_file(path, text);
}

TEST_CASE("CPU lists in the kernel's form") {
  CHECK(format_cpu_list({}).empty());
  CHECK(format_cpu_list({0, 1, 2, 3, 8}) == "0-3,8");
  CHECK(format_cpu_list({5}) == "5");
  CHECK(parse_cpu_list("0-3,8") == std::vector<int>{0, 1, 2, 3, 8});
  CHECK(parse_cpu_list("").empty());
  CHECK(parse_cpu_list("x,7").size() == 1);
}

TEST_CASE("a folder that looks like /sys and /proc is read as such") {
  const testing::TemporaryFolder folder;
  const SystemRoots roots{folder / "sys", folder / "proc"};
  put(roots.sys / "kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  put(roots.sys / "kernel/mm/transparent_hugepage/shmem_enabled", "always [never] deny force\n");
  put(roots.sys / "devices/system/node/online", "0-1\n");
  put(roots.sys / "devices/system/node/node0/cpulist", "0-3\n");
  put(roots.sys / "devices/system/node/node1/cpulist", "4-7\n");
  put(roots.sys / "class/net/eth0/operstate", "up\n");
  put(roots.sys / "class/net/eth0/speed", "25000\n");
  put(roots.sys / "class/net/eth0/statistics/tx_bytes", "123\n");
  put(roots.sys / "class/net/eth0/statistics/rx_bytes", "456\n");
  put(roots.sys / "class/net/veth1/operstate", "down\n");
  put(roots.sys / "class/net/veth1/speed", "-1\n");
  const auto port = roots.sys / "class/infiniband/mlx5_0/ports/1";
  put(port / "state", "4: ACTIVE\n");
  put(port / "rate", "100 Gb/sec (4X EDR)\n");
  put(port / "link_layer", "InfiniBand\n");
  put(port / "counters/port_xmit_data", "1000\n");
  put(roots.proc / "loadavg", "1.50 1.00 0.50 1/2 3\n");
  put(roots.proc / "sys/kernel/yama/ptrace_scope", "1\n");
  const MachineState state = read_machine_state(roots);
  CHECK(state.thp_enabled == "madvise");
  CHECK(state.thp_shmem_enabled == "never");
  CHECK(state.governor.empty());
  CHECK(state.ptrace_scope == "1");
  CHECK(state.numa_nodes == "0-1");
  CHECK(state.load_1min == 1.5);
  REQUIRE(state.interfaces.size() == 2);
  CHECK(state.interfaces[0].name == "eth0");
  CHECK(state.interfaces[0].speed_mbps == 25000);
  CHECK(state.interfaces[0].sent_bytes == 123);
  CHECK(state.interfaces[0].received_bytes == 456);
  CHECK_FALSE(state.interfaces[1].speed_mbps.has_value());
  REQUIRE(state.rdma_ports.size() == 1);
  CHECK(state.rdma_ports[0].name() == "mlx5_0:1");
  CHECK(state.rdma_ports[0].is_active());
  CHECK(state.rdma_ports[0].rate_gbits == 100);
  CHECK(state.rdma_ports[0].sent_bytes == 4000);
  CHECK(numa_nodes_of({2, 5}, roots) == std::vector<int>{0, 1});
  CHECK(numa_nodes_of({7}, roots) == std::vector<int>{1});
}

TEST_CASE("a machine that offers nothing is an empty record") {
  const testing::TemporaryFolder folder;
  const MachineState state = read_machine_state({folder / "none", folder / "none"});
  CHECK(state.thp_enabled.empty());
  CHECK(state.interfaces.empty());
  CHECK(state.rdma_ports.empty());
}

TEST_CASE("every rank gets the record of all") {
  collectives::run_threads(3, {}, [](collectives::Communicator& world) {
    const auto texts = collectives::gather_texts(
        world, std::string(static_cast<std::size_t>(5 * world.rank()), 'x'));
    REQUIRE(texts.size() == 3);
    for (std::size_t rank = 0; rank < 3; ++rank) CHECK(texts[rank].size() == 5 * rank);
    collectives::MachineRecord record = collectives::begin_record(world);
    REQUIRE(record.ranks.size() == 3);
    REQUIRE(record.hosts.size() == 1);
    CHECK(record.hosts[0].ranks == 3);
    CHECK(record.hosts[0].usable_cpus >= 1);
    CHECK(record.hosts[0].host == world.host(0));
    CHECK(record.ranks[2].cpus == affinity_cpus());
    CHECK(record.ranks[2].cross_memory == "not needed");
    CHECK(record.ranks[0].environment == own_environment());
    finish_record(world, record);
    CHECK(record.hosts[0].end.interfaces.size() == record.hosts[0].start.interfaces.size());
  });
}

}  // namespace
}  // namespace nqd
