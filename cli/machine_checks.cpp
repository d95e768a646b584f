#include "cli/machine_checks.h"

#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "cli/gpu_checks.h"
#include "collectives/world.h"
#include "engine/gemm/gemm.h"
#include "reports/envelope.h"
#include "reports/html.h"
#include "reports/page/format.h"

namespace nqd::cli {
namespace {

using reports::MachineCheck;

MachineCheck ok(std::string name, std::string detail) {
  return {std::move(name), "ok", std::move(detail), ""};
}
MachineCheck warn(std::string name, std::string detail, std::string advice) {
  return {std::move(name), "warn", std::move(detail), std::move(advice)};
}
MachineCheck missing(std::string name, std::string detail, std::string advice) {
  return {std::move(name), "missing", std::move(detail), std::move(advice)};
}

// Empty when the file cannot be read: this kernel does not offer the setting.
std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

MachineCheck check_build() {
  const reports::BuildInfo build = reports::build_info();
  const std::string detail = "nqd " + build.version + ", commit " + build.git_commit + ", " +
                             build.build_type + " build, " + build.compiler;
  if (build.build_type == "Debug") {
    return warn("build", detail, "measure with a Release build: cmake --workflow --preset release");
  }
  return ok("build", detail);
}

void check_backends(std::vector<MachineCheck>& checks) {
  bool any = false;
  for (const collectives::BackendStatus& backend : collectives::backend_status()) {
    any = any || backend.available;
    const std::string name = "backend " + backend.name;
    if (backend.available) {
      checks.push_back(ok(name, backend.detail.empty() ? "available" : backend.detail));
    } else {
      checks.push_back(
          warn(name, backend.detail,
               "runs over this backend are refused; build nqd with it if you need it"));
    }
  }
  if (!any) checks.push_back(missing("backends", "none in this build", "build nqd again"));
}

MachineCheck check_gemm() {
  const engine::GemmLibrary gemm = engine::gemm_library();
  const std::string detail = gemm.name + " " + gemm.version + ", core " + gemm.core;
  if (gemm.warning.empty()) return ok("matrix products", detail);
  return warn("matrix products", detail + ": " + gemm.warning,
              "unset what forces the core, or install the optimized library");
}

MachineCheck check_cpus(const HostInfo& host) {
  const std::string detail = std::to_string(host.usable_cpus) + " of " +
                             std::to_string(host.online_cpus) + " CPUs usable, load " +
                             reports::fixed(host.load_1min, 2) +
                             (host.cpu_model.empty() ? "" : ", " + host.cpu_model);
  if (host.usable_cpus == 1) {
    return warn("processor", detail,
                "two ranks will take turns on one CPU; their latencies measure the scheduler");
  }
  if (host.load_1min > 0.5 * host.usable_cpus) {
    return warn("processor", detail, "other work runs here: measurements will be noisy");
  }
  return ok("processor", detail);
}

MachineCheck check_memory(const HostInfo& host) {
  if (host.memory_total_bytes == 0) {
    return warn("memory", "/proc/meminfo cannot be read", "mount /proc in the container");
  }
  const auto text = [](std::uint64_t bytes) {
    return reports::short_bytes(static_cast<double>(bytes));
  };
  const std::string detail =
      text(host.memory_limit_bytes()) + " may be used" +
      (host.cgroup_memory_bytes ? " (cgroup limit " + text(*host.cgroup_memory_bytes) + ")" : "") +
      ", " + text(host.memory_available_bytes) + " available now";
  constexpr std::uint64_t kLittle = 1ull << 30;
  if (std::min(host.memory_limit_bytes(), host.memory_available_bytes) < kLittle) {
    return warn("memory", detail, "below 1 GiB only the smallest configs run");
  }
  return ok("memory", detail);
}

MachineCheck check_huge_pages() {
  const std::string modes = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (modes.empty()) {
    return warn("huge pages", "this kernel offers no transparent huge pages",
                "large buffers take more page faults; nothing to mend inside a container");
  }
  if (modes.find("[never]") != std::string::npos) {
    return warn("huge pages", "transparent huge pages are off",
                "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
  }
  return ok("huge pages", "transparent huge pages: " + modes);
}

MachineCheck check_shared_memory() {
  struct statvfs info {};
  if (::statvfs("/dev/shm", &info) != 0) {
    return warn("/dev/shm", std::string("not there: ") + std::strerror(errno),
                "mount a tmpfs on /dev/shm: MPI moves messages inside a host through it");
  }
  const double size = static_cast<double>(info.f_frsize) * static_cast<double>(info.f_blocks);
  const double free = static_cast<double>(info.f_frsize) * static_cast<double>(info.f_bavail);
  const std::string detail =
      reports::short_bytes(size) + ", " + reports::short_bytes(free) + " free";
  constexpr double kEnough = 256.0 * 1024 * 1024;
  if (free < kEnough) {
    return warn("/dev/shm", detail,
                "MPI inside a host may fail with SIGBUS; give the container more (--shm-size=1g)");
  }
  return ok("/dev/shm", detail);
}

// Whether one rank may read another's memory in one copy. Reading oneself shows whether the call is
// let through at all; Yama's scope, whether unrelated processes may.
MachineCheck check_cross_memory() {
  const std::string name = "process_vm_readv";
  std::array<char, 8> source{'n', 'q', 'd'};
  std::array<char, 8> target{};
  const iovec local{target.data(), target.size()};
  const iovec remote{source.data(), source.size()};
  const auto copied = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  if (copied != static_cast<ssize_t>(source.size()) || source != target) {
    return warn(name, std::string("refused: ") + std::strerror(errno),
                "MPI copies twice instead of once; in a container allow it with "
                "--cap-add=SYS_PTRACE");
  }
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  if (!scope.empty() && scope != "0" && ::geteuid() != 0) {
    return warn(name, "kernel.yama.ptrace_scope is " + scope + ": not between unrelated processes",
                "MPI copies twice instead of once; sudo sysctl kernel.yama.ptrace_scope=0");
  }
  return ok(name, "allowed");
}

void check_clock_and_governor(std::vector<MachineCheck>& checks) {
  const std::string clock =
      first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (clock == "hpet" || clock == "acpi_pm" || clock == "jiffies") {
    checks.push_back(warn("clock", clock, "reading it costs microseconds: latencies look longer"));
  } else if (!clock.empty()) {
    checks.push_back(ok("clock", clock));
  }
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor == "powersave" || governor == "conservative") {
    checks.push_back(warn("frequency governor", governor,
                          "clocks rise late; measure with: sudo cpupower frequency-set -g "
                          "performance"));
  } else if (!governor.empty()) {
    checks.push_back(ok("frequency governor", governor));
  }
}

bool has_backend(std::string_view name) {
  const auto backends = collectives::backend_status();
  return std::any_of(backends.begin(), backends.end(),
                     [&](const collectives::BackendStatus& backend) {
                       return backend.name == name && backend.available;
                     });
}

MachineCheck check_launcher() {
  try {
    const collectives::LaunchIdentity identity = collectives::read_launch_identity();
    if (identity.launcher == "none") {
      return ok("launcher", "none: --ranks N starts the ranks as threads of this process");
    }
    const std::string detail = identity.launcher + ": rank " + std::to_string(identity.rank) +
                               " of " + std::to_string(identity.world_size) + ", from " +
                               identity.rank_source;
    const bool by_mpi = has_backend("mpi") && identity.launcher != "torchrun";
    if (identity.world_size > 1 && !by_mpi) {
      return warn("launcher", detail + ", but they cannot meet by MPI",
                  "on one host pass --rendezvous file:PATH to nqd train; on several build nqd with "
                  "NQD_WITH_MPI=ON and start it with mpirun");
    }
    return ok("launcher", detail);
  } catch (const Error& error) {
    return missing("launcher", error.what(), error.hint());
  }
}

}  // namespace

std::vector<MachineCheck> check_machine(const HostInfo& host) {
  std::vector<MachineCheck> checks;
  checks.push_back(check_build());
  check_backends(checks);
  for (MachineCheck& check : check_gpus()) checks.push_back(std::move(check));
  checks.push_back(check_gemm());
  checks.push_back(check_launcher());
  checks.push_back(check_cpus(host));
  checks.push_back(check_memory(host));
  checks.push_back(check_huge_pages());
  checks.push_back(check_shared_memory());
  checks.push_back(check_cross_memory());
  check_clock_and_governor(checks);
  checks.push_back(ok("chart library", reports::chart_library() + ", inside this binary"));
  return checks;
}

}  // namespace nqd::cli
