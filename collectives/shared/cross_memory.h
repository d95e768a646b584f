// Cross-memory attach: reading the private memory of another process of this host (Linux
// process_vm_readv), which containers often forbid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nqd::collectives {

// Copies data.size() bytes at `address` of process `pid`. Returns 0, or the errno that the kernel
// gave: EPERM and ENOSYS where it is forbidden, ESRCH when the process is gone, EFAULT when it has
// no such memory.
int read_process_memory(std::int64_t pid, std::uint64_t address, std::span<std::byte> data);

}  // namespace nqd::collectives
