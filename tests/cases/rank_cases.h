// The shared cases as one rank runs them.
#pragma once

#include <array>
#include <bit>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/cost.h"
#include "collectives/host_map.h"
#include "tests/cases/case_values.h"
#include "tests/cases/collectives_cases.h"

namespace nqd::collectives {

inline constexpr std::array kTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                                      DType::kInt32,   DType::kFloat64,  DType::kInt64,
                                      DType::kUInt8};
inline constexpr std::array kOps = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax,
                                    ReduceOp::kProd};

inline bool is_integer(DType type) {
  return type == DType::kInt32 || type == DType::kInt64 || type == DType::kUInt8;
}

// "all_reduce float32 sum of 1009".
std::string label(std::string_view call, DType type, ReduceOp op, std::size_t count);

// One rank's run of the cases.
class Cases {
 public:
  Cases(Communicator& world, bool pulls)
      : world_(world),
        n_(unsigned(world.size())),
        one_host_(host_map_of(world).hosts() == 1),
        pulls_(pulls),
        own_choice_(world.backend() == "nccl") {}

  void all_reduce();
  void all_gather();
  void reduce_scatter();
  void broadcast();
  void barrier_and_send();
  void asynchronous();
  void split();
  void library(bool there);
  void refused_algorithms();
  void direct();
  void hierarchical();
  std::string refusal_of_direct(std::size_t count);
  void rooted_and_all_to_all();
  void canonical_bits();
  // The backend chooses its algorithms itself: only `auto` can be asked for.
  bool own_choice() const { return own_choice_; }
  CaseReport report() { return std::move(report_); }

 private:
  std::vector<std::size_t> counts() const {
    const std::set<std::size_t> distinct = {0, 1, n_ - 1, n_, 2 * n_ + 1, 1000, 1009};
    return {distinct.begin(), distinct.end()};
  }
  unsigned rank() const { return unsigned(world_.rank()); }
  // The algorithm by which a case is run there.
  Algorithm by(Algorithm algorithm) const { return own_choice_ ? Algorithm::kAuto : algorithm; }
  std::vector<Algorithm> by(std::initializer_list<Algorithm> algorithms) const {
    if (own_choice_) return {Algorithm::kAuto};
    return algorithms;
  }
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
  bool own_choice_;
  CaseReport report_;
};

}  // namespace nqd::collectives
