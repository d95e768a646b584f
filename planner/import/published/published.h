// Tables of published measurements (step times, peak memories, collective curves) as configs of the
// planner. A table is a JSON file {"description", "rows": [{…}]}; docs/accuracy.md has its fields.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/types.h"
#include "planner/spec.h"

namespace nqd::planner {

enum class Quantity : std::uint8_t { kStepTime, kPeakMemory, kCollectiveTime };
std::string_view name(
    Quantity quantity);  // "step_time_s", "peak_memory_bytes", "collective_time_s"

// What a peak counts: tensors; the caching allocator's blocks as well; the driver's share too.
enum class MemoryKind : std::uint8_t { kAllocated, kReserved, kDevice };

// One measurement. A row that has several (time and memory; the points of a curve) makes several.
struct PublishedRow {
  std::string id;           // the row's own, or file#index; a point of a curve: file#index@bytes
  std::string model;        // as the table calls it; rows of one model, GPUs and batch are a group
  std::string skip_reason;  // not empty: the row cannot be represented, and only `id` holds
  std::shared_ptr<const Config> config;
  Quantity quantity = Quantity::kStepTime;
  double measured = 0;               // seconds or bytes
  std::string derived;               // how `measured` follows from what is printed; empty = printed
  std::vector<std::string> assumed;  // what the row does not say: "mbs 1"
  std::string suspect;               // why the measurement is doubted: shown, never fitted
  std::string not_fitted;            // why it cannot determine constants though it is not doubted
  MemoryKind memory_kind = MemoryKind::kAllocated;  // Quantity::kPeakMemory
  // Quantity::kCollectiveTime.
  collectives::Collective collective = collectives::Collective::kAllReduce;
  std::int64_t ranks = 0;
  double bytes = 0;
};

struct PublishedTable {
  std::string file;  // as it was named
  std::string description;
  std::vector<PublishedRow> rows;
};

// Every row of the text, in its order; those that cannot be represented with a reason. Unknown,
// missing, null and oddly typed fields are no errors: a field is what its row says, else what
// "defaults" of the file says, else what is usual for the row's framework. Throws Error (kUsage):
// NQD2060 for text that is not JSON, with line and column, NQD2061 for JSON that is no table.
PublishedTable read_published_text(const std::string& text, const std::string& file);
// The same of a file; also NQD2001 when it cannot be read.
PublishedTable read_published(const std::string& path);

}  // namespace nqd::planner
