// Which schedules exist: the same rules as for a config, with the values of a command line.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "planner/rules/legality.h"
#include "planner/schedule/schedule.h"

namespace nqd::planner {
namespace {

constexpr std::int64_t kMaximumActions = 10'000'000;

void require_counts(const ScheduleSpec& spec) {
  const auto positive = [](const char* what, std::int64_t value) {
    if (value >= 1) return;
    throw Error(ExitCode::kUsage, "NQD1009",
                std::string(what) + " = " + std::to_string(value) + " is out of range",
                "the smallest is 1");
  };
  positive("stages p", spec.stages);
  positive("micro-batches m", spec.micro_batches);
  positive("virtual stages v", spec.virtual_stages);
  const std::int64_t phases = splits_backward(spec.schedule) ? 3 : 2;
  // By division: the product may not fit.
  if (kMaximumActions / phases / spec.stages / spec.virtual_stages / spec.micro_batches > 0) return;
  const std::int64_t fits = kMaximumActions / phases / spec.stages / spec.virtual_stages;
  throw Error(
      ExitCode::kUsage, "NQD1009",
      "a schedule has at most 10,000,000 actions, and p·m·v·" + std::to_string(phases) + " is more",
      fits > 0 ? "with these stages m is at most " + std::to_string(fits) : "use fewer stages");
}

std::string text(std::int64_t value) { return std::to_string(value); }

[[noreturn]] void refuse_virtual_stages(const ScheduleSpec& spec) {
  const std::string shown(name(spec.schedule));
  const std::string got = ", but v = " + text(spec.virtual_stages);
  if (spec.schedule == Schedule::kInterleaved) {
    throw Error(ExitCode::kNo, "NQD1223", "the interleaved schedule needs v > 1" + got,
                "use v = 2, or the schedule 1f1b");
  }
  if (spec.schedule == Schedule::kZbV) {
    throw Error(ExitCode::kNo, "NQD1223",
                "the schedule zb-v needs v = 2, the two arms of its V" + got, "use v = 2");
  }
  throw Error(ExitCode::kNo, "NQD1223", "the schedule " + shown + " needs v = 1" + got,
              "use v = 1, or the schedule interleaved");
}

// All but gpipe and 1f1b.
void require_pipeline(const ScheduleSpec& spec) {
  if (spec.stages > 1 || rules::schedule_takes(spec.schedule, spec.stages, spec.virtual_stages))
    return;
  const bool interleaved = spec.schedule == Schedule::kInterleaved;
  throw Error(ExitCode::kNo, interleaved ? "NQD1210" : "NQD1232",
              "the schedule " + std::string(name(spec.schedule)) + " needs a pipeline, but p = 1",
              "use p = 2 or more, or the schedule 1f1b");
}

void require_groups(const ScheduleSpec& spec) {
  const std::int64_t p = spec.stages;
  const std::int64_t m = spec.micro_batches;
  if (rules::micro_batches_grouped(spec.schedule, p, m)) return;
  const std::int64_t below = m / p * p;
  throw Error(
      ExitCode::kNo, "NQD1211",
      "the interleaved schedule needs micro-batches in multiples of p, but m = " + text(m) +
          " and p = " + text(p),
      "the nearest legal m is " + (below > 0 ? text(below) + " or " : "") + text(below + p));
}

}  // namespace

void require_legal(const ScheduleSpec& spec) {
  require_counts(spec);
  if (!rules::schedule_takes(spec.schedule, std::max<std::int64_t>(spec.stages, 2),
                             spec.virtual_stages)) {
    refuse_virtual_stages(spec);
  }
  require_pipeline(spec);
  require_groups(spec);
}

}  // namespace nqd::planner
