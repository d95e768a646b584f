// The field table as Markdown: the key tables of docs/config.md.
#include <string>
#include <string_view>

#include "planner/config/config.h"
#include "planner/config/field.h"
#include "planner/config/presets.h"

namespace nqd::planner {
namespace {

// A bar would end the table's cell.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

std::string meaning(const Field& field) {
  std::string text = cell(field.doc);
  if (!field.family.empty()) text += " Family " + std::string(field.family) + " only.";
  return text;
}

std::string shown_value(const Field& field) {
  return cell(expectation(field)) +
         (field.unit.empty() ? "" : " (" + std::string(field.unit) + ")");
}

std::string shown_default(const Field& field) {
  if (!field.fallback.empty()) return cell(field.fallback);
  const std::string text = default_text(field);
  return text == "\"\"" ? "none" : "`" + text + "`";
}

// "`gpt2-124m`: GPT-2 small: 124,439,808 parameters." from the first comment line of its file.
std::string preset_line(const Preset& preset) {
  const std::string_view first = preset.text.substr(0, preset.text.find('\n'));
  const std::string_view comment = first.substr(first.find_first_not_of("# "));
  return "- `" + std::string(preset.name) + "`: " + std::string(comment) + "\n";
}

std::string section_table(const Section& section) {
  std::string text = "### `" + std::string(section.path) + "`\n\n" + std::string(section.doc) +
                     "\n\n| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const Field& field : fields()) {
    if (parent_of(field.path) != section.path) continue;
    text += "| `" + std::string(leaf_of(field.path)) + "` | " + shown_value(field) + " | " +
            shown_default(field) + " | " + meaning(field) + " |\n";
  }
  return text;
}

}  // namespace

std::string config_reference_markdown() {
  std::string text;
  for (const Section& section : sections()) text += section_table(section) + "\n";
  text += "### Model presets\n\n";
  for (const Preset& preset : model_presets()) text += preset_line(preset);
  text += "\n### Cluster presets\n\n";
  for (const Preset& preset : cluster_presets()) text += preset_line(preset);
  text += "\n### Device presets\n\n";
  for (const Preset& preset : gpu_presets()) text += preset_line(preset);
  text += "\n### Stack presets\n\n";
  for (const Preset& preset : stack_presets()) text += preset_line(preset);
  return text;
}

}  // namespace nqd::planner
