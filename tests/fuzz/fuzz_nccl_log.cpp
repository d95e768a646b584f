#include "collectives/bench/fabric_promise.h"
#include "collectives/nccl/log.h"
#include "collectives/nccl/log_verdicts.h"
#include "tests/fuzz/entries.h"

namespace nqd::fuzz {

// Cut anywhere, so that the two texts also stand for two files of one process.
void nccl_log(std::string_view text) {
  const std::string_view halves[] = {text.substr(0, text.size() / 2), text.substr(text.size() / 2)};
  const collectives::NcclLog log = collectives::parse_nccl_logs(halves);
  require(log.cut_records <= log.records, "more cut records than records");
  require(log.processes.size() <= log.records, "a process without a record");
  collectives::FabricPromise promise;
  collectives::judge_nccl_log(log, promise, true);
  promise = {"fuzz", 50e9, 8, 8, 450e9, 1};
  collectives::judge_nccl_log(log, promise, false);
  require(collectives::nccl_record_begin(text) == std::string_view::npos ||
              collectives::nccl_record_begin(text) < text.size(),
          "a record begins behind its text");
}

}  // namespace nqd::fuzz
