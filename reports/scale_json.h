// `nqd scale`: its evidence document, back, and its text.
#pragma once

#include <string>

#include "engine/scale/figures.h"
#include "engine/scale/records.h"
#include "reports/envelope.h"
#include "reports/json_field.h"

namespace nqd::reports {

// {…envelope, "launcher", "numerics", "threads", "cpus", "warmup_steps", "measured_steps",
// "margin_fraction", "data": {digest, synthetic}, "points": [{regime, ranks, engine, mesh,
// global_batch_size, tokens_per_step, oversubscribed, predicted_step_s, predicted_tokens_per_s,
// tokens_per_s, efficiency, heldout_loss, quality, runs: [{seed, step_s, step_p50_s, tokens_per_s,
// efficiency, heldout_loss, weights_sha256, audit_failures}]}], "ok"}; docs/scale.md. A mean over
// seeds is {mean, low, high}, 95 %.
std::string scale_json(const Envelope& envelope, const engine::ScaleResult& result);

// The raw part of such a document. Throws Error (kUsage, NQD2101) when it is damaged, or when the
// median or rate of a run is not that of its step_s.
engine::ScaleResult read_scale(const JsonField& document);

// A table for each regime; the claim about efficiency; the test of quality; what failed. Ends in a
// newline.
std::string scale_text(const engine::ScaleResult& result);

// "2 of 4 points, up to 2 ranks; those of 4 and 8 ranks are oversubscribed (2 CPUs) and …": what
// the efficiencies of a regime are about.
std::string efficiency_claim(const engine::ScaleResult& result, engine::ScaleRegime regime);
// "paired TOST over 3 seeds, margin 1 % of the base's mean loss, level 0.05", and why it is that.
std::string quality_test(const engine::ScaleResult& result, engine::ScaleRegime regime);

}  // namespace nqd::reports
