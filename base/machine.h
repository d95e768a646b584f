// What decides how fast ranks of a host exchange data: its CPUs and memory settings, its network
// interfaces and RDMA adapters with what they have moved.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nqd {

// Where the kernel's folders are mounted: NQD_SYS_ROOT and NQD_PROC_ROOT, or /sys and /proc. In a
// container they may be the host's, elsewhere; in a test, a folder of files.
struct SystemRoots {
  std::filesystem::path sys = "/sys";
  std::filesystem::path proc = "/proc";
};
SystemRoots system_roots();

// One entry of /sys/class/net.
struct NetworkInterface {
  std::string name;
  std::string state;                       // operstate: "up", "down", "unknown" (lo)
  std::optional<std::int64_t> speed_mbps;  // 10^6 bits a second; virtual interfaces have none
  std::uint64_t sent_bytes = 0;            // since it was made
  std::uint64_t received_bytes = 0;
};

// One port of /sys/class/infiniband. Its counters are in units of 4 bytes there
// (Documentation/ABI/stable/sysfs-class-infiniband), in bytes here.
struct RdmaPort {
  std::string device;  // "mlx5_0"
  int port = 1;
  std::string state;       // "ACTIVE", "DOWN", "INIT", "ARMED"
  std::string link_layer;  // "InfiniBand", "Ethernet"
  double rate_gbits = 0;   // 10^9 bits a second; 0 unknown
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  bool is_active() const { return state == "ACTIVE"; }
  std::string name() const { return device + ":" + std::to_string(port); }
};

// Texts are empty where the kernel or the container does not offer the entry.
struct MachineState {
  std::string thp_enabled;        // the mode in brackets: "always", "madvise", "never"
  std::string thp_shmem_enabled;  // the same of shared memory: "never", "advise", …
  std::string governor;           // of CPU 0: "performance", "powersave", …
  std::string ptrace_scope;       // Yama: "0" lets processes of one user read each other's memory
  std::string numa_nodes;         // online, "0-1"
  double load_1min = 0;
  std::vector<NetworkInterface> interfaces;  // by name
  std::vector<RdmaPort> rdma_ports;          // by device and port
};
// Never throws for what it finds or lacks.
MachineState read_machine_state(const SystemRoots& roots);

// CPUs that the calling thread may run on, ascending; empty when unknown.
std::vector<int> affinity_cpus();
// NUMA nodes that hold any of these CPUs, ascending.
std::vector<int> numa_nodes_of(const std::vector<int>& cpus, const SystemRoots& roots);

// The kernel's list form: "0-3,8" for {0, 1, 2, 3, 8}; "" for none.
std::string format_cpu_list(const std::vector<int>& cpus);
// Its inverse. Parts that are no numbers are left out.
std::vector<int> parse_cpu_list(const std::string& text);

}  // namespace nqd
