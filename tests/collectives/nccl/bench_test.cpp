// The sweep over NCCL on emulated devices, and what is told of devices and of NCCL's log.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>

#include "base/file.h"
#include "collectives/nccl/bench_device.h"
#include "collectives/nccl/bootstrap.h"
#include "collectives/nccl/log_capture.h"
#include "collectives/nccl/topology.h"
#include "collectives/world.h"
#include "tests/collectives/nccl/emulated_device.h"
#include "tests/collectives/nccl/emulated_nccl.h"
#include "tests/temporary_folder.h"

namespace nqd::collectives {
namespace {

// Rank 0's sweep.
DeviceSweep sweep(int ranks, const BenchOptions& options, bool graph) {
  emulated::Device device(ranks);
  emulated::Nccl nccl;
  DeviceSweep mine;
  run_threads(ranks, {}, [&](Communicator& world) {
    const auto nccl_world = open_nccl(world, device, nccl, {});
    NcclBenchDevice bench(*nccl_world, graph);
    DeviceSweep all = run_bench(world, options, bench);
    if (world.rank() == 0) mine = std::move(all);
  });
  CHECK(device.live() == 0);
  CHECK(nccl.live() == 0);
  return mine;
}

BenchOptions options_of(Collective collective) {
  BenchOptions options;
  options.collective = collective;
  options.begin_bytes = 1024;
  options.end_bytes = 4096;
  options.factor = 4;
  options.warmup = 1;
  options.iterations = 3;
  return options;
}

TEST_CASE("every collective is verified and timed on devices") {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
        Collective::kBroadcast, Collective::kReduce, Collective::kGather, Collective::kScatter,
        Collective::kAllToAll, Collective::kSendRecv}) {
    CAPTURE(name(collective));
    const DeviceSweep swept = sweep(3, options_of(collective), collective == Collective::kReduce);
    REQUIRE(swept.result.rows.size() == 2);
    REQUIRE(swept.estimates_s.size() == 2);
    const bool estimated = collective == Collective::kAllReduce ||
                           collective == Collective::kBroadcast ||
                           collective == Collective::kReduce;
    for (std::size_t i = 0; i < 2; ++i) {
      const BenchRow& row = swept.result.rows[i];
      CHECK(row.backend == "nccl");
      CHECK(row.algorithm == "library");
      CHECK(row.checked);
      CHECK(row.wrong == 0);
      CHECK(row.samples_s.size() == 3);
      CHECK(swept.estimates_s[i].has_value() == estimated);
    }
  }
}

TEST_CASE("in place, registered, cold, as graphs, and between two ranks") {
  BenchOptions options = options_of(Collective::kAllReduce);
  options.in_place = true;
  options.registered = true;
  CHECK(sweep(2, options, true).result.rows[1].wrong == 0);
  options.registered = false;
  options.cold = true;
  const DeviceSweep cold = sweep(2, options, false);
  CHECK(cold.result.rows[1].wrong == 0);
  CHECK(cold.result.rows[1].copies > 1);
  BenchOptions pair = options_of(Collective::kSendRecv);
  pair.pair = {2, 0};
  const DeviceSweep pingpong = sweep(3, pair, false);
  CHECK(pingpong.result.rows[1].wrong == 0);
  CHECK(pingpong.result.rows[1].ranks == 2);
}

// Loses a byte of every vector on its way back to the host.
class Forgetful final : public BenchDevice {
 public:
  explicit Forgetful(BenchDevice& inner) : inner_(inner) {}
  std::string_view backend() const override { return "nccl"; }
  void allocate(std::size_t full, std::size_t second, bool registered) override {
    inner_.allocate(full, second, registered);
  }
  std::span<std::byte> full() override { return inner_.full(); }
  std::span<std::byte> second() override { return inner_.second(); }
  void copy(std::span<std::byte> to, std::span<const std::byte> from) override {
    inner_.copy(to, from);
    if (from.data() == inner_.second().data()) to.front() ^= std::byte{1};
  }
  void run(const BenchSteps& steps) override { inner_.run(steps); }
  std::vector<double> time(std::size_t calls, const std::function<BenchSteps()>& next) override {
    return inner_.time(calls, next);
  }
  std::optional<double> estimate_s(const BenchSteps&) override { return std::nullopt; }

 private:
  BenchDevice& inner_;
};

TEST_CASE("a wrong element on a device is counted") {
  emulated::Device device(2);
  emulated::Nccl nccl;
  run_threads(2, {}, [&](Communicator& world) {
    const auto nccl_world = open_nccl(world, device, nccl, {});
    NcclBenchDevice bench(*nccl_world, false);
    Forgetful forgetful(bench);
    const DeviceSweep swept = run_bench(world, options_of(Collective::kAllReduce), forgetful);
    CHECK(swept.result.rows[0].wrong == 2);  // one a rank
  });
}

