// What the figures of a canary say.
#pragma once

#include "engine/canary/canary.h"

namespace nqd::engine {

// A device is slow below 1/kSlowDevice of the median of the others, and of the calibration: beyond
// what the clocks of equal devices differ by, and far below what a power limit, a second program or
// a wrong binding takes away.
inline constexpr double kSlowDevice = 1.5;
// And beyond kOutlierScore robust deviations of the logarithm of its peers' rates (Iglewicz and
// Hoaglin, "How to Detect and Handle Outliers", 1993), which count as kDeviceSpread at least: peers
// that agree make it a factor of 1.42, so that kSlowDevice decides; peers that scatter ask for
// more.
inline constexpr double kOutlierScore = 3.5;
inline constexpr double kDeviceSpread = 0.1;
// Latencies of idle links differ by what one wake-up takes.
inline constexpr double kLatencyFloorS = 50e-6;

// Fills findings and busy_hosts from devices, links and expectation.
//
// Ranks of a host of which half got less than 1/kSlowDevice of a CPU are not compared with others,
// nor are the links of that host: the host is busy. With a calibration they are still judged, by
// the clock. Rates are compared with other ranks' by the time that a rank had a CPU, and that time
// by itself: who shares its CPU is told from whose CPU is slow.
void judge_canary(CanaryResult& result);

}  // namespace nqd::engine
