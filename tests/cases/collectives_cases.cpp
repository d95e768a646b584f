#include "tests/cases/collectives_cases.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>

#include "collectives/cost.h"
#include "collectives/host_map.h"
#include "tests/cases/case_values.h"
#include "tests/cases/exchange_cases.h"

namespace nqd::collectives {
namespace {

constexpr std::array kTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32,
                               DType::kFloat64, DType::kInt64,    DType::kUInt8};
constexpr std::array kOps = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProd};

bool is_integer(DType type) {
  return type == DType::kInt32 || type == DType::kInt64 || type == DType::kUInt8;
}

// One rank's run of the cases.
class Cases {
 public:
  Cases(Communicator& world, bool pulls)
      : world_(world),
        n_(unsigned(world.size())),
        one_host_(host_map_of(world).hosts() == 1),
        pulls_(pulls) {}

  void all_reduce();
  void all_gather();
  void reduce_scatter();
  void broadcast();
  void barrier_and_send();
  void asynchronous();
  void split();
  void library();
  void direct();
  void hierarchical();
  std::string refusal_of_direct(std::size_t count);
  void rooted_and_all_to_all();
  void canonical_bits();
  CaseReport report() { return std::move(report_); }

 private:
  std::vector<std::size_t> counts() const {
    const std::set<std::size_t> distinct = {0, 1, n_ - 1, n_, 2 * n_ + 1, 1000, 1009};
    return {distinct.begin(), distinct.end()};
  }
  unsigned rank() const { return unsigned(world_.rank()); }
  std::span<std::byte> part_of(Values& full) const {
    const Chunk mine = chunk_of(full.count(), n_, rank());
    const std::size_t element = size_bytes(full.type());
    return full.bytes().subspan(mine.begin * element, mine.count * element);
  }
  // Whether ranks fill hosts of one size, a power of two, in order.
  bool fills_equal_hosts() const {
    const HostMap hosts = host_map_of(world_);
    const std::size_t each = n_ / hosts.hosts();
    bool fills = std::has_single_bit(each);
    for (std::size_t r = 0; r < n_; ++r) fills = fills && hosts.host_of(r) == r / each;
    return fills;
  }

  void check(bool passed, const std::string& what) {
    ++report_.checks;
    if (!passed && report_.failures.size() < 8) {
      report_.failures.push_back("rank " + std::to_string(rank()) + ": " + what);
    }
  }
  void check_values(const Values& got, ReduceOp op, std::size_t offset, const std::string& what);
  // The traffic of the calls made since the last reset, against cost.h.
  void check_traffic(Communicator& group, Collective collective, Algorithm algorithm,
                     std::size_t count, DType type, std::uint64_t calls, const std::string& what);
  void one_all_reduce(DType type, ReduceOp op, std::size_t count, Algorithm algorithm,
                      bool in_place, Memory memory = Memory::kPrivate);
  void one_all_gather(DType type, std::size_t count, Algorithm algorithm, Memory memory);
  void one_reduce_scatter(DType type, ReduceOp op, std::size_t count, Algorithm algorithm,
                          Memory memory);
  void one_reduce(DType type, ReduceOp op, std::size_t count, int root, Algorithm algorithm,
                  Memory memory);
  void one_gather_and_scatter(DType type, std::size_t count, int root, Algorithm algorithm,
                              Memory memory);
  void one_all_to_all(DType type, std::size_t count, Algorithm algorithm, Memory memory);
  void one_broadcast(std::size_t count, int root, Algorithm algorithm, Memory memory);

  Communicator& world_;
  std::size_t n_;
  bool one_host_;
  bool pulls_;
  CaseReport report_;
};

std::string label(std::string_view call, DType type, ReduceOp op, std::size_t count) {
  return std::string(call) + " " + std::string(name(type)) + " " + std::string(name(op)) + " of " +
         std::to_string(count);
}

