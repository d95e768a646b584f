#include "tests/cases/exchange_cases.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/cost.h"
#include "collectives/host_map.h"
#include "tests/cases/case_values.h"

namespace nqd::collectives {
namespace {

class Exchange {
 public:
  Exchange(Communicator& world, CaseReport& report)
      : world_(world),
        report_(report),
        n_(static_cast<std::size_t>(world.size())),
        rank_(static_cast<std::size_t>(world.rank())) {}

  void parts_of_any_length(Algorithm algorithm, Memory memory, std::size_t unit);
  // A message around the ring of ranks.
  void long_message(std::size_t bytes, Memory memory);
  void started_calls(Algorithm reducing, Algorithm gathering);
  // Vectors that travel in pieces.
  void long_vectors(Algorithm algorithm);
  void equal_bits();

 private:
  // Elements that `from` gives `to`: uneven, some empty.
  static std::size_t given(std::size_t from, std::size_t to, std::size_t unit) {
    return (7 * from + 3 * to) % 5 * unit;
  }
  static double value(std::size_t from, std::size_t to, std::size_t i) {
    return static_cast<double>((1000 * from + 100 * to + i) % 100'003);
  }
  void check(bool passed, const std::string& what) {
    ++report_.checks;
    if (passed || report_.failures.size() >= 8) return;
    report_.failures.push_back("rank " + std::to_string(rank_) + ": " + what);
  }

  Communicator& world_;
  CaseReport& report_;
  std::size_t n_;
  std::size_t rank_;
};

void Exchange::parts_of_any_length(Algorithm algorithm, Memory memory, std::size_t unit) {
  std::vector<std::size_t> in_counts(n_);
  std::vector<std::size_t> out_counts(n_);
  for (std::size_t r = 0; r < n_; ++r) {
    in_counts[r] = given(rank_, r, unit);
    out_counts[r] = given(r, rank_, unit);
  }
  Values in(DType::kInt32, std::accumulate(in_counts.begin(), in_counts.end(), std::size_t{0}),
            memory);
  Values out(DType::kInt32, std::accumulate(out_counts.begin(), out_counts.end(), std::size_t{0}),
             memory);
  std::size_t place = 0;
  for (std::size_t to = 0; to < n_; ++to) {
    for (std::size_t i = 0; i < in_counts[to]; ++i) in.set(place++, value(rank_, to, i));
  }
  world_.reset_traffic();
  world_.all_to_all_v(in.bytes(), in_counts, out.bytes(), out_counts, DType::kInt32, algorithm);
  bool right = true;
  place = 0;
  for (std::size_t from = 0; from < n_; ++from) {
    for (std::size_t i = 0; i < out_counts[from]; ++i) {
      right = right && out.get(place++) == value(from, rank_, i);
    }
  }
  const std::string what =
      "all_to_all_v " + std::string(name(algorithm)) + " in units of " + std::to_string(unit);
  check(right, what);
  const TrafficCount sent = world_.traffic().at({world_.group(), Collective::kAllToAll});
  // Messages leave with what is given; a direct exchange reads what is taken.
  const std::size_t moved = algorithm == Algorithm::kDirect ? out.count() - out_counts[rank_]
                                                            : in.count() - in_counts[rank_];
  check(sent.bytes_sent == 4 * moved && sent.messages == n_ - 1, "traffic of " + what);
  world_.reset_traffic();
}

void Exchange::long_message(std::size_t bytes, Memory memory) {
  if (n_ == 1) return;
  Values data(DType::kUInt8, bytes, memory);
  const int right = static_cast<int>((rank_ + 1) % n_);
  const int left = static_cast<int>((rank_ + n_ - 1) % n_);
  if (rank_ == 0) {
    fill_input(data, ReduceOp::kSum, 5);
    world_.send(data.bytes(), right);
    fill_input(data, ReduceOp::kSum, 6);
  }
  world_.receive(data.bytes(), left);
  Values expected(DType::kUInt8, bytes);
  fill_input(expected, ReduceOp::kSum, 5);
  check(data == expected, "a message of " + std::to_string(bytes) + " bytes");
  if (rank_ != 0) world_.send(data.bytes(), right);
}

void Exchange::started_calls(Algorithm reducing, Algorithm gathering) {
  constexpr std::size_t kCount = 3001;
  const Chunk mine = chunk_of(kCount, n_, rank_);
  Values sum(DType::kFloat32, kCount);
  fill_input(sum, ReduceOp::kSum, rank_);
  Values in(DType::kInt64, kCount);
  fill_input(in, ReduceOp::kMax, rank_);
  Values shard(DType::kInt64, mine.count);
  Values all(DType::kInt64, kCount);
  Values told(DType::kUInt8, kCount);
  if (rank_ == n_ - 1) fill_input(told, ReduceOp::kSum, 1);
  std::vector<Work> works;
  works.push_back(world_.start(
      {Collective::kReduceScatter, in.bytes(), shard.bytes(), DType::kInt64, ReduceOp::kMax},
      reducing));
  works.push_back(world_.all_reduce_async(sum.bytes(), DType::kFloat32, ReduceOp::kSum, reducing));
  // Reads what the first one, still in flight, will have written.
  works.push_back(
      world_.start({Collective::kAllGather, shard.bytes(), all.bytes(), DType::kInt64}, gathering));
  works.push_back(world_.start({Collective::kBroadcast,
                                {},
                                told.bytes(),
                                DType::kUInt8,
                                ReduceOp::kSum,
                                static_cast<int>(n_) - 1},
                               Algorithm::kAuto));
  works.push_back(world_.start({}, Algorithm::kAuto));
  for (std::size_t i = works.size(); i-- > 0;) works[i].wait();
  bool right = true;
  for (std::size_t i = 0; i < kCount; ++i) {
    right = right && sum.get(i) == expected_value(ReduceOp::kSum, n_, i, DType::kFloat32);
    right = right && all.get(i) == expected_value(ReduceOp::kMax, n_, i, DType::kInt64);
    right = right && told.get(i) == input_value(ReduceOp::kSum, 1, i);
  }
  check(right, "several started collectives in flight");
}

void Exchange::long_vectors(Algorithm algorithm) {
  constexpr std::size_t kCount = 700'001;
  const auto sum_at = [&](std::size_t i) {
    return static_cast<std::int32_t>(n_ * (i % 1000) + n_ * (n_ - 1) / 2);
  };
  const auto is_sum = [&](std::span<const std::int32_t> got, std::size_t begin) {
    bool right = true;
    for (std::size_t i = 0; i < got.size(); ++i) right = right && got[i] == sum_at(begin + i);
    return right;
  };
  const auto traffic_is = [&](Collective collective, Algorithm ran) {
    const TrafficCount sent = world_.traffic().at({world_.group(), collective});
    const RankTraffic cost = rank_traffic(collective, ran, n_, rank_, kCount, 4);
    world_.reset_traffic();
    return sent.bytes_sent == cost.bytes_sent && sent.messages == cost.messages;
  };
  const std::string what = " of a long vector, " + std::string(name(algorithm));
  const int last = static_cast<int>(n_) - 1;
  std::vector<std::int32_t> in(kCount);
  for (std::size_t i = 0; i < kCount; ++i) in[i] = static_cast<std::int32_t>(i % 1000 + rank_);
  std::vector<std::int32_t> out(kCount);
  const auto given = bytes_of(std::span<const std::int32_t>(in));
  const auto taken = writable_bytes_of(std::span(out));
  world_.reset_traffic();
  world_.all_reduce(given, taken, DType::kInt32, ReduceOp::kSum, algorithm);
  check(is_sum(out, 0) && traffic_is(Collective::kAllReduce, algorithm), "all_reduce" + what);
  if (algorithm == Algorithm::kTree) {
    world_.reduce(given, taken, DType::kInt32, ReduceOp::kSum, last, algorithm);
    check(world_.rank() != last || is_sum(out, 0), "reduce" + what);
    if (world_.rank() != last) std::fill(out.begin(), out.end(), 0);
    world_.broadcast(taken, last, algorithm);
    check(is_sum(out, 0), "broadcast" + what);
  } else {
    const Chunk mine = chunk_of(kCount, n_, rank_);
    const auto shard = std::span(out).first(mine.count);
    world_.reduce_scatter(given, writable_bytes_of(shard), DType::kInt32, ReduceOp::kSum,
                          algorithm);
    check(is_sum(shard, mine.begin) && traffic_is(Collective::kReduceScatter, algorithm),
          "reduce_scatter" + what);
  }
  const auto both = writable_bytes_of(std::span(in));
  world_.all_reduce(both, both, DType::kInt32, ReduceOp::kSum, algorithm);
  check(is_sum(in, 0), "all_reduce in place" + what);
}

void Exchange::equal_bits() {
  // Sums that round: every rank must hold the same bits, whatever the algorithm.
  for (const Algorithm algorithm :
       {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveDoubling,
        Algorithm::kHalvingDoubling, Algorithm::kHierarchical, Algorithm::kDirect}) {
    if (algorithm == Algorithm::kDirect && host_map_of(world_).hosts() > 1) continue;
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      Values data(type, 777);
      for (std::size_t i = 0; i < 777; ++i)
        data.set(i, 1.0 / static_cast<double>(3 + i + 5 * rank_));
      world_.all_reduce(data.bytes(), data.bytes(), type, ReduceOp::kSum, algorithm);
      Values of_rank_0(type, 777);
      std::ranges::copy(data.bytes(), of_rank_0.bytes().begin());
      world_.broadcast(of_rank_0.bytes(), 0);
      check(data == of_rank_0, "ranks differ in bits");
    }
  }
  world_.reset_traffic();
}

}  // namespace

void run_exchange_cases(Communicator& world, CaseReport& report) {
  Exchange exchange(world, report);
  const bool pulls = world.chosen(Collective::kAllToAll, Algorithm::kAuto) == Algorithm::kDirect;
  const bool own_choice = world.backend() == "nccl";
  for (const std::size_t unit : {0, 1, 777}) {
    exchange.parts_of_any_length(own_choice ? Algorithm::kAuto : Algorithm::kPairwise,
                                 Memory::kPrivate, unit);
    if (host_map_of(world).hosts() > 1 || own_choice) continue;
    if (pulls) exchange.parts_of_any_length(Algorithm::kDirect, Memory::kPrivate, unit);
    exchange.parts_of_any_length(Algorithm::kDirect, Memory::kShared, unit);
  }
  // As long as a cell of the shm backend, a byte longer, and longer than all cells together.
  for (const std::size_t bytes : {32'768u, 32'769u, 1'000'001u}) {
    exchange.long_message(bytes, Memory::kPrivate);
    exchange.long_message(bytes, Memory::kShared);
  }
  exchange.started_calls(Algorithm::kAuto, Algorithm::kAuto);
  if (own_choice) return;
  exchange.started_calls(Algorithm::kRing, Algorithm::kRing);
  exchange.equal_bits();
  // On more ranks the chunks of a ring are short again.
  if (world.size() <= 5) {
    exchange.long_vectors(Algorithm::kRing);
    exchange.long_vectors(Algorithm::kTree);
  }
  world.reset_traffic();
}

}  // namespace nqd::collectives
