// Long loops over elements, divided among the threads of a rank.
#pragma once

#include <cstdint>

#include "engine/threads/worker_pool.h"

namespace nqd::engine {

// Below this many elements waking the others costs more than they save.
inline constexpr std::int64_t kSharedElements = 1 << 15;

// Calls f(worker, begin, end) for parts that cover [0, count) once, at the same time on the workers
// of `pool`; null, or a short count: the whole, as worker 0.
template <typename F>
void share_out(WorkerPool* pool, std::int64_t count, const F& f) {
  if (pool == nullptr || pool->threads() == 1 || count < kSharedElements) {
    f(0, std::int64_t{0}, count);
    return;
  }
  pool->run([&](int worker) {
    const WorkerShare share = worker_share(count, worker, pool->threads());
    f(worker, share.begin, share.end);
  });
}

}  // namespace nqd::engine
