// Single lines of NCCL out of a stream that may tear them into each other.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace nqd::collectives {

struct NcclRecord {
  std::string_view host;  // empty without a prefix
  std::int64_t pid = 0;
  bool warning = false;
  std::string_view text;  // after "NCCL INFO "
  bool cut = false;       // what is missing at its end is unknown
  bool leads = false;     // nothing but a launcher's mark stands before it in its line
};

// All records of the texts, in order. A host name that another line's rest is glued to
// ("NET/IBnode2:4:5 [0] NCCL INFO …") is mended when the process is known from other lines.
std::vector<NcclRecord> split_nccl_records(std::span<const std::string_view> texts);

}  // namespace nqd::collectives
