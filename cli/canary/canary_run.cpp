#include "cli/canary/canary_run.h"

#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/bench/session.h"
#include "collectives/world.h"
#include "engine/parallel/agree.h"
#include "engine/train/preflight.h"
#include "planner/calibration/calibration.h"
#include "reports/canary_json.h"

namespace nqd::cli {

engine::CanaryExpectation read_expectation(const std::string& calibration) {
  const planner::Calibration known = planner::read_calibration(calibration);
  return engine::canary_expectation(known.curves, known.gemm_flops,
                                    known.memory_bandwidth_bytes_per_s, calibration);
}

void check_canary_memory(const collectives::Communicator& world) {
  // Three arrays of 64 MiB of the copy, and messages.
  constexpr double kBytesPerRank = 200.0 * 1024 * 1024;
  engine::check_host_memory(kBytesPerRank, read_host_info(), collectives::ranks_on_this_host(world),
                            "run fewer ranks a host, or without the canary");
}

std::string canary_document(collectives::Communicator& world, const engine::CanaryResult& result,
                            const std::vector<std::string>& argv, int ranks_asked) {
  reports::Envelope envelope = reports::begin_envelope("canary", argv);
  envelope.world_size_asked = ranks_asked;
  envelope.world_size_actual = world.size();
  envelope.backend = world.backend();
  envelope.ranks = gather_ranks(world, collectives::read_launch_identity().launcher);
  envelope.ended_at = reports::now_utc();
  return reports::canary_json(envelope, result);
}

void refuse_slow(collectives::Communicator& world, const engine::CanaryExpectation& expectation,
                 const std::vector<std::string>& argv, const std::string& path) {
  engine::attempt_together(world, [&] { check_canary_memory(world); });
  const engine::CanaryResult result = engine::run_canary(world, expectation);
  const std::string document = canary_document(world, result, argv, world.size());
  engine::attempt_together(world, [&] {
    if (world.rank() != 0) return;
    write_file(path, document);
    std::string names;
    for (const collectives::Verdict& verdict : canary_verdicts(result)) {
      if (verdict.severity == "error") {
        names += "\n  " + verdict.evidence;
      } else {
        log::warn("canary: " + verdict.evidence + "\n  hint: " + verdict.next_step);
      }
    }
    if (!result.healthy()) {
      throw Error(ExitCode::kNo, "NQD3050", "the canary found what is slow:" + names,
                  "mend it, or run without it; " + path + " has the figures");
    }
    log::info("canary: nothing is slow (" + format_seconds(result.seconds) + ")");
  });
}

}  // namespace nqd::cli
