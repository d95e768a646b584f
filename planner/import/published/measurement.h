// What a row measured, as seconds and bytes.
#pragma once

#include <optional>
#include <string>

#include "planner/import/published/fields.h"
#include "planner/import/published/platform.h"
#include "planner/import/published/published.h"
#include "planner/spec.h"

namespace nqd::planner::published {

struct Measurement {
  double value = 0;
  std::string derived;  // empty = printed
};

// `model` is that of the row before its vocabulary was padded: FLOPs are those its authors counted.
std::optional<Measurement> step_time(Fields& row, const Platform& platform, const ModelSpec& model,
                                     const Config& config);
struct PeakMemory {
  Measurement measurement;
  std::string field;
  std::string problem;  // not empty: the field is there but is no positive number
};
std::optional<PeakMemory> peak_memory(const Fields& row);
// torchtitan prints what is reserved; others what is allocated, unless the field, the row's note or
// the file's description says otherwise.
MemoryKind memory_kind(const Fields& row, const std::string& field, const Platform& platform,
                       const std::string& description);

}  // namespace nqd::planner::published
