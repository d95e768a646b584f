// What the engine sends, worked out by hand for small models on ranks that share memory, where a
// call of n ranks moves (direct): all_reduce 2(n−1) line-aligned parts, reduce_scatter n−1 parts,
// all_gather all other parts; up to 8 KiB all_reduce and reduce_scatter (n−1) vectors.
#include "planner/reference/traffic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "collectives/cost.h"
#include "planner/reference/reference_plan.h"
#include "tests/planner/reference/reference_config.h"

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;
using collectives::Numerics;

constexpr std::int64_t kRows = 2 * kSequence;
constexpr std::int64_t kStream = kRows * kHidden;

Config gpt(std::int64_t dp, std::int64_t tp = 1, std::int64_t pp = 1) {
  return small_gpt(2, dp, tp, pp);
}

struct Sent {
  double calls = 0;
  double bytes = 0;
  std::string algorithm;
};

Sent sent(const Config& config, std::int64_t rank, const std::string& group,
          Collective collective) {
  for (const GroupTraffic& row : reference_traffic(config, rank)) {
    if (row.group == group && row.collective == name(collective)) {
      return {row.calls, row.bytes_sent_per_rank, row.algorithm};
    }
  }
  return {};
}

std::size_t rows_of(const Config& config, std::int64_t rank = 0) {
  return reference_traffic(config, rank).size();
}

// Bytes of one direct call on `count` elements.
double direct(Collective collective, std::int64_t ranks, std::int64_t count,
              std::int64_t element_bytes = 4) {
  return static_cast<double>(collectives::rank_traffic(collective, Algorithm::kDirect,
                                                       std::size_t(ranks), 0, std::size_t(count),
                                                       std::size_t(element_bytes))
                                 .bytes_sent);
}

TEST_CASE("one rank sends nothing") {
  for (const Engine engine : {Engine::kDdp, Engine::kZero2, Engine::kZero3}) {
    Config config = gpt(1);
    config.parallel.engine = engine;
    CHECK(rows_of(config) == 0);
  }
}

TEST_CASE("ddp: an all_reduce of each bucket, the gradient of the tied head among them") {
  Config config = gpt(2);
  config.train.bucket_bytes = 1'000'000'000;
  const std::int64_t elements = kVocab * kHidden + kSequence * kHidden + 4 * kLayer + 2 * kHidden;
  const Sent canonical = sent(config, 0, "dp", Collective::kAllReduce);
  CHECK(canonical.calls == 1);
  CHECK(canonical.algorithm == "direct");
  CHECK(canonical.bytes == direct(Collective::kAllReduce, 2, elements + kVocab * kHidden));
  config.numerics.mode = Numerics::kFast;
  CHECK(sent(config, 0, "dp", Collective::kAllReduce).bytes ==
        direct(Collective::kAllReduce, 2, elements));
  config.train.bucket_bytes = 1;
  // 2 + 4·12 + 2 tensors.
  CHECK(sent(config, 0, "dp", Collective::kAllReduce).calls == 52);
}

TEST_CASE("ddp: three micro-batches a rank leave two partial sums, exchanged in parts") {
  Config config = gpt(2);
  config.train.global_batch_size = 12;
  config.train.bucket_bytes = 1'000'000'000;
  const Sent parts = sent(config, 0, "dp", Collective::kAllToAll);
  const Sent gather = sent(config, 0, "dp", Collective::kAllGather);
  CHECK(parts.calls == 2);
  CHECK(gather.calls == 1);
  const double vector = 4.0 * static_cast<double>(2 * kVocab * kHidden + kSequence * kHidden +
                                                  4 * kLayer + 2 * kHidden);
  // Leaves 0 1 2 | 3 4 5 are (0 1) 2 | 3 (4 5): the other rank's two halves, then its half.
  CHECK(parts.bytes == 2 * vector / 2);
  CHECK(gather.bytes == vector / 2);
  CHECK(rows_of(config) == 2);
}

