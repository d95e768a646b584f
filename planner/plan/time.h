// Arithmetic of a GPT step and the seconds that it takes.
#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "planner/estimate/time_model.h"
#include "planner/plan/communication.h"
#include "planner/plan/plan.h"
#include "planner/reference/step_time.h"
#include "planner/spec.h"

namespace nqd::planner {

// Floating-point operations, forward and backward (a multiply-add is 2).
struct ModelFlops {
  // What the model needs: three times its forward's matrix products, convolutions and attention, of
  // which the causal half of the s × s scores counts; element-wise work does not. Of a GPT
  // 6·Φ_matmul + 6·L·s·h a token, Φ_matmul = L(4h² + 2hf) + V·h. The numerator of MFU.
  double model = 0;
  // The same and what is recomputed: with full recomputation the forward again but for the head,
  // with selective the attention core. The numerator of HFU.
  double hardware = 0;
};
// Of one sample: a sequence, a picture, or what a custom block says. Zeros for family state.
ModelFlops sample_flops(const ModelSpec& model, Recompute recompute);
// Of one token. Zeros for families without tokens.
ModelFlops token_flops(const ModelSpec& model, Recompute recompute);

// Rate at which a device multiplies matrices: cluster.gemm_flops when measured, else
// device.gemm_share of its peak; 0 = unknown.
double gemm_rate_flops(const ClusterSpec& cluster);

struct ComputePlan {
  // Slowest stage. nqd's CPU engine: its kernels at the rates of cluster.engine_rates, else
  // products at gemm_rate_flops and passes at the memory bandwidth (planner/reference/step_time.h).
  // Devices: TimeModel's, with the communication that they wait for.
  MicroBatchTime micro_batch;
  double optimizer_s = 0;
  StepTime step;            // devices; !known for the CPU engine
  ReferenceTime reference;  // the CPU engine
  bool known = false;
  // NQD1306 for each rate that is missing; the warning NQD1308 when a calibrated rate is far below
  // the stated peak; those of reference_time.
  std::vector<Diagnostic> diagnostics;
};
ComputePlan plan_compute(const Config& config);

// CPU engine: plan_reference_time. Devices: the parts of TimeModel's step. Zeros unless all rates
// are known.
TimePlan plan_time(const Config& config, const ComputePlan& compute,
                   const CommunicationPlan& communication);

// Times of the traffic of devices: TimeModel's by group, in proportion to what the calls would take
// one after another. Nothing changes when `step` is not known.
void price_traffic(const StepTime& step, std::vector<GroupTraffic>& traffic);

// FLOPs a second of the whole job over the dense peak of its devices; 0 = unknown.
double utilisation(const Config& config, double flops_per_s);

}  // namespace nqd::planner
