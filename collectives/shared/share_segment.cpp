#include "collectives/shared/share_segment.h"

#include <algorithm>
#include <cstring>

namespace nqd::collectives {

std::shared_ptr<Segment> share_segment(Transport& group, std::size_t bytes) {
  for (int rank = 1; rank < group.size(); ++rank) {
    if (group.host(rank) != group.host(0)) return nullptr;
  }
  std::shared_ptr<Segment> segment;
  Segment::Address mine;
  if (group.rank() == 0) {
    segment = Segment::create(bytes);
    mine = segment->address();
  }
  const auto addresses = group.gather_control(std::as_bytes(std::span(&mine, 1)));
  Segment::Address first;
  std::memcpy(&first, addresses.data(), sizeof first);
  if (group.rank() != 0) segment = Segment::attach(first);
  const std::uint8_t attached = segment != nullptr ? 1 : 0;
  const auto all = group.gather_control(std::as_bytes(std::span(&attached, 1)));
  if (std::find(all.begin(), all.end(), std::byte{0}) != all.end()) return nullptr;
  segment->close_descriptor();
  return segment;
}

}  // namespace nqd::collectives
