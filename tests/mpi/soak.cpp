// Random collectives for a given time: sizes, types, operators, algorithms, groups, memory, calls
// in flight. Every rank draws the same numbers from one seed, and every result is checked.
//
//   mpirun -n 3 soak SECONDS RANKS SEED [BACKEND]     processes
//   soak SECONDS RANKS SEED                           threads
//
// Exit code 0: no mismatch; prints the calls made.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/log.h"
#include "collectives/cost.h"
#include "tests/cases/case_values.h"
#include "tests/mpi/launched.h"

namespace nqd::collectives {
namespace {

constexpr std::array kCollectives = {Collective::kAllReduce,     Collective::kAllGather,
                                     Collective::kReduceScatter, Collective::kBroadcast,
                                     Collective::kReduce,        Collective::kGather,
                                     Collective::kScatter,       Collective::kAllToAll};
constexpr std::array kTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt32,
                               DType::kFloat64, DType::kInt64,    DType::kUInt8};
constexpr std::array kOps = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProd};
constexpr std::array kAlgorithms = {Algorithm::kAuto,
                                    Algorithm::kRing,
                                    Algorithm::kTree,
                                    Algorithm::kRecursiveDoubling,
                                    Algorithm::kHalvingDoubling,
                                    Algorithm::kPairwise,
                                    Algorithm::kLinear,
                                    Algorithm::kDirect};
constexpr std::size_t kLongest = 400'000;

// The numbers that all ranks draw alike.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  template <typename T, std::size_t N>
  T one_of(const std::array<T, N>& values) {
    return values[below(N)];
  }
  // Small counts as often as large ones.
  std::size_t count() {
    const double exponent = static_cast<double>(below(1'000'000)) / 1e6;
    return static_cast<std::size_t>(std::pow(static_cast<double>(kLongest), exponent)) - below(2);
  }

 private:
  std::mt19937_64 engine_;
};

bool is_float(DType type) {
  return type != DType::kInt32 && type != DType::kInt64 && type != DType::kUInt8;
}

// What a rank gives or gets: whole vector, its part, its part from every rank, or nothing.
std::size_t in_count(Collective collective, std::size_t count, const Chunk& mine, bool is_root) {
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kGather:
      return mine.count;
    case Collective::kScatter:
      return is_root ? count : 0;
    case Collective::kBroadcast:
      return 0;
    default:
      return count;
  }
}

std::size_t out_count(Collective collective, std::size_t count, const Chunk& mine, std::size_t n,
                      bool is_root) {
  switch (collective) {
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return mine.count;
    case Collective::kReduce:
    case Collective::kGather:
      return is_root ? count : 0;
    case Collective::kAllToAll:
      return n * mine.count;
    default:
      return count;
  }
}

// One call with its buffers, drawn alike on all ranks of `group`.
class Call {
 public:
  Call(Communicator& group, Dice& dice)
      : group_(group),
        collective_(dice.one_of(kCollectives)),
        type_(dice.one_of(kTypes)),
        op_(dice.one_of(kOps)),
        count_(dice.count()),
        salt_(dice.below(1000)),
        n_(static_cast<std::size_t>(group.size())),
        rank_(static_cast<std::size_t>(group.rank())),
        root_(static_cast<int>(dice.below(n_))),
        mine_(chunk_of(count_, n_, rank_)),
        in_(type_, in_count(collective_, count_, mine_, group.rank() == root_), memory(dice)),
        out_(type_, out_count(collective_, count_, mine_, n_, group.rank() == root_), memory(dice)),
        in_place_(dice.below(3) == 0 && collective_ == Collective::kAllReduce),
        algorithm_(draw_algorithm(dice)) {
    if (op_ == ReduceOp::kAvg && !is_float(type_)) op_ = ReduceOp::kSum;
    fill();
  }

  void run() { group_.run(call(), algorithm_); }
  Work start() { return group_.start(call(), algorithm_); }
  bool right() const {
    for (std::size_t i = 0; i < out_.count(); ++i) {
      if (out_.get(i) != expected(i)) return false;
    }
    return true;
  }
  std::string describe() const {
    return std::string(name(collective_)) + " " + std::string(name(algorithm_)) + " of " +
           std::to_string(count_) + " " + std::string(name(type_)) + " " + std::string(name(op_)) +
           " on " + std::to_string(n_) + " ranks, root " + std::to_string(root_);
  }

