#include "reports/accept_json.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include "base/units.h"
#include "reports/envelope_json.h"
#include "reports/json_writer.h"
#include "reports/page/format.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

void write_words(JsonWriter& json, std::string_view key, const std::vector<std::string>& words) {
  json.key(key).begin_array(Layout::kInline);
  for (const std::string& word : words) json.value(word);
  json.end();
}

void write_step(JsonWriter& json, const AcceptStep& step) {
  json.begin_object();
  json.field("name", step.name);
  json.field("passed", step.passed);
  json.field("seen", step.seen);
  json.field("next_step", known(step.next_step));
  json.field("seconds", step.seconds);
  write_words(json, "argv", step.argv);
  json.field("exit_code", step.exit_code);
  json.field("document", known(step.document));
  json.field("sha256", known(step.sha256));
  json.end();
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void print_step(std::ostringstream& out, const AcceptStep& step) {
  std::array<char, 64> begin{};
  std::snprintf(begin.data(), begin.size(), "%-16s%-8s%10s  ", step.name.c_str(),
                step.passed ? "ok" : "FAILED", format_seconds(step.seconds).c_str());
  out << begin.data() << first_line(step.seen) << '\n';
}

std::string verdict(const AcceptConfig& config) { return config.passed ? "accepted" : "rejected"; }

}  // namespace

bool Acceptance::accepted() const {
  return steps.size() == plan.size() &&
         std::all_of(steps.begin(), steps.end(), [](const AcceptStep& s) { return s.passed; });
}

std::string accept_json(const Envelope& envelope, const Acceptance& acceptance) {
  JsonWriter json;
  json.begin_object();
  write_envelope(json, envelope);
  json.field("cluster", known(acceptance.cluster));
  json.field("accepted", acceptance.accepted());
  write_words(json, "planned", acceptance.plan);
  json.key("steps").begin_array();
  for (const AcceptStep& step : acceptance.steps) write_step(json, step);
  json.end();
  json.key("configs").begin_array();
  for (const AcceptConfig& config : acceptance.configs) {
    json.begin_object(Layout::kInline);
    json.field("path", config.path);
    json.field("should_pass", config.should_pass);
    json.field("passed", config.passed);
    json.field("messages", known(config.messages));
    json.end();
  }
  json.end();
  json.end();
  return json.take();
}

std::string accept_text(const Acceptance& acceptance) {
  std::ostringstream out;
  out << "step            result        time  seen\n";
  for (const AcceptStep& step : acceptance.steps) print_step(out, step);
  for (std::size_t i = acceptance.steps.size(); i < acceptance.plan.size(); ++i) {
    out << acceptance.plan[i]
        << std::string(16 - std::min<std::size_t>(acceptance.plan[i].size(), 15), ' ')
        << "not run\n";
  }
  if (acceptance.accepted()) {
    out << "accepted\n";
    return out.str();
  }
  out << "not accepted";
  if (!acceptance.steps.empty() && !acceptance.steps.back().passed) {
    const AcceptStep& failed = acceptance.steps.back();
    out << ": " << failed.name << " failed\n  seen: " << failed.seen
        << "\n  do: " << failed.next_step;
  }
  out << '\n';
  return out.str();
}

std::string accept_markdown(const Envelope& envelope, const Acceptance& acceptance) {
  std::ostringstream out;
  out << "# Acceptance of " << (acceptance.cluster.empty() ? "this machine" : acceptance.cluster)
      << ": " << (acceptance.accepted() ? "accepted" : "not accepted") << "\n\n"
      << "`" << shell_line(envelope.argv) << "`, " << envelope.started_at << " to "
      << envelope.ended_at << ", on " << envelope.host.usable_cpus << " CPUs"
      << (envelope.host.cpu_model.empty() ? "" : " (" + envelope.host.cpu_model + ")") << ", load "
      << fixed(envelope.host.load_1min, 2) << " at the start, nqd " << envelope.tool.version << " ("
      << envelope.tool.git_commit << ").\n\n"
      << "| step | result | seconds | seen | raw | command |\n|---|---|---|---|---|---|\n";
  for (const AcceptStep& step : acceptance.steps) {
    out << "| " << step.name << " | " << (step.passed ? "ok" : "FAILED") << " | "
        << fixed(step.seconds, 1) << " | " << first_line(step.seen) << " | "
        << (step.document.empty() ? "" : "[JSON](" + step.document + ")") << " | "
        << (step.argv.empty() ? "" : "`" + shell_line(step.argv) + "`") << " |\n";
  }
  if (acceptance.configs.empty()) return out.str();
  out << "\n## Configs\n\n| config | verdict | expected |\n|---|---|---|\n";
  for (const AcceptConfig& config : acceptance.configs) {
    out << "| " << config.path << " | " << verdict(config) << " | "
        << (config.should_pass == config.passed ? "yes" : "NO") << " |\n";
  }
  out << "\n## Messages of the rejected configs, verbatim\n\n```\n";
  for (const AcceptConfig& config : acceptance.configs) {
    if (!config.passed) out << config.messages;
  }
  out << "```\n";
  return out.str();
}

}  // namespace nqd::reports
