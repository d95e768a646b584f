#include "tests/cases/collectives_cases.h"

#include "tests/cases/exchange_cases.h"
#include "tests/cases/rank_cases.h"

namespace nqd::collectives {

void Cases::all_reduce() {
  for (const DType type : kTypes) {
    for (const ReduceOp op : kOps) {
      if (op == ReduceOp::kAvg && is_integer(type)) continue;
      for (const std::size_t count : counts()) {
        for (const Algorithm algorithm :
             by({Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveDoubling,
                 Algorithm::kHalvingDoubling, Algorithm::kPairwise})) {
          one_all_reduce(type, op, count, algorithm, false);
          one_all_reduce(type, op, count, algorithm, true);
        }
      }
    }
  }
}

void Cases::all_gather() {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kInt32, DType::kUInt8}) {
    for (const std::size_t count : counts()) {
      for (const Algorithm algorithm : by({Algorithm::kRing, Algorithm::kHalvingDoubling})) {
        const bool runs = algorithm != Algorithm::kHalvingDoubling || std::has_single_bit(n_);
        if (runs) one_all_gather(type, count, algorithm, Memory::kPrivate);
      }
    }
  }
}

void Cases::reduce_scatter() {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kInt32}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax}) {
      if (op == ReduceOp::kAvg && is_integer(type)) continue;
      for (const std::size_t count : counts()) {
        for (const Algorithm algorithm :
             by({Algorithm::kRing, Algorithm::kPairwise, Algorithm::kHalvingDoubling})) {
          const bool runs = algorithm != Algorithm::kHalvingDoubling || std::has_single_bit(n_);
          if (runs) one_reduce_scatter(type, op, count, algorithm, Memory::kPrivate);
        }
      }
    }
  }
}

void Cases::broadcast() {
  for (int root = 0; root < world_.size(); ++root) {
    for (const std::size_t count : counts()) {
      one_broadcast(count, root, by(Algorithm::kTree), Memory::kPrivate);
    }
  }
}

void Cases::rooted_and_all_to_all() {
  const auto all = [&](DType type, std::size_t count, Memory memory, bool direct) {
    const auto of = [&](Algorithm other) { return direct ? Algorithm::kDirect : by(other); };
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
      if (!one_host_ || own_choice_) continue;
      if (pulls_) all(type, count, Memory::kPrivate, true);
      all(type, count, Memory::kShared, true);
    }
  }
  all(DType::kFloat32, 100'003, Memory::kPrivate, false);
  if (!one_host_ || own_choice_) return;
  if (pulls_) all(DType::kFloat32, 100'003, Memory::kPrivate, true);
  all(DType::kFloat32, 100'003, Memory::kShared, true);
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
  if (!pulls_) return;
  // Several turns of every slot that private vectors go through.
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

CaseReport run_collectives_cases(Communicator& world, bool pulls, bool library) {
  Cases cases(world, pulls);
  world.reset_traffic();
  cases.all_reduce();
  cases.all_gather();
  cases.reduce_scatter();
  cases.broadcast();
  cases.barrier_and_send();
  cases.asynchronous();
  cases.split();
  cases.rooted_and_all_to_all();
  if (cases.own_choice()) {
    cases.refused_algorithms();
  } else {
    cases.library(library && world.backend() != "local");
    cases.direct();
    cases.hierarchical();
    cases.canonical_bits();
  }
  CaseReport report = cases.report();
  run_exchange_cases(world, report);
  return report;
}

}  // namespace nqd::collectives
