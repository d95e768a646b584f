#include "planner/plan/plan.h"

#include <iterator>
#include <utility>

#include "planner/layout/layout.h"
#include "planner/plan/alternatives.h"
#include "planner/plan/communication.h"
#include "planner/plan/memory.h"
#include "planner/plan/operations.h"
#include "planner/plan/pipeline.h"
#include "planner/plan/recommend.h"
#include "planner/plan/time.h"
#include "planner/planner.h"

namespace nqd::planner {
namespace {

void append(std::vector<Diagnostic>& to, std::vector<Diagnostic> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

Plan make_plan(const Config& config) {
  Plan plan;
  plan.config = config;
  plan.parameters = static_cast<double>(parameter_count(config.model));
  plan.diagnostics = check_mesh(config);
  plan.valid = !has_errors(plan.diagnostics);
  // Numbers of a mesh that cannot exist would only be followed by errors of their own.
  if (!plan.valid) return plan;

  plan.memory = plan_memory(config);
  append(plan.diagnostics, check_fit(config, plan.memory));
  append(plan.diagnostics, check_memory(config, plan.memory));

  plan.pipeline = plan_pipeline(config);
  ComputePlan compute = plan_compute(config);
  CommunicationPlan communication = plan_communication(config, compute.micro_batch);
  price_traffic(compute.step, communication.traffic);
  plan.communication = communication.traffic;
  plan.time = plan_time(config, compute, communication);
  append(plan.diagnostics, check_pipeline(config, plan.pipeline, plan.time));
  if (plan.time.step_s > 0) {
    plan.time.samples_per_s =
        static_cast<double>(config.train.global_batch_size) / plan.time.step_s;
  }
  plan.operations = plan_operations(config, plan.time);
  append(plan.diagnostics, check_operations(config, plan.operations));
  const ModelFlops flops = sample_flops(config.model, config.train.recompute);
  plan.mfu = utilisation(config, flops.model * plan.time.samples_per_s);
  plan.hfu = utilisation(config, flops.hardware * plan.time.samples_per_s);
  append(plan.diagnostics, std::move(compute.diagnostics));
  append(plan.diagnostics, std::move(communication.diagnostics));

  plan.valid = !has_errors(plan.diagnostics);
  plan.recommendation = recommend(config, plan.memory);
  return plan;
}

}  // namespace nqd::planner