TEST_CASE("pairs of GPUs are counted by what joins them") {
  std::vector<DeviceRecord> devices(3);
  devices[0].peers = {"X", "NVL", "SYS"};
  devices[1].peers = {"NVL", "X", "NVL"};
  devices[2].peers = {"SYS", "NVL", "X"};
  CHECK(pairs_text(devices) == "3 GPUs, 3 pairs: 2 NVL, 1 SYS");
}

TEST_CASE("devices of a job, and the way between PCI devices") {
  CHECK(pci_relation("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", 0,
                     "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", 0) == "PIX");
  CHECK(pci_relation("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", 0,
                     "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0/0000:1a:00.0/"
                     "0000:1b:00.0",
                     0) == "PXB");
  CHECK(pci_relation("pci0000:15/0000:15:01.0/0000:16:00.0", 0, "pci0000:15/0000:15:02.0", 0) ==
        "PHB");
  CHECK(pci_relation("pci0000:15/0000:15:01.0", 0, "pci0000:25/0000:25:01.0", 0) == "NODE");
  CHECK(pci_relation("pci0000:15/0000:15:01.0", 0, "pci0000:25/0000:25:01.0", 1) == "SYS");
  CHECK(pci_relation("pci0000:15/0000:15:01.0", -1, "pci0000:25/0000:25:01.0", -1) == "SYS");

  const testing::TemporaryFolder folder;
  SystemRoots roots;
  roots.sys = folder.path();
  // Two emulated devices; the first hangs on the switch that an adapter hangs on.
  const auto device_folder = [&](const std::string& path, int node) {
    const auto full = folder.path() / "devices" / path;
    std::filesystem::create_directories(full);
    write_file(full / "numa_node", std::to_string(node) + "\n");
    return full;
  };
  std::filesystem::create_directories(folder.path() / "bus/pci/devices");
  std::filesystem::create_directories(folder.path() / "class/infiniband/mlx5_0");
  std::filesystem::create_symlink(device_folder("pci0000:15/0000:15:01.0/0000:00:00.0", 1),
                                  folder.path() / "bus/pci/devices/0000:00:00.0");
  std::filesystem::create_symlink(device_folder("pci0000:15/0000:15:01.0/0000:16:00.0", 1),
                                  folder.path() / "class/infiniband/mlx5_0/device");
  emulated::Device device(2);
  WorldOptions hosts;
  hosts.pretended_hosts = {"a", "b"};
  run_threads(2, hosts, [&](Communicator& world) {
    const auto all = gather_devices(world, device, world.rank(), roots);
    REQUIRE(all.size() == 2);
    CHECK(all[0].uuid == "GPU-10101010-1010-1010-1010-101010101010");
    CHECK(all[1].host == "b");
    CHECK(all[1].ordinal == 1);
    CHECK(all[0].numa_node == 1);
    CHECK(all[1].numa_node == -1);
    CHECK(all[0].peers == std::vector<std::string>{"X", "NET"});
    CHECK(all[0].adapters == std::vector<std::pair<std::string, std::string>>{{"mlx5_0", "PIX"}});
    CHECK(all[1].adapters.empty());
  });
}

TEST_CASE("NCCL's log is read once a process, from where NCCL writes it") {
  const testing::TemporaryFolder folder;
  ::setenv("NCCL_DEBUG_FILE", (folder / "log.%p.%%").c_str(), 1);
  {
    const NcclLogCapture capture;
    CHECK(std::string(std::getenv("NCCL_DEBUG")) == "INFO");
    CHECK(capture.read().empty());
    write_file(folder / ("log." + std::to_string(::getpid()) + ".%"), "a line of NCCL\n");
    run_threads(3, {}, [&](Communicator& world) {
      CHECK(gather_nccl_logs(world, capture) ==
            std::vector<std::string>{"a line of NCCL\n", "", ""});
    });
  }
  // A file that the user named stays.
  CHECK(!std::filesystem::is_empty(folder.path()));
  ::unsetenv("NCCL_DEBUG_FILE");
  std::filesystem::path own;
  {
    const NcclLogCapture capture;
    own = std::getenv("NCCL_DEBUG_FILE");
    write_file(own, "x");
    CHECK(capture.read() == "x");
  }
  CHECK(!std::filesystem::exists(own));
  for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"}) ::unsetenv(name);
}

}  // namespace
}  // namespace nqd::collectives
