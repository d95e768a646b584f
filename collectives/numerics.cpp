#include "collectives/numerics.h"

#include <bit>

namespace nqd::collectives {
namespace {

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

bool is_half_width(DType type) { return type == DType::kBFloat16 || type == DType::kFloat16; }

bool is_integer(DType type) {
  return type == DType::kInt32 || type == DType::kInt64 || type == DType::kUInt8;
}

}  // namespace

std::string_view name(Numerics numerics) {
  return numerics == Numerics::kCanonical ? "canonical" : "fast";
}

std::optional<Numerics> parse_numerics(std::string_view text) {
  for (const Numerics numerics : {Numerics::kCanonical, Numerics::kFast}) {
    if (text == name(numerics)) return numerics;
  }
  return std::nullopt;
}

bool is_canonical(Collective collective, Algorithm algorithm, std::size_t ranks,
                  DType type) noexcept {
  if (!reduces(collective)) return true;
  if (algorithm == Algorithm::kLibrary) return false;
  if (is_integer(type)) return true;
  if (algorithm == Algorithm::kDirect || algorithm == Algorithm::kPairwise) return true;
  if (is_half_width(type)) return false;
  if (ranks <= 2) return true;
  if (algorithm == Algorithm::kTree) return true;
  return collective == Collective::kAllReduce && std::has_single_bit(ranks) &&
         (algorithm == Algorithm::kRecursiveDoubling || algorithm == Algorithm::kHalvingDoubling);
}

std::optional<Algorithm> canonical_algorithm(Collective collective, std::size_t ranks,
                                             std::uint64_t bytes, DType type,
                                             bool reaches_memory) noexcept {
  if (!reduces(collective)) return Algorithm::kAuto;
  if (reaches_memory) return Algorithm::kDirect;
  if (collective == Collective::kReduceScatter) return Algorithm::kPairwise;
  if (collective == Collective::kReduce) {
    return is_half_width(type) ? std::nullopt : std::optional(Algorithm::kTree);
  }
  if (is_half_width(type)) return Algorithm::kPairwise;
  const bool doubles = std::has_single_bit(ranks);
  if (bytes <= kFewBytes) return doubles ? Algorithm::kRecursiveDoubling : Algorithm::kTree;
  return doubles ? Algorithm::kHalvingDoubling : Algorithm::kPairwise;
}

}  // namespace nqd::collectives
