#include "tests/engine/allocations/counting_new.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> calls{0};
std::atomic<std::int64_t> held{0};
std::atomic<std::int64_t> largest{0};

void* count(void* block, std::size_t bytes) {
  if (block == nullptr) throw std::bad_alloc();
  calls.fetch_add(1, std::memory_order_relaxed);
  held.fetch_add(static_cast<std::int64_t>(::malloc_usable_size(block)), std::memory_order_relaxed);
  const auto size = static_cast<std::int64_t>(bytes);
  std::int64_t most = largest.load(std::memory_order_relaxed);
  while (size > most && !largest.compare_exchange_weak(most, size, std::memory_order_relaxed)) {
  }
  return block;
}

void release(void* block) {
  if (block == nullptr) return;
  held.fetch_sub(static_cast<std::int64_t>(::malloc_usable_size(block)), std::memory_order_relaxed);
  std::free(block);
}

void* aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(step, (bytes + step - 1) / step * step);
}

}  // namespace

namespace nqd::testing {

Allocations allocations() { return {calls.load(), held.load(), largest.load()}; }
void forget_largest() { largest.store(0); }

}  // namespace nqd::testing

// The array, sized and nothrow forms of the standard library call these.
void* operator new(std::size_t bytes) { return count(std::malloc(bytes > 0 ? bytes : 1), bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return count(aligned(bytes, alignment), bytes);
}
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { release(block); }