TEST_CASE("zero1: once a step; zero2: gradients of every micro-batch") {
  Config config = gpt(4);
  config.parallel.engine = Engine::kZero1;
  const auto units = [](Collective collective, std::int64_t tied) {
    return (1 + tied) * direct(collective, 4, kVocab * kHidden) +
           direct(collective, 4, kSequence * kHidden) + 4 * direct(collective, 4, kLayer) +
           direct(collective, 4, 2 * kHidden);
  };
  const Sent reduced = sent(config, 0, "dp", Collective::kReduceScatter);
  const Sent gathered = sent(config, 0, "dp", Collective::kAllGather);
  // Embedding, positions, four layers, final norm; the tied head has a gradient alone.
  CHECK(reduced.calls == 8);
  CHECK(reduced.bytes == units(Collective::kReduceScatter, 1));
  CHECK(gathered.calls == 7);
  CHECK(gathered.bytes == units(Collective::kAllGather, 0));
  config.parallel.engine = Engine::kZero2;
  CHECK(sent(config, 0, "dp", Collective::kReduceScatter).bytes == 2 * reduced.bytes);
  CHECK(sent(config, 0, "dp", Collective::kAllGather).bytes == gathered.bytes);
  // bfloat16 weights are gathered as such, gradients reduced as float32.
  config.train.precision = config.train.gradient_precision = Precision::kBFloat16;
  CHECK(sent(config, 0, "dp", Collective::kReduceScatter).bytes == 2 * reduced.bytes);
  CHECK(sent(config, 0, "dp", Collective::kAllGather).bytes == gathered.bytes / 2);
}

TEST_CASE("zero2 on three ranks: canonical leaves are exchanged whole, fast ones reduced") {
  Config config = gpt(3);
  config.parallel.engine = Engine::kZero2;
  const Sent parts = sent(config, 0, "dp", Collective::kAllToAll);
  CHECK(parts.calls == 2 * 8);
  CHECK(sent(config, 0, "dp", Collective::kReduceScatter).calls == 0);
  config.numerics.mode = Numerics::kFast;
  CHECK(sent(config, 0, "dp", Collective::kReduceScatter).calls == 2 * 7);
  CHECK(sent(config, 0, "dp", Collective::kAllToAll).calls == 0);
}

TEST_CASE("hsdp: gathers and reductions in a shard group, shards over the replicas") {
  Config config = gpt(4);
  config.parallel.engine = Engine::kHsdp;
  config.parallel.hsdp_shard = 2;
  CHECK(sent(config, 1, "dp_shard", Collective::kReduceScatter).calls == 2 * 8);
  const Sent replicas = sent(config, 1, "dp_replicate", Collective::kAllReduce);
  CHECK(replicas.calls == 8);
  CHECK(replicas.bytes == 2 * direct(Collective::kAllReduce, 2, kVocab * kHidden / 2) +
                              direct(Collective::kAllReduce, 2, kSequence * kHidden / 2) +
                              4 * direct(Collective::kAllReduce, 2, kLayer / 2) +
                              direct(Collective::kAllReduce, 2, kHidden));
  CHECK(sent(config, 1, "dp", Collective::kAllReduce).calls == 0);
}

TEST_CASE("tp: two sums a layer forward and two backward, the embedding, the head and the loss") {
  Config config = gpt(1, 2);
  const Sent sums = sent(config, 1, "tp", Collective::kAllReduce);
  CHECK(sums.calls == 2 * (4 * 4 + 1 + 1 + 2));
  CHECK(sums.bytes == 2 * (18 * direct(Collective::kAllReduce, 2, kStream) +
                           direct(Collective::kAllReduce, 2, kRows) +
                           direct(Collective::kAllReduce, 2, 2 * kRows)));
  CHECK(rows_of(config) == 1);
  config.train.recompute = Recompute::kFull;
  CHECK(sent(config, 0, "tp", Collective::kAllReduce).calls == sums.calls + 2 * 4);
  // Of a group of two layers the first is computed to its end.
  config.train.recompute_every = 2;
  CHECK(sent(config, 0, "tp", Collective::kAllReduce).calls == sums.calls + 2 * (2 * 4 - 2));
  config.train.recompute = Recompute::kSelective;
  CHECK(sent(config, 0, "tp", Collective::kAllReduce).calls == sums.calls);
}

