// The part of evidence of kind "train" that a reader gets back.
#pragma once

#include "engine/records.h"
#include "reports/envelope.h"
#include "reports/json_field.h"

namespace nqd::reports {

// Throws Error (kUsage, NQD2101) with the place of what is missing or of another type. Saves and
// roll-backs of a document are not read.
engine::TrainResult read_train(const JsonField& json, const Envelope& envelope);

}  // namespace nqd::reports
