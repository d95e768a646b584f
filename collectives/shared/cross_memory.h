// Cross-memory attach: reading the private memory of another process of this host (Linux
// process_vm_readv), which containers often forbid. NQD_CROSS_MEMORY=off in the environment forbids
// it too: what then happens is what happens there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nqd::collectives {

// Copies data.size() bytes at `address` of process `pid`. Returns 0, or the errno that the kernel
// gave: EPERM and ENOSYS where it is forbidden, ESRCH when the process is gone, EFAULT when it has
// no such memory.
int read_process_memory(std::int64_t pid, std::uint64_t address, std::span<std::byte> data);

// What this process can tell without a peer: why the memory of other processes of the same user
// cannot be read here, or empty.
std::string cross_memory_obstacle();

}  // namespace nqd::collectives
