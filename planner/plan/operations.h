// What a run asks of its surroundings: input rate, money, days; and whether its batch is too large.
#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "planner/plan/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

// Bytes of one training sample as it is read: int32 token ids, float32 features of a time series,
// 8-bit pictures (edsr: the low- and the high-resolution one; unet: input and condition). 0 = not
// known (state, custom).
double sample_bytes(const ModelSpec& model);

// Ingest is samples/s · sample_bytes over the nodes in use; money needs cluster.price_per_gpu_hour,
// days need train.tokens and a family with tokens. Unknown parts are 0.
OperationsPlan plan_operations(const Config& config, const TimePlan& time);

// Warnings: NQD1310, the global batch lies above the gradient noise scale, so that doubling it buys
// less than half as much (McCandlish et al. 2018, arXiv:1812.06162: steps(B) ∝ 1 + B_noise/B);
// NQD1311, the run reads faster than cluster.ingest_bytes_per_s delivers.
std::vector<Diagnostic> check_operations(const Config& config, const OperationsPlan& operations);

}  // namespace nqd::planner