 private:
  static Memory memory(Dice& dice) {
    return dice.below(2) == 0 ? Memory::kPrivate : Memory::kShared;
  }
  Algorithm draw_algorithm(Dice& dice) const {
    for (;;) {
      const Algorithm drawn = dice.one_of(kAlgorithms);
      if (drawn == Algorithm::kAuto) return drawn;
      if (!is_executable(collective_, drawn) || !has_cost(collective_, drawn, n_)) continue;
      if (drawn != Algorithm::kDirect) return drawn;
      if (group_.chosen(collective_, Algorithm::kAuto) == Algorithm::kDirect) return drawn;
    }
  }
  CollectiveCall call() {
    const auto in = std::as_const(in_).bytes();
    const std::span<const std::byte> from = in_place_ ? out_.bytes() : in;
    return {collective_, from, out_.bytes(), type_, op_, root_};
  }
  void fill() {
    const bool part = collective_ == Collective::kAllGather || collective_ == Collective::kGather;
    fill_input(in_, op_, rank_, salt_ + (part ? mine_.begin : 0));
    const bool gives = collective_ == Collective::kBroadcast && group_.rank() == root_;
    if (in_place_ || gives) fill_input(out_, op_, rank_, salt_);
  }
  double expected(std::size_t i) const {
    switch (collective_) {
      case Collective::kReduceScatter:
        return expected_value(op_, n_, salt_ + mine_.begin + i, type_);
      case Collective::kAllReduce:
      case Collective::kReduce:
        return expected_value(op_, n_, salt_ + i, type_);
      case Collective::kScatter:
        return input_value(op_, static_cast<std::size_t>(root_), salt_ + mine_.begin + i);
      case Collective::kAllToAll:
        return input_value(op_, i / mine_.count, salt_ + mine_.begin + i % mine_.count);
      case Collective::kBroadcast:
        return input_value(op_, static_cast<std::size_t>(root_), salt_ + i);
      default:
        return input_value(op_, owner(i), salt_ + i);
    }
  }
  std::size_t owner(std::size_t element) const {
    std::size_t rank = 0;
    while (chunk_of(count_, n_, rank + 1).begin <= element && rank + 1 < n_) ++rank;
    return rank;
  }

  Communicator& group_;
  Collective collective_;
  DType type_;
  ReduceOp op_;
  std::size_t count_;
  std::size_t salt_;
  std::size_t n_;
  std::size_t rank_;
  int root_;
  Chunk mine_;
  Values in_;
  Values out_;
  bool in_place_;
  Algorithm algorithm_;
};

// Some calls, of which any may be in flight behind one another. Returns the wrong ones.
std::size_t run_some(Communicator& group, Dice& dice, std::size_t& calls) {
  std::vector<std::unique_ptr<Call>> made;
  std::vector<Work> works;
  const std::size_t depth = 1 + dice.below(6);
  for (std::size_t i = 0; i < depth; ++i) {
    made.push_back(std::make_unique<Call>(group, dice));
    if (dice.below(2) == 0) {
      made.back()->run();
    } else {
      works.push_back(made.back()->start());
    }
  }
  for (Work& work : works) work.wait();
  std::size_t wrong = 0;
  for (const auto& call : made) {
    if (call->right()) continue;
    ++wrong;
    log::error("rank " + std::to_string(group.rank()) + ": wrong result of " + call->describe());
  }
  calls += depth;
  return wrong;
}

std::vector<std::unique_ptr<Communicator>> draw_groups(Communicator& world, Dice& dice) {
  std::vector<std::unique_ptr<Communicator>> groups;
  for (int k = 0; k < 3; ++k) {
    std::vector<int> colors;
    for (int rank = 0; rank < world.size(); ++rank) {
      colors.push_back(static_cast<int>(dice.below(2)));
    }
    const int key = dice.below(2) == 0 ? world.rank() : -world.rank();
    groups.push_back(world.split(colors[static_cast<std::size_t>(world.rank())], key,
                                 "split" + std::to_string(k)));
  }
  return groups;
}

// Collective. Whether any rank says so.
bool anyone(Communicator& world, bool mine) {
  std::int64_t value = mine ? 1 : 0;
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  world.all_reduce(bytes, bytes, DType::kInt64, ReduceOp::kMax);
  return value != 0;
}

std::vector<std::string> soak(Communicator& world, double seconds, std::uint64_t seed) {
  Dice dice(seed);
  const auto start = std::chrono::steady_clock::now();
  const auto over = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >
           seconds;
  };
  std::size_t calls = 0;
  std::size_t wrong = 0;
  auto groups = draw_groups(world, dice);
  for (std::size_t round = 1; !anyone(world, wrong > 8 || over()); ++round) {
    if (round % 200 == 0) groups = draw_groups(world, dice);
    const std::size_t which = dice.below(2 * groups.size());
    // Groups of one color draw what those of the other draw: all ranks roll alike.
    Communicator& group = which < groups.size() ? *groups[which] : world;
    Dice shared(seed + round);
    wrong += run_some(group, shared, calls);
  }
  const bool failed = anyone(world, wrong > 0);
  if (world.rank() != 0) return {};
  const std::string text = std::to_string(calls) + " calls on " + std::to_string(world.size()) +
                           " ranks (" + std::string(world.backend()) + "), seed " +
                           std::to_string(seed);
  if (failed) return {text + ": WRONG RESULTS"};
  std::printf("%s: no mismatch\n", text.c_str());
  return {};
}

}  // namespace
}  // namespace nqd::collectives

int main(int argc, char** argv) {
  using namespace nqd::collectives;
  if (argc < 4) return 2;
  return run_launched(std::stoi(argv[2]), argc > 4 ? argv[4] : "auto", [&](Communicator& world) {
    return soak(world, std::stod(argv[1]), std::stoull(argv[3]));
  });
}