TEST_CASE("sequence parallelism: sums become scatters and gathers; norms are summed by unit") {
  Config config = gpt(1, 2);
  config.parallel.sequence_parallel = true;
  config.train.precision = Precision::kBFloat16;
  const Sent scatters = sent(config, 1, "tp", Collective::kReduceScatter);
  CHECK(scatters.calls == 2 * (4 * 4 + 2));
  // Rows of the token table are added in their own type: but for one they are zeros.
  CHECK(scatters.bytes == 2 * (17 * direct(Collective::kReduceScatter, 2, kStream) +
                               direct(Collective::kReduceScatter, 2, kStream, 2)));
  const Sent gathers = sent(config, 1, "tp", Collective::kAllGather);
  CHECK(gathers.calls == 2 * (4 * 6 + 2));
  CHECK(gathers.bytes == 2 * 26 * direct(Collective::kAllGather, 2, kStream, 2));
  // Two norms and two row-parallel biases a layer, the final norm, the positions; the loss.
  const Sent sums = sent(config, 1, "tp", Collective::kAllReduce);
  CHECK(sums.calls == 2 * (4 + 1 + 1 + 2));
  CHECK(sums.bytes == 2 * (4 * direct(Collective::kAllReduce, 2, 6 * kHidden) +
                           direct(Collective::kAllReduce, 2, 2 * kHidden) +
                           direct(Collective::kAllReduce, 2, kSequence * kHidden) +
                           direct(Collective::kAllReduce, 2, kRows) +
                           direct(Collective::kAllReduce, 2, 2 * kRows)));
}

TEST_CASE("pp: the stream across each boundary, and the tied table's gradient between the ends") {
  Config config = gpt(1, 1, 4);
  const double message = 4.0 * kStream;
  CHECK(sent(config, 0, "pp", Collective::kSendRecv).bytes == 2 * message);
  CHECK(sent(config, 1, "pp", Collective::kSendRecv).bytes == 4 * message);
  CHECK(sent(config, 3, "pp", Collective::kSendRecv).calls == 2);
  for (const std::int64_t end : {0, 3}) {
    const Sent tied = sent(config, end, "embedding", Collective::kAllReduce);
    CHECK(tied.calls == 1);
    CHECK(tied.bytes == direct(Collective::kAllReduce, 2, kVocab * kHidden));
  }
  CHECK(sent(config, 1, "embedding", Collective::kAllReduce).calls == 0);

  config.parallel.pp = 2;
  config.parallel.schedule = Schedule::kInterleaved;
  config.parallel.vpp = 2;
  // Chunks 0 2 | 1 3: forward 2 and backward 1, forward 1 and backward 2.
  CHECK(sent(config, 0, "pp", Collective::kSendRecv).calls == 2 * 3);
  CHECK(sent(config, 1, "pp", Collective::kSendRecv).calls == 2 * 3);
  // A V: chunk 1 hands chunk 2 its output on the same stage, and the ends need no exchange.
  config.parallel.schedule = Schedule::kZbV;
  CHECK(sent(config, 0, "pp", Collective::kSendRecv).calls == 2 * 2);
  CHECK(sent(config, 1, "pp", Collective::kSendRecv).calls == 2 * 2);
  CHECK(sent(config, 0, "embedding", Collective::kAllReduce).calls == 0);
}

TEST_CASE("ranks without shared memory: rings, and in canonical numerics what keeps the tree") {
  Config config = gpt(4);
  config.cluster.ranks_share_memory = false;
  config.parallel.engine = Engine::kZero1;
  CHECK(sent(config, 0, "dp", Collective::kReduceScatter).algorithm == "pairwise");
  CHECK(sent(config, 0, "dp", Collective::kAllGather).algorithm == "ring");
  config.numerics.mode = Numerics::kFast;
  CHECK(sent(config, 0, "dp", Collective::kReduceScatter).algorithm == "ring");
}

TEST_CASE("the plan has the busiest rank of each group and collective") {
  Config config = gpt(2, 2, 2);
  config.parallel.engine = Engine::kZero3;
  const ReferencePlan plan = plan_reference_engine(config);
  std::size_t rows = 0;
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    for (const GroupTraffic& own : reference_traffic(config, rank)) {
      const auto& all = plan.communication.traffic;
      const auto row = std::find_if(all.begin(), all.end(), [&](const GroupTraffic& other) {
        return other.group == own.group && other.collective == own.collective;
      });
      REQUIRE(row != all.end());
      CHECK(row->bytes_sent_per_rank >= own.bytes_sent_per_rank);
      CHECK(row->calls >= own.calls);
    }
    rows = std::max(rows, reference_traffic(config, rank).size());
  }
  // And the sums of a step, over all ranks.
  REQUIRE(plan.communication.traffic.size() == rows + 1);
  CHECK(plan.communication.traffic.back().group == "control");
  CHECK_FALSE(plan.communication.times_known);
  CHECK(plan.communication.diagnostics.size() == 1);
}

}  // namespace
}  // namespace nqd::planner