void Cases::check_values(const Values& got, ReduceOp op, std::size_t offset,
                         const std::string& what) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.count(); ++i) {
    wrong += got.get(i) != expected_value(op, n_, offset + i, got.type());
  }
  check(wrong == 0, what + ": " + std::to_string(wrong) + " wrong elements");
}

void Cases::check_traffic(Communicator& group, Collective collective, Algorithm algorithm,
                          std::size_t count, DType type, std::uint64_t calls,
                          const std::string& what) {
  const RankTraffic one = rank_traffic(host_map_of(group), collective, algorithm,
                                       unsigned(group.rank()), count, size_bytes(type));
  const Traffic traffic = group.traffic();
  const auto found = traffic.find({group.group(), collective});
  const TrafficCount counted = found == traffic.end() ? TrafficCount{} : found->second;
  check(traffic.size() == 1 && counted.calls == calls && counted.messages == calls * one.messages &&
            counted.bytes_sent == calls * one.bytes_sent,
        what + ": counted " + std::to_string(counted.messages) + " messages, " +
            std::to_string(counted.bytes_sent) + " bytes; cost.h says " +
            std::to_string(calls * one.messages) + ", " + std::to_string(calls * one.bytes_sent));
  group.reset_traffic();
}

void Cases::one_all_reduce(DType type, ReduceOp op, std::size_t count, Algorithm algorithm,
                           bool in_place, Memory memory) {
  const std::string what = std::string(name(algorithm)) + " " +
                           label(in_place ? "in-place all_reduce" : "all_reduce", type, op, count);
  Values in(type, count, memory);
  Values out(type, count, memory);
  fill_input(in, op, rank());
  Values& result = in_place ? in : out;
  world_.all_reduce(in.bytes(), result.bytes(), type, op, algorithm);
  check_values(result, op, 0, what);
  check_traffic(world_, Collective::kAllReduce, algorithm, count, type, 1, what);
  if (in_place) return;
  Values unchanged(type, count);
  fill_input(unchanged, op, rank());
  check(in == unchanged, what + ": input changed");
}

void Cases::all_reduce() {
  for (const DType type : kTypes) {
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::kAvg && is_integer(type)) continue;
      for (const std::size_t count : counts()) {
        for (const Algorithm algorithm :
             {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveDoubling,
              Algorithm::kHalvingDoubling, Algorithm::kPairwise}) {
          one_all_reduce(type, op, count, algorithm, false);
          one_all_reduce(type, op, count, algorithm, true);
        }
      }
    }
  }
}

void Cases::one_all_gather(DType type, std::size_t count, Algorithm algorithm, Memory memory) {
  const Chunk mine = chunk_of(count, n_, rank());
  Values in(type, mine.count, memory);
  for (std::size_t i = 0; i < mine.count; ++i) in.set(i, double((mine.begin + i) % 251));
  Values out(type, count, memory);
  world_.all_gather(in.bytes(), out.bytes(), type, algorithm);
  bool right = true;
  for (std::size_t i = 0; i < count; ++i) right = right && out.get(i) == double(i % 251);
  const std::string what =
      std::string(name(algorithm)) + " " + label("all_gather", type, ReduceOp::kSum, count);
  check(right, what);
  check_traffic(world_, Collective::kAllGather, algorithm, count, type, 1, what);
}

void Cases::all_gather() {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kInt32, DType::kUInt8}) {
    for (const std::size_t count : counts()) {
      one_all_gather(type, count, Algorithm::kRing, Memory::kPrivate);
      if (std::has_single_bit(n_)) {
        one_all_gather(type, count, Algorithm::kHalvingDoubling, Memory::kPrivate);
      }
    }
  }
}

void Cases::one_reduce_scatter(DType type, ReduceOp op, std::size_t count, Algorithm algorithm,
                               Memory memory) {
  const Chunk mine = chunk_of(count, n_, rank());
  Values in(type, count, memory);
  fill_input(in, op, rank());
  Values out(type, mine.count, memory);
  world_.reduce_scatter(in.bytes(), out.bytes(), type, op, algorithm);
  const std::string what =
      std::string(name(algorithm)) + " " + label("reduce_scatter", type, op, count);
  check_values(out, op, mine.begin, what);
  check_traffic(world_, Collective::kReduceScatter, algorithm, count, type, 1, what);
}

