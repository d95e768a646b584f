// What the schedules cost, as arithmetic: O(1) where not said otherwise, without allocation, for a
// search that asks hundreds of thousands of times a second. The simulation
// (planner/schedule/simulate.h) gives the same figures; where it does not, the functions say so.
#pragma once

#include <cstdint>
#include <span>

#include "planner/schedule/schedule.h"

namespace nqd::planner {

// Seconds of one micro-batch on one stage (all its chunks). Only zero-bubble schedules tell the
// halves of the backward apart.
struct PhaseTimes {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  constexpr double total() const noexcept { return forward + backward_input + backward_weight; }
};

// Activations of one stage at its peak, in chunks of one micro-batch each.
struct InFlight {
  std::int64_t whole = 0;        // forward done, (input) backward not (M_B in the papers)
  std::int64_t weight_only = 0;  // what the weight gradient still needs (M_W)
  constexpr std::int64_t total() const noexcept { return whole + weight_only; }
  bool operator==(const InFlight&) const = default;
};

// The bubble: seconds that the busiest stage waits between its first and its last action of a step,
// all stages equal, messages free. With F, B, W of `stage` (backward of input and weights):
//   gpipe, 1f1b   (p−1)(F+B+W)
//   interleaved   (p−1)(F+B+W)/v
//   zb-h1         (p−1)(F+B) − min(m−1, p−1)·W              = (p−1)(F+B−W) for m ≥ p
//   zb-h2         (p−1)(F+B) − min(m−1, 2p−2)·W             = (p−1)(F+B−2W) for m ≥ 2p−1
//   zb-v          (p−1)(F+B) − min(m−1, p−1)·F − min(m−p, p−1)·W, the last not below 0
//                                                           = (p−1)(B−W) for m ≥ 2p−1
// and never below 0. The forms for m ≥ p are table 2 of arXiv:2401.10241; those for fewer
// micro-batches, and zb-v, are derived from the orders of make_schedule. Exact for W ≤ F and W ≤ B,
// zb-v for W ≤ F ≤ B.
double bubble_seconds(const ScheduleSpec& spec, const PhaseTimes& stage) noexcept;

// bubble ÷ (bubble + work), F = B = W where the backward is split: (p−1)/(m+p−1) for gpipe and
// 1f1b, (p−1)/(v·m+p−1) interleaved, (p−1)/(3m+p−1) zb-h1, 0 for zb-h2 and zb-v (m large enough as
// above). For zb-h2 and zb-v the next step may start on one stage while others finish this one, as
// the papers' validation after the optimizer step allows; a step that ends with a barrier also pays
// the drain, which the simulation's makespan holds.
double bubble_fraction(const ScheduleSpec& spec) noexcept;

// One step of unequal stages from two sums: m times the slowest, and each other stage's share of
// the bubble (`others` are the sums over the other p−1 stages); for 1f1b that is m·max + Σ others.
// Exact for equal stages, and for gpipe, 1f1b and interleaved also when the last is the slowest;
// a slow early stage hides part of the others, so that it is up to 20 % too long.
double step_seconds(const ScheduleSpec& spec, const PhaseTimes& slowest,
                    const PhaseTimes& others) noexcept;

// zb-v where the first stage, which holds both ends of the model, is the slowest by `head`: what
// its last chunk has beyond its first. Seconds that it waits in a step; below 0 it has as much to
// spare. With f, b, w of its first chunk, w' of its last, and sums over the others
//   Σ(F+B) − (p−1)(f+b+w) − min(m−p, p−1)·f − w',   without the w' of a mean chunk for m ≤ p
// and, while the head is short, Σ over all as bubble_seconds has it less m−1 times its excess.
double folded_wait_seconds(const ScheduleSpec& spec, const PhaseTimes& slowest,
                           const PhaseTimes& head, const PhaseTimes& others) noexcept;

// The same from every stage's times, O(p). gpipe: exact, (m−1)(max F + max B) + Σ(F+B). 1f1b, zb-h1
// and zb-h2: the longest of the paths that pass from the first stage to stage s, through all of its
// actions, and on: never more than the simulation. With stages that differ in proportion and by at
// most a quarter, m ≥ 2p−1, equal to it for 1f1b and at most 1 % below for the other two.
// interleaved and zb-v: the form above. `stages` are p.
double step_seconds(const ScheduleSpec& spec, std::span<const PhaseTimes> stages) noexcept;

// Messages that nothing hides, one after the other on the longest path of a step: each adds its
// latency. For latencies that are small beside a chunk's times and B = F, W = F where the backward
// is split:
//   gpipe, zb-h2  2(p−1)
//   1f1b          2(p−1) + 2((m−1) − ⌈(m−1)/p⌉): p−i micro-batches on stage i leave no slack
//   interleaved   2(p·v−1)
//   zb-h1         as 1f1b with at most p+1 micro-batches
//   zb-v          4(p−1) + 2·min(max(m−p−1, 0), p−2)
std::int64_t exposed_messages(const ScheduleSpec& spec) noexcept;

// Seconds that messages of `message_s` add to a step. Those of the first fill and the last drain
// add all of theirs. The others are waited for in pairs, there and back, by a stage that has as
// much under way as it may: a pair adds what it takes beyond `slack_s`, the seconds by which a
// micro-batch of the slowest stage is longer than the mean of the others. Without slack
// exposed_messages times message_s.
double exposed_message_seconds(const ScheduleSpec& spec, double message_s, double slack_s) noexcept;

// At the peak of stage `stage` (0-based):
//   gpipe         m
//   1f1b          min(m, p−i)
//   interleaved   min(m·v, 2(p−i−1) + (v−1)p + 1)
//   zb-h1         min(m, p−i) and i more for their weights, in all min(m, p)
//   zb-h2         min(m, 2(p−i)−1) and 2i more, in all min(m, 2p−1)
//   zb-v          min(2m, m+1+i, 2p)
InFlight in_flight(const ScheduleSpec& spec, std::int64_t stage) noexcept;

}  // namespace nqd::planner
