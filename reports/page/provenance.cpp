#include <algorithm>

#include "base/file.h"
#include "base/units.h"
#include "reports/page/format.h"
#include "reports/page/sections.h"

namespace nqd::reports {
namespace {

std::string when(const Envelope& envelope) {
  const std::int64_t seconds = seconds_between(envelope.started_at, envelope.ended_at);
  return envelope.started_at + " to " + envelope.ended_at +
         (seconds < 0 ? "" : " (" + std::to_string(seconds) + " s)");
}

std::string memory_text(const HostInfo& host) {
  if (host.memory_total_bytes == 0) return "unknown";
  std::string text = short_bytes(static_cast<double>(host.memory_total_bytes));
  if (host.cgroup_memory_bytes) {
    text += ", limited to " + short_bytes(static_cast<double>(*host.cgroup_memory_bytes)) +
            " by the cgroup";
  }
  return text;
}

void add_facts(Page& page, const Evidence& document) {
  const Envelope& envelope = document.envelope;
  const HostInfo& host = envelope.host;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"Measured", when(envelope)},
      {"Tool", "nqd " + envelope.tool.version + ", commit " + envelope.tool.git_commit + ", " +
                   envelope.tool.build_type + " build, " + envelope.tool.compiler},
      {"Host", host.hostname + ", " + host.kernel},
      {"Processor", (host.cpu_model.empty() ? "unknown" : host.cpu_model) + ", " +
                        std::to_string(host.usable_cpus) + " of " +
                        std::to_string(host.online_cpus) + " CPUs usable, load " +
                        fixed(host.load_1min, 2) + " at the start"},
      {"Memory", memory_text(host)},
      {"World", std::to_string(envelope.world_size_actual) + " ranks (" +
                    std::to_string(envelope.world_size_asked) + " asked)" +
                    (envelope.backend.empty() ? "" : ", " + envelope.backend + " backend")}};
  for (const auto& [library, version] : envelope.libraries) facts.emplace_back(library, version);
  if (!envelope.config_path.empty()) {
    facts.emplace_back("Config",
                       envelope.config_path + ", SHA-256 " + sha256_hex(envelope.config_yaml));
  }
  const std::string& digest =
      envelope.kind == "scale" ? document.scale.data_digest : document.train.data_digest;
  if (!document.data_path.empty() || !digest.empty()) {
    facts.emplace_back("Data", document.data_path + ", " +
                                   (digest.empty() ? "not verified" : "SHA-256 " + digest));
  }
  page.definitions(facts);
}

void add_ranks(Page& page, const Envelope& envelope) {
  if (envelope.ranks.empty()) return;
  Table table{{"Rank", "Host", "Process", "Device", "Launcher"}, {}};
  for (const engine::RankIdentity& rank : envelope.ranks) {
    table.rows.push_back({number_cell(std::to_string(rank.rank)),
                          {rank.host},
                          number_cell(rank.pid == 0 ? "–" : std::to_string(rank.pid)),
                          {rank.device},
                          {rank.launcher}});
  }
  page.details("Ranks (" + std::to_string(envelope.ranks.size()) + ")", table);
}

void add_environment(Page& page, const Envelope& envelope) {
  if (envelope.environment.empty()) return;
  Table table{{"Variable", "Value"}, {}};
  for (const auto& [name, value] : envelope.environment) table.rows.push_back({{name}, {value}});
  page.details("Environment (" + std::to_string(table.rows.size()) + ")", table);
}

void add_config(Page& page, const Envelope& envelope) {
  if (envelope.resolved.empty()) return;
  Table table{{"Key", "Value", "From"}, {}};
  for (const planner::ResolvedValue& value : envelope.resolved) {
    table.rows.push_back({{value.path}, {value.value}, {value.origin}});
  }
  page.details("Resolved config (" + std::to_string(table.rows.size()) + " values)", table);
}

// A document of another tool has its own word for what made it.
void add_curves_source(Page& page, const Evidence& document) {
  const Envelope& envelope = document.envelope;
  page.paragraph(document.curves.source);
  if (!envelope.argv.empty()) page.code(shell_line(envelope.argv));
  if (!envelope.started_at.empty()) page.definitions({{"Measured", when(envelope)}});
}

Tone status_tone(const std::string& status) {
  if (status == "ok") return Tone::kGood;
  return status == "warn" ? Tone::kWarning : Tone::kBad;
}

}  // namespace

std::string document_name(const Evidence& document, const Documents& documents) {
  const auto same_name = std::count_if(documents.begin(), documents.end(), [&](const Evidence& d) {
    return d.path.filename() == document.path.filename();
  });
  return same_name > 1 ? document.path.string() : document.path.filename().string();
}

void add_machine(Page& page, const Documents& documents) {
  const auto has_checks = [](const Evidence& document) { return !document.checks.empty(); };
  if (std::none_of(documents.begin(), documents.end(), has_checks)) return;
  page.begin_section("machine", "Machine", "What nqd doctor found.");
  for (const Evidence& document : documents) {
    if (!has_checks(document)) continue;
    Table table{{"Check", "Status", "Found", "What to do"}, {}};
    for (const MachineCheck& check : document.checks) {
      table.rows.push_back({{check.name},
                            {check.status, false, status_tone(check.status)},
                            {check.detail},
                            {check.advice}});
    }
    page.table(table);
  }
  page.end_section();
}

void add_provenance(Page& page, const Documents& documents) {
  page.begin_section("provenance", "Provenance",
                     "How each document was made: enough to make it again.");
  for (const Evidence& document : documents) {
    page.heading(document_name(document, documents) + " (" + document.envelope.kind + ")");
    if (document.envelope.kind == "curves") {
      add_curves_source(page, document);
      continue;
    }
    // A cluster file has no envelope; its source line says where its figures come from.
    if (document.envelope.argv.empty()) {
      page.paragraph("Fitted from " + document.calibration.source + ".");
      continue;
    }
    page.code(shell_line(document.envelope.argv));
    add_facts(page, document);
    add_ranks(page, document.envelope);
    add_environment(page, document.envelope);
    add_config(page, document.envelope);
  }
  page.end_section();
}

}  // namespace nqd::reports
