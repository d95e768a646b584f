#include "reports/envelope_json.h"

namespace nqd::reports {

void write_verdicts(JsonWriter& json, const std::vector<collectives::Verdict>& verdicts) {
  json.key("verdicts").begin_array();
  for (const collectives::Verdict& verdict : verdicts) {
    json.begin_object();
    json.field("code", verdict.code);
    json.field("severity", verdict.severity);
    json.field("confidence", verdict.confidence);
    json.field("evidence", verdict.evidence);
    json.field("threshold", verdict.threshold);
    json.field("cause", verdict.cause);
    json.field("next_step", verdict.next_step);
    json.end();
  }
  json.end();
}

std::vector<collectives::Verdict> read_verdicts(const JsonField& document) {
  std::vector<collectives::Verdict> verdicts;
  for (const JsonField& verdict : document.at("verdicts").items()) {
    verdicts.push_back({.code = verdict.at("code").text(),
                        .severity = verdict.at("severity").text(),
                        .confidence = verdict.at("confidence").text(),
                        .evidence = verdict.at("evidence").text(),
                        .threshold = verdict.at("threshold").text(),
                        .cause = verdict.at("cause").text(),
                        .next_step = verdict.at("next_step").text()});
  }
  return verdicts;
}

}  // namespace nqd::reports
