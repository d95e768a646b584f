#include <algorithm>

#include "base/units.h"
#include "reports/page/format.h"
#include "reports/page/sections.h"
#include "reports/summary.h"

namespace nqd::reports {
namespace {

std::string change(const std::optional<double>& first, const std::optional<double>& last) {
  if (!last) return {};
  return first ? fixed(*first, 3) + " → " + fixed(*last, 3) : fixed(*last, 3);
}

Card audit_card(const engine::TrainResult& train, const TrainSummary& summary) {
  if (train.audit.empty()) {
    return {"Audit", "none", "the run ended before its audit", Tone::kWarning};
  }
  const std::string count =
      std::to_string(summary.exact_rows_ok) + " of " + std::to_string(summary.exact_rows);
  return {"Audit: measured = predicted", count,
          train.audit_ok ? "every exact row agrees to the byte" : "a row disagrees: see the audit",
          train.audit_ok ? Tone::kGood : Tone::kBad};
}

void add_train_cards(std::vector<Card>& cards, const Evidence& document) {
  const engine::TrainResult& train = document.train;
  const TrainSummary summary = summarize(train);
  if (train.fault) {
    cards.push_back({"Run", "stopped",
                     train.fault->code + " at step " + std::to_string(train.fault->at_step),
                     Tone::kBad});
  }
  if (summary.final_heldout_loss) {
    cards.push_back({"Held-out loss",
                     change(summary.first_heldout_loss, summary.final_heldout_loss),
                     "nats a token, text never trained on"});
  } else if (summary.final_loss) {
    cards.push_back({"Training loss", change(summary.first_loss, summary.final_loss),
                     "nats a token, first and last step"});
  }
  if (train.tokens_per_s > 0) {
    cards.push_back({"Throughput", format_short(train.tokens_per_s) + " tokens/s",
                     std::to_string(document.envelope.world_size_actual) + " ranks, " +
                         train.backend + " backend"});
  }
  if (summary.step_p50_s) {
    cards.push_back({"Step time", format_seconds(*summary.step_p50_s),
                     "median; 95 % within " + format_seconds(*summary.step_p95_s)});
  }
  if (train.mfu > 0) {
    cards.push_back({"Model FLOPs utilization", fixed(100 * train.mfu, 1) + " %",
                     "of the peak in the config, recomputation not counted"});
  }
  cards.push_back(audit_card(train, summary));
}

void add_bench_cards(std::vector<Card>& cards, const Evidence& document) {
  const std::vector<FabricSummary> summaries = summarize(document.bench);
  if (summaries.empty()) return;
  const auto best = std::max_element(summaries.begin(), summaries.end(),
                                     [](const FabricSummary& a, const FabricSummary& b) {
                                       return a.peak_busbw_gbps < b.peak_busbw_gbps;
                                     });
  const std::string where =
      best->collective + " " + best->algorithm + ", " + std::to_string(best->ranks) + " ranks";
  cards.push_back({"Peak bus bandwidth", fixed(best->peak_busbw_gbps, 2) + " GB/s",
                   where + ", at " + short_bytes(static_cast<double>(best->peak_bytes))});
  const auto fastest = std::min_element(summaries.begin(), summaries.end(),
                                        [](const FabricSummary& a, const FabricSummary& b) {
                                          return a.smallest_p50_s < b.smallest_p50_s;
                                        });
  cards.push_back({"Small-message latency", format_seconds(fastest->smallest_p50_s),
                   fastest->algorithm + ", " +
                       short_bytes(static_cast<double>(fastest->smallest_bytes)) + ", median"});
  std::uint64_t wrong = 0;
  for (const FabricSummary& entry : summaries) wrong += entry.wrong;
  if (wrong > 0) {
    cards.push_back(
        {"Wrong elements", format_count(wrong), "the collective is broken", Tone::kBad});
  }
}

Tone tone_of(const collectives::Verdict& verdict) {
  if (verdict.severity == "error") return Tone::kBad;
  return verdict.severity == "warning" ? Tone::kWarning : Tone::kPlain;
}

std::string sentence(const std::string& text) { return text.ends_with('.') ? text : text + "."; }

void add_bench_verdicts(Page& page, const Documents& documents) {
  for (const Evidence& document : documents) {
    for (const collectives::Verdict& verdict : document.bench.verdicts) {
      page.callout(
          tone_of(verdict), verdict.code + " (" + verdict.confidence + ")",
          {sentence(verdict.evidence), sentence("Threshold: " + verdict.threshold),
           sentence("Cause: " + verdict.cause), sentence("Next step: " + verdict.next_step)});
    }
  }
}

void add_faults(Page& page, const Documents& documents) {
  for (const Evidence& document : documents) {
    if (!document.train.fault) continue;
    const engine::FaultRecord& fault = *document.train.fault;
    std::string where = "At step " + std::to_string(fault.at_step) + ", detected " +
                        format_seconds(fault.detected_s) + " after the start.";
    if (fault.lost_rank >= 0) {
      where += " Lost: rank " + std::to_string(fault.lost_rank) +
               (fault.lost_host.empty() ? "" : " on host " + fault.lost_host) + ".";
    }
    page.callout(Tone::kBad, fault.code + ": the run stopped",
                 {fault.message, where, "More: nqd explain " + fault.code});
  }
}

}  // namespace

void add_summary(Page& page, const Documents& documents) {
  std::vector<Card> cards;
  for (const Evidence& document : documents) {
    if (document.envelope.kind == "train") add_train_cards(cards, document);
  }
  for (const Evidence& document : documents) add_bench_cards(cards, document);
  const bool has_findings = std::any_of(documents.begin(), documents.end(), [](const Evidence& d) {
    return d.train.fault || !d.bench.verdicts.empty();
  });
  if (cards.empty() && !has_findings) return;
  page.begin_section("summary", "Summary");
  page.cards(cards);
  add_faults(page, documents);
  add_bench_verdicts(page, documents);
  page.end_section();
}

}  // namespace nqd::reports
