#include "base/machine.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace nqd {
namespace {

namespace fs = std::filesystem;

// Empty when the file cannot be read: an interface that is down refuses its speed.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::int64_t> whole(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

std::uint64_t counter(const fs::path& path) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, whole(first_line(path)).value_or(0)));
}

// Names in a folder, sorted; none when it is not there.
std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// "always [madvise] never" has madvise in force.
std::string chosen_mode(const std::string& modes) {
  const auto open = modes.find('[');
  const auto close = modes.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return modes;
  return modes.substr(open + 1, close - open - 1);
}

std::vector<NetworkInterface> read_interfaces(const fs::path& folder) {
  std::vector<NetworkInterface> interfaces;
  for (const std::string& name : entries(folder)) {
    const fs::path path = folder / name;
    NetworkInterface interface;
    interface.name = name;
    interface.state = first_line(path / "operstate");
    // -1: the driver knows none.
    const auto speed = whole(first_line(path / "speed"));
    if (speed && *speed > 0) interface.speed_mbps = speed;
    interface.sent_bytes = counter(path / "statistics/tx_bytes");
    interface.received_bytes = counter(path / "statistics/rx_bytes");
    interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

std::vector<RdmaPort> read_rdma_ports(const fs::path& folder) {
  constexpr std::uint64_t kCounterBytes = 4;
  std::vector<RdmaPort> ports;
  for (const std::string& device : entries(folder)) {
    for (const std::string& number : entries(folder / device / "ports")) {
      const fs::path path = folder / device / "ports" / number;
      RdmaPort port;
      port.device = device;
      port.port = static_cast<int>(whole(number).value_or(0));
      const std::string state = first_line(path / "state");  // "4: ACTIVE"
      port.state = state.substr(std::min(state.size(), state.find_last_of(' ') + 1));
      port.link_layer = first_line(path / "link_layer");
      std::istringstream(first_line(path / "rate")) >> port.rate_gbits;  // "100 Gb/sec (4X EDR)"
      port.sent_bytes = kCounterBytes * counter(path / "counters/port_xmit_data");
      port.received_bytes = kCounterBytes * counter(path / "counters/port_rcv_data");
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

fs::path root_or(const char* variable, const char* usual) {
  const char* const given = std::getenv(variable);
  return given == nullptr || *given == '\0' ? usual : given;
}

}  // namespace

SystemRoots system_roots() {
  return {root_or("NQD_SYS_ROOT", "/sys"), root_or("NQD_PROC_ROOT", "/proc")};
}

MachineState read_machine_state(const SystemRoots& roots) {
  MachineState state;
  const fs::path huge_pages = roots.sys / "kernel/mm/transparent_hugepage";
  state.thp_enabled = chosen_mode(first_line(huge_pages / "enabled"));
  state.thp_shmem_enabled = chosen_mode(first_line(huge_pages / "shmem_enabled"));
  state.governor = first_line(roots.sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor");
  state.ptrace_scope = first_line(roots.proc / "sys/kernel/yama/ptrace_scope");
  state.numa_nodes = first_line(roots.sys / "devices/system/node/online");
  std::istringstream(first_line(roots.proc / "loadavg")) >> state.load_1min;
  state.interfaces = read_interfaces(roots.sys / "class/net");
  state.rdma_ports = read_rdma_ports(roots.sys / "class/infiniband");
  return state;
}

std::vector<int> affinity_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> numa_nodes_of(const std::vector<int>& cpus, const SystemRoots& roots) {
  std::vector<int> nodes;
  const fs::path folder = roots.sys / "devices/system/node";
  for (const std::string& name : entries(folder)) {
    const auto number = name.starts_with("node") ? whole(name.substr(4)) : std::nullopt;
    if (!number) continue;
    const std::vector<int> members = parse_cpu_list(first_line(folder / name / "cpulist"));
    const bool holds = std::any_of(members.begin(), members.end(), [&](int cpu) {
      return std::binary_search(cpus.begin(), cpus.end(), cpu);
    });
    if (holds) nodes.push_back(static_cast<int>(*number));
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

std::string format_cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (last > i) text += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto first = whole(part);
    if (!first) continue;
    const auto dash = part.find('-');
    const auto last = dash == std::string::npos ? first : whole(part.substr(dash + 1));
    for (std::int64_t cpu = *first; last && cpu <= *last && cpu < CPU_SETSIZE; ++cpu) {
      cpus.push_back(static_cast<int>(cpu));
    }
  }
  return cpus;
}

}  // namespace nqd
