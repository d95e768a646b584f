// The parts of the field table, one file a section of the config, and the ranges they share.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "planner/config/field.h"

namespace nqd::planner {

std::span<const Field> model_fields();
std::span<const Field> cluster_fields();
std::span<const Field> device_fields();  // sections cluster.device and cluster.fabric
std::span<const Field> parallel_fields();
std::span<const Field> train_fields();
std::span<const Field> stack_fields();

// Upper ends keep every product that the planner forms within 63 bits.
constexpr Range whole(double low, double high) { return {.low = low, .high = high}; }
inline constexpr Range kAtLeastZero = {.low = 0};
inline constexpr Range kPositive = {.low = 0, .low_open = true};
inline constexpr Range kFraction = {.low = 0, .high = 1, .high_open = true};
inline constexpr Range kByteCount = {.low = 0, .high = 1e18};
inline constexpr double kMaxRanks = 1 << 20;
inline constexpr double kMaxExactInteger =
    9007199254740991;  // 2^53 - 1: exact in every JSON reader

}  // namespace nqd::planner