void Cases::reduce_scatter() {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kInt32}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax}) {
      if (op == ReduceOp::kAvg && is_integer(type)) continue;
      for (const std::size_t count : counts()) {
        one_reduce_scatter(type, op, count, Algorithm::kRing, Memory::kPrivate);
        one_reduce_scatter(type, op, count, Algorithm::kPairwise, Memory::kPrivate);
        if (std::has_single_bit(n_)) {
          one_reduce_scatter(type, op, count, Algorithm::kHalvingDoubling, Memory::kPrivate);
        }
      }
    }
  }
}

void Cases::one_broadcast(std::size_t count, int root, Algorithm algorithm, Memory memory) {
  Values data(DType::kInt32, count, memory);
  fill_input(data, ReduceOp::kSum, rank());
  world_.broadcast(data.bytes(), root, algorithm);
  Values expected(DType::kInt32, count);
  fill_input(expected, ReduceOp::kSum, unsigned(root));
  const std::string what = label("broadcast", DType::kInt32, ReduceOp::kSum, count);
  check(data == expected, what + " from " + std::to_string(root));
  // cost.h describes root 0; another root turns the tree.
  if (root == 0) {
    check_traffic(world_, Collective::kBroadcast, algorithm, count, DType::kInt32, 1, what);
  }
  world_.reset_traffic();
}

void Cases::broadcast() {
  for (int root = 0; root < world_.size(); ++root) {
    for (const std::size_t count : counts()) {
      one_broadcast(count, root, Algorithm::kTree, Memory::kPrivate);
    }
  }
}

void Cases::one_reduce(DType type, ReduceOp op, std::size_t count, int root, Algorithm algorithm,
                       Memory memory) {
  Values in(type, count, memory);
  Values out(type, count, memory);
  fill_input(in, op, rank());
  const bool is_root = world_.rank() == root;
  world_.reduce(in.bytes(), is_root ? out.bytes() : std::span<std::byte>{}, type, op, root,
                algorithm);
  const std::string what = std::string(name(algorithm)) + " " + label("reduce", type, op, count) +
                           " to " + std::to_string(root);
  if (is_root) check_values(out, op, 0, what);
  // cost.h describes root 0.
  if (root == 0) check_traffic(world_, Collective::kReduce, algorithm, count, type, 1, what);
  world_.reset_traffic();
}

void Cases::one_gather_and_scatter(DType type, std::size_t count, int root, Algorithm algorithm,
                                   Memory memory) {
  const Chunk mine = chunk_of(count, n_, rank());
  const bool is_root = world_.rank() == root;
  Values part(type, mine.count, memory);
  for (std::size_t i = 0; i < mine.count; ++i) part.set(i, double((mine.begin + i) % 251));
  Values full(type, is_root ? count : 0, memory);
  world_.gather(part.bytes(), full.bytes(), type, root, algorithm);
  const std::string what = std::string(name(algorithm)) + " " +
                           label("gather", type, ReduceOp::kSum, count) + " to " +
                           std::to_string(root);
  bool right = true;
  for (std::size_t i = 0; i < full.count(); ++i) right = right && full.get(i) == double(i % 251);
  check(right, what);
  if (root == 0) check_traffic(world_, Collective::kGather, algorithm, count, type, 1, what);
  Values back(type, mine.count, memory);
  world_.reset_traffic();
  world_.scatter(full.bytes(), back.bytes(), type, root, algorithm);
  check(back == part, "scatter after " + what);
  if (root == 0) check_traffic(world_, Collective::kScatter, algorithm, count, type, 1, what);
  world_.reset_traffic();
}

