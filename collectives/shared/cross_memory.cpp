#include "collectives/shared/cross_memory.h"

#include <sys/types.h>
#include <sys/uio.h>

#include <cerrno>

namespace nqd::collectives {

int read_process_memory(std::int64_t pid, std::uint64_t address, std::span<std::byte> data) {
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

}  // namespace nqd::collectives
