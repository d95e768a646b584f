// One function a foreign format: config to text. `inexpressible` holds what a writer knows a reason
// for; export_config adds the rest.
#pragma once

#include "planner/import/export.h"

namespace nqd::planner {

ExportResult write_megatron(const Config& config);
ExportResult write_hugging_face(const Config& config);
ExportResult write_deepspeed(const Config& config);

}  // namespace nqd::planner
