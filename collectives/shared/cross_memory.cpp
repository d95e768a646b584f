#include "collectives/shared/cross_memory.h"

#include <sys/types.h>
#include <sys/uio.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

namespace nqd::collectives {
namespace {

bool switched_off() {
  static const bool off = [] {
    const char* const value = std::getenv("NQD_CROSS_MEMORY");
    return value != nullptr && std::string_view(value) == "off";
  }();
  return off;
}

}  // namespace

int read_process_memory(std::int64_t pid, std::uint64_t address, std::span<std::byte> data) {
  if (switched_off()) return EPERM;
  std::size_t done = 0;
  while (done < data.size()) {
    const iovec mine{data.data() + done, data.size() - done};
    // An address of the other process: it is never dereferenced here.
    const iovec theirs{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address + done)),
                       data.size() - done};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(pid), &mine, 1, &theirs, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EFAULT;
    done += static_cast<std::size_t>(got);
  }
  return 0;
}

std::string cross_memory_obstacle() {
  if (switched_off()) return "NQD_CROSS_MEMORY=off";
  const int mine = 0;
  int copy = 0;
  const int code = read_process_memory(::getpid(), reinterpret_cast<std::uintptr_t>(&mine),
                                       std::as_writable_bytes(std::span(&copy, 1)));
  if (code != 0) return std::string("process_vm_readv fails: ") + std::strerror(code);
  // Yama, https://docs.kernel.org/admin-guide/LSM/Yama.html: from 1 on a process may be read by its
  // ancestors alone, which ranks are not of each other, unless the reader has CAP_SYS_PTRACE.
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  if (scope > 0 && ::geteuid() != 0) return "ptrace_scope is " + std::to_string(scope);
  return {};
}

}  // namespace nqd::collectives
