#include <doctest/doctest.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/cost.h"
#include "collectives/world.h"
#include "engine/parallel/agree.h"
#include "engine/parallel/ddp.h"

using namespace nqd;
using collectives::Algorithm;
using collectives::Communicator;

namespace {

// Three buckets of a 10-element arena, in completion order.
const std::vector<planner::Bucket> kBuckets = {{7, 3}, {4, 3}, {0, 4}};

std::vector<float> reduced(Communicator& comm, const std::vector<std::int64_t>& ready,
                           std::ptrdiff_t skipped = -1) {
  std::vector<float> gradients(10);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = static_cast<float>((comm.rank() + 1) * 100) + static_cast<float>(i);
  }
  engine::DdpReducer reducer(comm, gradients, kBuckets, Algorithm::kRing);
  if (skipped >= 0) reducer.skip_bucket_for_test(static_cast<std::size_t>(skipped));
  reducer.begin();
  for (const std::int64_t from : ready) reducer.ready(from);
  reducer.finish();
  return gradients;
}

float expected(int ranks, std::size_t i) {
  return static_cast<float>(100 * ranks * (ranks + 1) / 2) +
         static_cast<float>(ranks) * static_cast<float>(i);
}

}  // namespace

TEST_CASE("buckets are summed whatever the granularity of readiness") {
  for (const int ranks : {1, 2, 3}) {
    collectives::run_threads(ranks, {}, [&](Communicator& comm) {
      for (const std::vector<std::int64_t>& ready :
           {std::vector<std::int64_t>{0}, {7, 4, 0}, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, {5, 2, 0}}) {
        const std::vector<float> sum = reduced(comm, ready);
        for (std::size_t i = 0; i < sum.size(); ++i) {
          const std::string where = std::to_string(ranks) + " ranks, element " + std::to_string(i);
          if (sum[i] != expected(ranks, i)) throw Error(ExitCode::kNo, "test", where);
        }
      }
    });
  }
}

TEST_CASE("no bucket is sent before all of it is ready") {
  collectives::run_threads(2, {}, [](Communicator& comm) {
    std::vector<float> gradients(10, 1.0F);
    engine::DdpReducer reducer(comm, gradients, kBuckets, Algorithm::kRing);
    reducer.begin();
    reducer.ready(8);  // inside the first bucket
    comm.barrier();
    if (comm.traffic().contains({"world", collectives::Collective::kAllReduce})) {
      throw Error(ExitCode::kNo, "test", "a bucket left early");
    }
    reducer.ready(0);
    reducer.finish();
    const auto traffic = comm.traffic().at({"world", collectives::Collective::kAllReduce});
    if (traffic.calls != kBuckets.size()) throw Error(ExitCode::kNo, "test", "calls");
  });
}

TEST_CASE("a skipped bucket leaves its gradients local and sends fewer bytes") {
  collectives::run_threads(2, {}, [](Communicator& comm) {
    const std::vector<float> sum = reduced(comm, {0}, 1);
    if (sum[4] == expected(2, 4)) throw Error(ExitCode::kNo, "test", "not skipped");
    if (sum[0] != expected(2, 0)) throw Error(ExitCode::kNo, "test", "others are");
  });
}

TEST_CASE("an attempt that fails on one rank fails on all, with one loud error") {
  std::mutex mutex;
  int loud = 0;
  int thrown = 0;
  const auto body = [&](Communicator& comm) {
    try {
      engine::attempt_together(comm, [&] {
        if (comm.rank() == 1) {
          throw Error(ExitCode::kUsage, "NQD2001", "cannot read x", "check the path");
        }
      });
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      ++thrown;
      loud += error.quiet() ? 0 : 1;
      CHECK(error.exit_code() == ExitCode::kUsage);
      CHECK(error.code() == "NQD2001");
      CHECK(std::string(error.what()) == "cannot read x");
      CHECK(error.hint() == "check the path");
      CHECK(error.quiet() == (comm.rank() != 1));
    }
  };
  collectives::run_threads(3, {}, body);
  CHECK(thrown == 3);
  CHECK(loud == 1);
}

TEST_CASE("an attempt that succeeds everywhere returns") {
  collectives::run_threads(2, {}, [](Communicator& comm) {
    int ran = 0;
    engine::attempt_together(comm, [&] { ++ran; });
    if (ran != 1) throw Error(ExitCode::kNo, "test", "not run");
  });
}