void Cases::one_all_to_all(DType type, std::size_t count, Algorithm algorithm, Memory memory) {
  const Chunk mine = chunk_of(count, n_, rank());
  Values in(type, count, memory);
  Values out(type, n_ * mine.count, memory);
  for (std::size_t i = 0; i < count; ++i) in.set(i, double((i + 31 * rank()) % 251));
  world_.all_to_all(in.bytes(), out.bytes(), type, algorithm);
  bool right = true;
  for (std::size_t from = 0; from < n_; ++from) {
    for (std::size_t i = 0; i < mine.count; ++i) {
      right = right && out.get(from * mine.count + i) == double((mine.begin + i + 31 * from) % 251);
    }
  }
  const std::string what =
      std::string(name(algorithm)) + " " + label("all_to_all", type, ReduceOp::kSum, count);
  check(right, what);
  check_traffic(world_, Collective::kAllToAll, algorithm, count, type, 1, what);
}

void Cases::rooted_and_all_to_all() {
  const auto all = [&](DType type, std::size_t count, Memory memory, bool direct) {
    const auto of = [&](Algorithm other) { return direct ? Algorithm::kDirect : other; };
    for (const int root : {0, world_.size() - 1}) {
      one_reduce(type, ReduceOp::kSum, count, root, of(Algorithm::kTree), memory);
      if (!is_integer(type)) {
        one_reduce(type, ReduceOp::kAvg, count, root, of(Algorithm::kTree), memory);
      }
      one_gather_and_scatter(type, count, root, of(Algorithm::kLinear), memory);
    }
    one_all_to_all(type, count, of(Algorithm::kPairwise), memory);
  };
  for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kUInt8}) {
    for (const std::size_t count : counts()) {
      all(type, count, Memory::kPrivate, false);
      if (!one_host_) continue;
      if (pulls_) all(type, count, Memory::kPrivate, true);
      all(type, count, Memory::kShared, true);
    }
  }
  all(DType::kFloat32, 100'003, Memory::kPrivate, false);
  if (!one_host_) return;
  if (pulls_) all(DType::kFloat32, 100'003, Memory::kPrivate, true);
  all(DType::kFloat32, 100'003, Memory::kShared, true);
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

// Small vectors pass through slots, longer ones are touched in place, or pulled where they are
// private to another process.
void Cases::direct() {
  if (!one_host_) {
    world_.barrier();
    check(refusal_of_direct(9) == "NQD2102", "ranks of several hosts share no memory");
    return;
  }
  check(pulls_ == (world_.chosen(Collective::kAllReduce, Algorithm::kAuto) == Algorithm::kDirect),
        "auto is direct where private memory of other ranks can be read");
  if (!pulls_) check(refusal_of_direct(5000) == "NQD2102", "private memory cannot be read");
  for (const Memory memory : {Memory::kPrivate, Memory::kShared}) {
    if (memory == Memory::kPrivate && !pulls_) continue;
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, n_ + 1, std::size_t{1009},
                                    std::size_t{8193}, std::size_t{20'011}}) {
      for (const DType type : kTypes) {
        for (const ReduceOp op : kOps) {
          if (op == ReduceOp::kAvg && is_integer(type)) continue;
          if (count > 10'000 && op != ReduceOp::kSum) continue;
          one_all_reduce(type, op, count, Algorithm::kDirect, false, memory);
          one_all_reduce(type, op, count, Algorithm::kDirect, true, memory);
          one_reduce_scatter(type, op, count, Algorithm::kDirect, memory);
        }
        one_all_gather(type, count, Algorithm::kDirect, memory);
      }
      for (int root = 0; root < world_.size(); ++root) {
        one_broadcast(count, root, Algorithm::kDirect, memory);
      }
    }
  }
  // Private to some, shared by others; and more than a block of what is pulled at a time.
  const Memory some = pulls_ && rank() % 2 != 0 ? Memory::kPrivate : Memory::kShared;
  for (const std::size_t count : {std::size_t{5000}, std::size_t{300'007}}) {
    one_all_reduce(DType::kFloat32, ReduceOp::kSum, count, Algorithm::kDirect, false, some);
    one_reduce_scatter(DType::kFloat32, ReduceOp::kSum, count, Algorithm::kDirect, some);
  }
  // Of private vectors several turns of every slot.
  one_all_reduce(DType::kFloat32, ReduceOp::kSum, 2'000'003, Algorithm::kDirect, true,
                 Memory::kShared);
  one_all_reduce(DType::kFloat32, ReduceOp::kSum, 2'000'003, Algorithm::kDirect, true, some);
}

// Places inside hosts count, not ranks; on one host its ranks are all there is.
void Cases::hierarchical() {
  const bool preferred = host_map_of(world_).has_two_levels();
  check((world_.chosen(Collective::kAllReduce, Algorithm::kAuto) == Algorithm::kHierarchical) ==
            preferred,
        "auto is hierarchical over several hosts with several ranks");
  for (const Memory memory : {Memory::kPrivate, Memory::kShared}) {
    for (const std::size_t count : counts()) {
      for (const DType type : kTypes) {
        for (const ReduceOp op : kOps) {
          if (op == ReduceOp::kAvg && is_integer(type)) continue;
          one_all_reduce(type, op, count, Algorithm::kHierarchical, false, memory);
          one_all_reduce(type, op, count, Algorithm::kHierarchical, true, memory);
          one_reduce_scatter(type, op, count, Algorithm::kHierarchical, memory);
        }
        one_all_gather(type, count, Algorithm::kHierarchical, memory);
      }
    }
    one_all_reduce(DType::kFloat32, ReduceOp::kAvg, 300'007, Algorithm::kHierarchical, true,
                   memory);
    one_reduce_scatter(DType::kFloat32, ReduceOp::kAvg, 300'007, Algorithm::kHierarchical, memory);
    one_all_gather(DType::kFloat32, 300'007, Algorithm::kHierarchical, memory);
  }
  one_all_reduce(DType::kFloat32, ReduceOp::kSum, 5000, Algorithm::kHierarchical, false,
                 rank() % 2 == 0 ? Memory::kShared : Memory::kPrivate);
}

void Cases::barrier_and_send() {
  world_.barrier();
  const RankTraffic expected =
      one_host_ ? RankTraffic{} : rank_traffic(Collective::kBarrier, Algorithm::kAuto, n_, 0, 0, 1);
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
    const Algorithm algorithm = i % 2 == 0 ? Algorithm::kRing : Algorithm::kTree;
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
  half->all_reduce(bytes, bytes, DType::kInt32, ReduceOp::kSum, Algorithm::kRing);
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

void Cases::library() {
  Values data(DType::kFloat32, 1009);
  fill_input(data, ReduceOp::kAvg, rank());
  const auto reduce = [&](DType type) {
    world_.all_reduce(data.bytes(), data.bytes(), type, ReduceOp::kAvg, Algorithm::kLibrary);
  };
  bool refused = false;
  try {
    reduce(world_.backend() == "local" ? DType::kFloat32 : DType::kBFloat16);
  } catch (const Error& error) {
    refused = error.code() == "NQD2102" && error.exit_code() == ExitCode::kUsage;
  }
  check(refused, "library all_reduce of an unsupported kind is refused");
  world_.reset_traffic();
  if (world_.backend() == "local") return;
  reduce(DType::kFloat32);
  check_values(data, ReduceOp::kAvg, 0, "library all_reduce");
  check(world_.traffic().at({"world", Collective::kAllReduce}).messages == 0,
        "library traffic is not counted");
  world_.reset_traffic();
}

}  // namespace

CaseReport run_collectives_cases(Communicator& world, bool pulls) {
  Cases cases(world, pulls);
  world.reset_traffic();
  cases.all_reduce();
  cases.all_gather();
  cases.reduce_scatter();
  cases.broadcast();
  cases.barrier_and_send();
  cases.asynchronous();
  cases.split();
  cases.library();
  cases.direct();
  cases.hierarchical();
  cases.rooted_and_all_to_all();
  cases.canonical_bits();
  CaseReport report = cases.report();
  run_exchange_cases(world, report);
  return report;
}

}  // namespace nqd::collectives
