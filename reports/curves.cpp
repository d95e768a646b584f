#include "reports/curves.h"

#include <limits>

namespace nqd::reports {
namespace {

LossCurve read_curve(const JsonField& json) {
  LossCurve curve;
  curve.label = json.at("label").text();
  const auto group = json.find("group");
  curve.group = group ? group->text() : curve.label;
  for (const JsonField& eval : json.at("evals").items()) {
    const auto step = eval.at("step").integer<std::int64_t>();
    if (!curve.evals.empty() && step <= curve.evals.back().step) {
      eval.at("step").fail("is " + std::to_string(step) + ", after step " +
                           std::to_string(curve.evals.back().step) + ": steps must ascend");
    }
    const auto tokens = eval.find("tokens");
    curve.evals.push_back(
        {.step = step,
         .loss = eval.at("heldout_loss").number_or(std::numeric_limits<double>::quiet_NaN()),
         .tokens = tokens ? tokens->integer<std::int64_t>() : 0});
  }
  if (curve.evals.empty()) json.at("evals").fail("is empty: a curve needs a point");
  return curve;
}

}  // namespace

LossCurves read_curves(const JsonField& document) {
  LossCurves read;
  read.source = document.at("source").text();
  for (const JsonField& curve : document.at("curves").items()) {
    read.curves.push_back(read_curve(curve));
  }
  return read;
}

Envelope read_curves_envelope(const JsonField& document) {
  Envelope envelope;
  envelope.kind = document.at("kind").text();
  if (const auto words = document.find("argv")) {
    for (const JsonField& word : words->items()) envelope.argv.push_back(word.text());
  }
  if (const auto start = document.find("started_at")) envelope.started_at = start->text();
  if (const auto end = document.find("ended_at")) envelope.ended_at = end->text();
  return envelope;
}

}  // namespace nqd::reports
