// How long a step of nqd's own engine takes: its kernel calls (planner/reference/work.h) at the
// rates that `nqd bench engine` measured, the pipeline's schedule event by event, and the calls
// that nothing hides.
#pragma once

#include <cstdint>
#include <vector>

#include "base/diagnostic.h"
#include "planner/plan/communication.h"
#include "planner/plan/plan.h"
#include "planner/reference/kernels.h"
#include "planner/schedule/closed_form.h"
#include "planner/spec.h"

namespace nqd::planner {

// Ranks that compute on one host at once.
std::int64_t ranks_on_host(const Config& config);

// The measured rates of the config's numerics, precision and threads; of several, those with the
// number of ranks nearest to ranks_on_host. Null where there are none.
const EngineRates* engine_rates(const Config& config);

// Whether the thread of a rank that communicates has a CPU of its own. Without one a collective
// takes the time from the computation beside it, and nothing is hidden. True where the number of
// CPUs is unknown.
bool progress_has_cpu(const Config& config);

// Seconds of the calls, `rates.in_place` included. Kernels that were not measured are appended to
// `missing`, once each, and cost nothing.
double kernel_seconds(const EngineRates& rates, const std::vector<KernelCall>& calls, bool causal,
                      std::vector<Kernel>& missing);

struct ReferenceTime {
  std::vector<PhaseTimes> chunks;  // by chunk of the model: one micro-batch, no communication
  MicroBatchTime slowest;          // of the stages, one micro-batch
  double optimizer_s = 0;          // of the stage that takes longest
  // NQD1306 for kernels without a rate, whose times are then unknown; NQD1305 where the rates were
  // measured with another number of ranks at once.
  std::vector<Diagnostic> diagnostics;
  bool known = true;
};
// Without rates of its kernels those of assumed_rates. Precondition: runs_on_reference_engine, both
// assumed rates above 0 where there are no measured ones.
ReferenceTime reference_time(const Config& config);

// The step: every chunk's action as long as its kernels and the exposed calls in it, messages
// between stages as long as one send, and at the end what comes once. bubble_s is what the slowest
// stage waits with messages free; what messages add counts as exposed.
TimePlan plan_reference_time(const Config& config, const ReferenceTime& compute,
                             const CommunicationPlan& communication);

}  // namespace nqd::planner
