#include "collectives/canonical/layout.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"
#include "collectives/communicator.h"

namespace nqd::collectives {
namespace {

// The end of the last range. Throws unless they cover everything up to it, each index once.
std::size_t checked_total(const std::vector<IndexRange>& ranges) {
  std::vector<std::pair<IndexRange, std::size_t>> order;  // with the rank
  for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
    if (!ranges[rank].empty()) order.emplace_back(ranges[rank], rank);
  }
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  std::size_t end = 0;
  for (const auto& [range, rank] : order) {
    if (range.begin != end || range.end < range.begin) {
      throw Error(ExitCode::kUsage, "NQD2103",
                  "contributions [" + std::to_string(range.begin) + ", " +
                      std::to_string(range.end) + ") of rank " + std::to_string(rank) +
                      " do not begin at " + std::to_string(end) + ", where those before them end",
                  "give every index from 0 on to exactly one rank, in one range a rank");
    }
    end = range.end;
  }
  if (end == 0) {
    throw Error(ExitCode::kUsage, "NQD2103", "a canonical sum of no contributions",
                "give at least one rank a contribution");
  }
  return end;
}

}  // namespace

ContributionLayout::ContributionLayout(std::vector<IndexRange> ranges)
    : ranges_(std::move(ranges)), total_(checked_total(ranges_)) {
  for (const IndexRange& range : ranges_) nodes_.push_back(maximal_nodes(range, total_));
}

std::size_t ContributionLayout::most_nodes() const {
  std::size_t most = 0;
  for (const auto& nodes : nodes_) most = std::max(most, nodes.size());
  return most;
}

std::size_t ContributionLayout::fewest_nodes() const {
  std::size_t fewest = nodes_.front().size();
  for (const auto& nodes : nodes_) fewest = std::min(fewest, nodes.size());
  return fewest;
}

std::size_t ContributionLayout::all_nodes() const {
  std::size_t all = 0;
  for (const auto& nodes : nodes_) all += nodes.size();
  return all;
}

bool ContributionLayout::is_even() const {
  const std::size_t each = ranges_.front().size();
  if (ranks() > 1 && !std::has_single_bit(each)) return false;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const IndexRange expected{rank * each, std::min((rank + 1) * each, total_)};
    if (ranges_[rank] != expected || expected.empty()) return false;
  }
  return true;
}

ContributionLayout agree_layout(Communicator& world, const IndexRange& mine) {
  const std::int64_t told[2] = {static_cast<std::int64_t>(mine.begin),
                                static_cast<std::int64_t>(mine.end)};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(told)), std::as_writable_bytes(std::span(all)),
                   DType::kInt64);
  std::vector<IndexRange> ranges;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    ranges.push_back({static_cast<std::size_t>(all[i]), static_cast<std::size_t>(all[i + 1])});
  }
  return ContributionLayout(std::move(ranges));
}

}  // namespace nqd::collectives
