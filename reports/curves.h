// Held-out loss by step of runs that nqd did not make, or that somebody put together: evidence of
// kind "curves", which other trainers can write (docs/evidence.md, schemas/curves.schema.json).
#pragma once

#include <string>
#include <vector>

#include "engine/records.h"
#include "reports/envelope.h"
#include "reports/json_field.h"

namespace nqd::reports {

struct LossCurve {
  std::string label;  // of this run: "PyTorch, seed 2"
  std::string group;  // runs that differ in their seed alone; the label where the document has none
  std::vector<engine::EvalRecord> evals;  // ascending steps; nats a token
};

struct LossCurves {
  std::string source;  // who measured what, with what
  std::vector<LossCurve> curves;
};

// Such a document. Of the envelope it has schema_version and kind, and argv, started_at and
// ended_at where they are known. Errors are those of JsonField.
LossCurves read_curves(const JsonField& document);
Envelope read_curves_envelope(const JsonField& document);

}  // namespace nqd::reports
