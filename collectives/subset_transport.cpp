#include "collectives/subset_transport.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace nqd::collectives {

SubsetTransport::SubsetTransport(Transport& outer, std::vector<int> members)
    : Transport(outer.group()), outer_(outer), members_(std::move(members)) {
  rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), outer.rank()) -
                           members_.begin());
}

std::vector<std::byte> SubsetTransport::gather_control(std::span<const std::byte>) {
  throw std::logic_error("a subset of a transport has no control messages");
}

std::unique_ptr<Transport> SubsetTransport::subgroup(const std::vector<int>&, const std::string&) {
  throw std::logic_error("a subset of a transport cannot be split");
}

}  // namespace nqd::collectives
