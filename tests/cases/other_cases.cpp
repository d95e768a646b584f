// What is no sweep of one collective: messages, work in flight, splits, the library's calls, bits.
#include <algorithm>
#include <array>
#include <numeric>

#include "tests/cases/rank_cases.h"

namespace nqd::collectives {

void Cases::barrier_and_send() {
  world_.barrier();
  const RankTraffic expected =
      one_host_ || own_choice_ ? RankTraffic{}
                               : rank_traffic(Collective::kBarrier, Algorithm::kAuto, n_, 0, 0, 1);
  check(world_.traffic().at({"world", Collective::kBarrier}).messages == expected.messages,
        "a barrier in shared memory sends nothing");
  world_.reset_traffic();
  if (n_ == 1) return;
  // A token walks the ring once: every rank receives, adds its rank, and passes it on.
  const int right = (world_.rank() + 1) % world_.size();
  const int left = (world_.rank() + world_.size() - 1) % world_.size();
  Values token(DType::kInt64, 3);
  if (rank() != 0) world_.receive(token.bytes(), left);
  token.set(1, token.get(1) + rank());
  world_.send(token.bytes(), right);
  if (rank() == 0) {
    world_.receive(token.bytes(), left);
    check(token.get(1) == double(n_ * (n_ - 1) / 2), "token around the ring");
  }
  const Traffic traffic = world_.traffic();
  const TrafficCount sent = traffic.at({"world", Collective::kSendRecv});
  check(sent.messages == 1 && sent.bytes_sent == 24, "traffic of send");
  world_.reset_traffic();
}

void Cases::asynchronous() {
  const std::array<std::size_t, 5> sizes = {1009, 1, 0, 50'000, 1000};
  std::vector<Values> buffers;
  std::vector<Work> pending;
  for (const std::size_t count : sizes) {
    buffers.emplace_back(DType::kFloat32, count);
    fill_input(buffers.back(), ReduceOp::kSum, rank());
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Algorithm algorithm = by(i % 2 == 0 ? Algorithm::kRing : Algorithm::kTree);
    pending.push_back(
        world_.all_reduce_async(buffers[i].bytes(), DType::kFloat32, ReduceOp::kSum, algorithm));
  }
  // A blocking call queues behind them.
  Values behind(DType::kInt32, 1000);
  fill_input(behind, ReduceOp::kMax, rank());
  world_.all_reduce(behind.bytes(), behind.bytes(), DType::kInt32, ReduceOp::kMax);
  check_values(behind, ReduceOp::kMax, 0, "all_reduce behind asynchronous ones");
  for (std::size_t i = buffers.size(); i-- > 0;) {
    pending[i].wait();
    pending[i].wait();
    check_values(buffers[i], ReduceOp::kSum, 0, "asynchronous all_reduce");
    check(pending[i].elapsed_s() >= 0, "elapsed time");
  }
  const Traffic traffic = world_.traffic();
  check(traffic.at({"world", Collective::kAllReduce}).calls == 6, "calls of asynchronous work");
  // An abandoned handle completes before its buffer dies.
  static_cast<void>(world_.all_reduce_async(buffers[0].bytes(), DType::kFloat32, ReduceOp::kMax));
  world_.reset_traffic();
}

void Cases::split() {
  // Odd and even ranks, in reverse order; then everybody but rank 0.
  const int color = world_.rank() % 2;
  const auto half = world_.split(color, -world_.rank(), "half");
  std::vector<int> members;
  for (int r = world_.size() - 1; r >= 0; --r) {
    if (r % 2 == color) members.push_back(r);
  }
  bool ordered = half->size() == int(members.size()) && half->group() == "half";
  for (int i = 0; ordered && i < half->size(); ++i) {
    ordered = half->world_rank(i) == members[unsigned(i)] && !half->host(i).empty();
  }
  check(ordered, "members of a split");
  std::array<std::int32_t, 9> sum;
  sum.fill(world_.rank());
  const auto bytes = writable_bytes_of(std::span<std::int32_t>(sum));
  half->all_reduce(bytes, bytes, DType::kInt32, ReduceOp::kSum, by(Algorithm::kRing));
  check(sum[8] == std::accumulate(members.begin(), members.end(), 0), "sum within a split");
  check_traffic(*half, Collective::kAllReduce, Algorithm::kRing, 9, DType::kInt32, 1, "half");
  check(world_.traffic().empty(), "a split counts in its own group");

  const auto rest = world_.split(world_.rank() == 0 ? -1 : 7, 0, "rest");
  check((rest == nullptr) == (world_.rank() == 0), "color < 0 takes no part");
  if (rest) {
    const auto nested = rest->split(0, 0, "nested");
    nested->barrier();
    check(nested->size() == rest->size() && nested->world_rank(0) == 1, "split of a split");
  }
  // Two groups at work at once: one behind asynchronous work, one blocking.
  std::vector<float> overlapped(4096, 1.0f);
  Work work = world_.all_reduce_async(writable_bytes_of(std::span(overlapped)), DType::kFloat32,
                                      ReduceOp::kSum);
  half->barrier();
  work.wait();
  check(overlapped[4095] == float(n_), "two groups at once");
  world_.reset_traffic();
}

void Cases::library(bool there) {
  Values data(DType::kFloat32, 1009);
  fill_input(data, ReduceOp::kAvg, rank());
  const auto reduce = [&](DType type) {
    world_.all_reduce(data.bytes(), data.bytes(), type, ReduceOp::kAvg, Algorithm::kLibrary);
  };
  bool refused = false;
  try {
    reduce(there ? DType::kBFloat16 : DType::kFloat32);
  } catch (const Error& error) {
    refused = error.code() == "NQD2102" && error.exit_code() == ExitCode::kUsage;
  }
  check(refused, "library all_reduce of an unsupported kind is refused");
  world_.reset_traffic();
  if (!there) return;
  reduce(DType::kFloat32);
  check_values(data, ReduceOp::kAvg, 0, "library all_reduce");
  check(world_.traffic().at({"world", Collective::kAllReduce}).messages == 0,
        "library traffic is not counted");
  world_.reset_traffic();
}

void Cases::refused_algorithms() {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
    bool refused = false;
    try {
      world_.barrier();
      world_.run({}, algorithm);
    } catch (const Error& error) {
      refused = error.code() == "NQD2102" && error.exit_code() == ExitCode::kUsage;
    }
    check(refused, std::string(name(algorithm)) + " is refused");
  }
  world_.reset_traffic();
}

// Sums that round, in the canonical order, have the same bits whatever computes them.
void Cases::canonical_bits() {
  constexpr std::size_t kCount = 3001;
  for (const DType type : {DType::kFloat32, DType::kFloat64}) {
    Values in(type, kCount, Memory::kShared);
    for (std::size_t i = 0; i < kCount; ++i) in.set(i, 1.0 / double(3 + i + 5 * rank()));
    Values sum(type, kCount, Memory::kShared);
    if (one_host_) {
      world_.all_reduce(in.bytes(), sum.bytes(), type, ReduceOp::kSum, Algorithm::kDirect);
    } else {
      // All ranks' vectors, added where they meet.
      world_.reduce_scatter(in.bytes(), part_of(sum), type, ReduceOp::kSum, Algorithm::kPairwise);
      world_.all_gather(part_of(sum), sum.bytes(), type);
    }
    const Chunk mine = chunk_of(kCount, n_, rank());
    Values part(type, mine.count);
    world_.reduce_scatter(in.bytes(), part.bytes(), type, ReduceOp::kSum, Algorithm::kPairwise);
    check(std::ranges::equal(part.bytes(), sum.bytes().subspan(mine.begin * size_bytes(type),
                                                               mine.count * size_bytes(type))),
          "pairwise reduce_scatter differs from direct in bits");
    if (!std::has_single_bit(n_)) continue;
    std::vector<Algorithm> canonical = {Algorithm::kRecursiveDoubling, Algorithm::kHalvingDoubling};
    if (fills_equal_hosts()) canonical.push_back(Algorithm::kHierarchical);
    for (const Algorithm algorithm : canonical) {
      Values other(type, kCount);
      world_.all_reduce(in.bytes(), other.bytes(), type, ReduceOp::kSum, algorithm);
      check(other == sum, std::string(name(algorithm)) + " differs from direct in bits");
    }
    if (!fills_equal_hosts()) continue;
    world_.reduce_scatter(in.bytes(), part.bytes(), type, ReduceOp::kSum, Algorithm::kHierarchical);
    check(std::ranges::equal(part.bytes(), part_of(sum)),
          "hierarchical reduce_scatter differs from direct in bits");
  }
  world_.reset_traffic();
}

// The code with which a direct all_reduce of private vectors is refused.
std::string Cases::refusal_of_direct(std::size_t count) {
  std::string code;
  try {
    Values data(DType::kFloat32, count);
    world_.all_reduce(data.bytes(), data.bytes(), DType::kFloat32, ReduceOp::kSum,
                      Algorithm::kDirect);
  } catch (const Error& error) {
    code = error.code();
  }
  world_.reset_traffic();
  return code;
}

}  // namespace nqd::collectives
