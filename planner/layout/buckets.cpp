#include "planner/layout/buckets.h"

namespace nqd::planner {

std::vector<Bucket> gradient_buckets(const std::vector<TensorSpec>& tensors,
                                     std::int64_t bucket_bytes, std::int64_t element_bytes) {
  std::int64_t begin = 0;
  for (const TensorSpec& tensor : tensors) begin += tensor.elements();

  std::vector<Bucket> buckets;
  Bucket open{begin, 0};
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    const std::int64_t count = tensor->elements();
    if (open.count > 0 && (open.count + count) * element_bytes > bucket_bytes) {
      buckets.push_back(open);
      open.count = 0;
    }
    begin -= count;
    open = {begin, open.count + count};
  }
  if (open.count > 0) buckets.push_back(open);
  return buckets;
}

}  // namespace nqd::planner
