// The envelope as the first members of an evidence document, and back.
#pragma once

#include <string>

#include "collectives/bench/bench.h"
#include "reports/envelope.h"
#include "reports/json_field.h"
#include "reports/json_writer.h"

namespace nqd::reports {

// Writes the members into the open object. An ended_at that the command left empty is now.
void write_envelope(JsonWriter& json, const Envelope& envelope);
Envelope read_envelope(const JsonField& document);

// The member "verdicts".
void write_verdicts(JsonWriter& json, const std::vector<collectives::Verdict>& verdicts);
std::vector<collectives::Verdict> read_verdicts(const JsonField& document);

}  // namespace nqd::reports
