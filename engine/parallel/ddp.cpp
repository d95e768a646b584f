#include "engine/parallel/ddp.h"

#include <chrono>
#include <utility>

namespace nqd::engine {

DdpReducer::DdpReducer(collectives::Communicator& dp, std::span<float> gradients,
                       std::vector<planner::Bucket> buckets, collectives::Algorithm algorithm)
    : dp_(dp), gradients_(gradients), buckets_(std::move(buckets)), algorithm_(algorithm) {}

void DdpReducer::begin() {
  pending_.clear();
  next_ = 0;
}

void DdpReducer::ready(std::int64_t ready_from) {
  for (; next_ < buckets_.size() && buckets_[next_].begin >= ready_from; ++next_) {
    if (dp_.size() == 1 || static_cast<std::ptrdiff_t>(next_) == skipped_) continue;
    const planner::Bucket& bucket = buckets_[next_];
    const auto part = gradients_.subspan(static_cast<std::size_t>(bucket.begin),
                                         static_cast<std::size_t>(bucket.count));
    pending_.push_back(dp_.all_reduce_async(std::as_writable_bytes(part), DType::kFloat32,
                                            collectives::ReduceOp::kSum, algorithm_));
  }
}

double DdpReducer::finish() {
  const auto start = std::chrono::steady_clock::now();
  for (collectives::Work& work : pending_) work.wait();
  pending_.clear();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace nqd::engine
