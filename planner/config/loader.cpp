#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "planner/config/assignment.h"
#include "planner/config/calibration_reader.h"
#include "planner/config/config.h"
#include "planner/config/locate.h"
#include "planner/config/presets.h"
#include "planner/config/read_value.h"
#include "planner/config/resolution.h"
#include "planner/config/suggest.h"
#include "planner/planner.h"

namespace nqd::planner {
namespace {

constexpr std::size_t kMaxDiagnostics = 50;

// The stack whose constants a runtime is priced with when the config names none, whatever its
// engine is: a search compares engines. nqd's own engine for devices overlaps as Megatron Core
// does.
std::string_view usual_stack(std::string_view runtime) {
  if (runtime == "fsdp2") return "torchtitan-2024";
  if (runtime == "deepspeed") return "megatron-deepspeed-2022";
  return "megatron-core-2024";
}

// One load: layers of assignments, the last of which wins: preset (a device's before its
// machine's), calibration key, file, --cluster, --set.
class Loader {
 public:
  Loader(Source file, const LoadOptions& options)
      : options_(options), file_(std::move(file)), flags_("--set", "") {}

  LoadedConfig load() {
    loaded_.config.source = file_.name();
    loaded_.text = file_.text();
    if (const std::optional<YamlNode> root = parse_root()) resolve(*root);
    return finish();
  }

 private:
  Findings& findings() { return resolution_.findings; }

  std::optional<YamlNode> parse_root() {
    std::optional<YamlNode> root = parse_yaml(file_, findings().diagnostics);
    if (!root || root->kind == YamlNode::Kind::kMap) return root;
    Diagnostic diagnostic;
    if (root->kind == YamlNode::Kind::kNull) {
      diagnostic = file_.error("NQD1003", {}, "", "the config file is empty");
      diagnostic.hint = "the smallest config is `model: {preset: gpt2-124m}`";
    } else {
      diagnostic =
          file_.error("NQD1004", root->place, "", "a config file is a mapping of sections");
      diagnostic.expected = "model:, cluster:, parallel:, train:, data:";
      diagnostic.got = describe(*root);
    }
    findings().add(std::move(diagnostic), "");
    return std::nullopt;
  }

  void resolve(const YamlNode& root) {
    AssignmentReader reader(file_, findings());
    reader.read(root, "");
    const std::vector<Assignment> flags = read_overrides(options_.overrides, flags_, findings());
    given_ = reader.assignments();
    given_.insert(given_.end(), flags.begin(), flags.end());
    remember_places(reader);

    apply_preset("model", model_presets());
    apply_machine();
    apply_stack();
    if (options_.cluster_file.empty()) apply_calibration_key();
    apply(reader.assignments());
    if (!options_.cluster_file.empty()) apply_calibration(options_.cluster_file, nullptr);
    apply(flags);

    check_model_keys(resolution_, given_, file_, place_of("model"));
    derive_values(resolution_);
    publish();
    apply_mesh_rules();
  }

  void remember_places(AssignmentReader& reader) {
    for (const auto& [path, place] : reader.sections()) {
      loaded_.places[path] = {file_.name(), place.line, place.column};
    }
    for (const Assignment& assignment : reader.assignments()) {
      const Place place = assignment.value.place;
      loaded_.places[std::string(assignment.field->path)] = {file_.name(), place.line,
                                                             place.column};
    }
  }

  Place place_of(const std::string& path) const {
    const auto found = loaded_.places.find(path);
    if (found == loaded_.places.end()) return {};
    return {found->second.line, found->second.column};
  }

  // The assignment of `path` that wins among the file's and the flags'.
  const Assignment* last_given(std::string_view path) const {
    const auto found =
        std::find_if(given_.rbegin(), given_.rend(),
                     [&](const Assignment& assignment) { return assignment.field->path == path; });
    const bool text = found != given_.rend() && found->value.kind == YamlNode::Kind::kScalar;
    return text && !found->value.text.empty() ? &*found : nullptr;
  }

  void apply(const std::vector<Assignment>& assignments) {
    for (const Assignment& assignment : assignments) {
      Diagnostic problem;
      const std::optional<Value> value =
          read_value(*assignment.field, assignment.value, *assignment.source, problem);
      if (value) {
        resolution_.set(assignment.field->path, *value, assignment.origin);
      } else {
        findings().add(std::move(problem), assignment.field->path);
      }
    }
  }

  void apply_preset(const std::string& section, std::span<const Preset> presets) {
    const Assignment* asked = last_given(section + ".preset");
    if (asked != nullptr) apply(read_preset(*asked, section, presets));
  }

  // The device that the config names, else that of its machine.
  void apply_machine() {
    std::vector<Assignment> machine;
    if (const Assignment* asked = last_given("cluster.preset")) {
      machine = read_preset(*asked, "cluster", cluster_presets());
    }
    const Assignment* device = last_given("cluster.gpu");
    if (device == nullptr) {
      const auto own = std::find_if(
          machine.begin(), machine.end(),
          [](const Assignment& assignment) { return assignment.field->path == "cluster.gpu"; });
      if (own != machine.end()) device = &*own;
    }
    if (device != nullptr) apply(read_preset(*device, "cluster", gpu_presets()));
    apply(machine);
  }

  // The stack that the config names, else for devices that which stands for its runtime.
  void apply_stack() {
    const bool device = resolution_.given("cluster.gpu") || last_given("cluster.gpu") != nullptr;
    if (last_given("stack.preset") != nullptr || !device) {
      return apply_preset("stack", stack_presets());
    }
    const Assignment* given = last_given("train.runtime");
    const std::string runtime = given != nullptr ? given->value.text : "nqd";
    const std::string_view name = usual_stack(runtime);
    const std::span<const Preset> presets = stack_presets();
    const auto found = std::find_if(presets.begin(), presets.end(),
                                    [&](const Preset& preset) { return preset.name == name; });
    if (found == presets.end()) return;
    apply(preset_keys(*found, "stack"));
    resolution_.set("stack.preset", Value(std::string(name)), "derived: train.runtime " + runtime);
  }

  // The keys of the preset that `asked` names, under `section`; none when there is no such preset.
  std::vector<Assignment> read_preset(const Assignment& asked, const std::string& section,
                                      std::span<const Preset> presets) {
    const std::string& name = asked.value.text;
    const auto found = std::find_if(presets.begin(), presets.end(),
                                    [&](const Preset& preset) { return preset.name == name; });
    if (found == presets.end()) {
      report_unknown_preset(asked, section, presets);
      return {};
    }
    return preset_keys(*found, section);
  }

  std::vector<Assignment> preset_keys(const Preset& preset, const std::string& section) {
    const std::string label = "preset " + std::string(preset.name);
    const Source& source = extra_sources_.emplace_back(label, std::string(preset.text));
    const std::optional<YamlNode> root = parse_yaml(source, findings().diagnostics);
    if (!root) return {};
    AssignmentReader reader(source, findings());
    reader.read(*root, section);
    for (Assignment& assignment : reader.assignments()) assignment.origin = label;
    return std::move(reader.assignments());
  }

  void report_unknown_preset(const Assignment& asked, const std::string& section,
                             std::span<const Preset> presets) {
    std::vector<std::string_view> names;
    for (const Preset& preset : presets) names.push_back(preset.name);
    const std::string shown = printable(asked.value.text);
    const std::string path(asked.field->path);
    const std::string kind = path == "cluster.gpu" ? "device" : section;
    Diagnostic diagnostic = asked.source->error(
        "NQD1012", asked.value.place, path, "there is no " + kind + " preset \"" + shown + "\"");
    diagnostic.expected = "one of " + joined(names);
    if (const std::optional<std::string> meant = closest(asked.value.text, names)) {
      diagnostic.hint = "did you mean " + *meant + "?";
    }
    findings().add(std::move(diagnostic), section);
  }

  void apply_calibration_key() {
    const Assignment* asked = last_given("cluster.calibration");
    if (asked != nullptr) apply_calibration(asked->value.text, asked);
  }

  // `asked` is the key that names the file, or null for --cluster.
  void apply_calibration(const std::string& path, const Assignment* asked) {
    std::string text;
    try {
      text = read_file(path);
    } catch (const Error& error) {
      report_unreadable_calibration(error.what(), asked);
      return;
    }
    const Source& source = extra_sources_.emplace_back(path, std::move(text));
    std::vector<Diagnostic> problems;
    std::optional<Calibration> calibration = parse_calibration(source, problems);
    for (Diagnostic& problem : problems) {
      if (asked != nullptr) problem.related.push_back(named_here(*asked));
      findings().add(std::move(problem), "cluster.calibration");
    }
    if (!calibration) return;
    const std::string origin = "calibration " + path;
    resolution_.set("cluster.calibration", Value(path), asked ? asked->origin : "--cluster");
    ClusterSpec& cluster = resolution_.draft.config.cluster;
    cluster.curves = std::move(calibration->curves);
    cluster.crossovers = std::move(calibration->crossovers);
    cluster.engine_rates = std::move(calibration->engine_rates);
    cluster.calibration_source = calibration->source;
    if (calibration->gemm_flops > 0) {
      resolution_.set("cluster.gemm_flops", Value(calibration->gemm_flops), origin);
    }
    if (calibration->memory_bandwidth_bytes_per_s > 0) {
      resolution_.set("cluster.memory_bandwidth_bytes_per_s",
                      Value(calibration->memory_bandwidth_bytes_per_s), origin);
    }
  }

  static RelatedPlace named_here(const Assignment& asked) {
    const Place place = asked.value.place;
    return {{asked.source->name(), place.line, place.column}, "this calibration is named here"};
  }

  void report_unreadable_calibration(const std::string& reason, const Assignment* asked) {
    Diagnostic diagnostic;
    if (asked != nullptr) {
      diagnostic =
          asked->source->error("NQD1011", asked->value.place, "cluster.calibration", reason);
    } else {
      diagnostic = Source("--cluster", "").error("NQD1011", {}, "cluster.calibration", reason);
    }
    diagnostic.hint =
        "give the file that `nqd calibrate` wrote; the path is relative to the folder "
        "in which nqd runs";
    findings().add(std::move(diagnostic), "cluster.calibration");
  }

  void publish() {
    const std::string source = loaded_.config.source;
    loaded_.config = resolution_.draft.config;
    loaded_.config.source = source;
    loaded_.resolved = resolved_values(resolution_);
    loaded_.resolved_yaml = canonical_yaml(loaded_.resolved);
  }

  // Rules are judged only on values that loaded well.
  void apply_mesh_rules() {
    for (Diagnostic& diagnostic : check_mesh(loaded_.config)) {
      const bool judged =
          resolution_.reliable(diagnostic.path) &&
          std::all_of(diagnostic.related.begin(), diagnostic.related.end(),
                      [&](const RelatedPlace& r) { return resolution_.reliable(r.where.file); });
      if (!judged) continue;
      locate_in(diagnostic, loaded_, file_);
      findings().add(std::move(diagnostic), "");
    }
  }

  LoadedConfig finish() {
    std::vector<Diagnostic>& all = findings().diagnostics;
    sort_by_place(all);
    if (all.size() > kMaxDiagnostics) {
      Diagnostic rest = file_.error(
          "NQD1031", {}, "",
          std::to_string(all.size() - kMaxDiagnostics) + " more findings are not shown");
      rest.severity = Severity::kNote;
      // An error must not be hidden by warnings that come before it.
      const bool errors = has_errors(all);
      all.resize(kMaxDiagnostics);
      if (errors && !has_errors(all)) rest.severity = Severity::kError;
      all.push_back(std::move(rest));
    }
    loaded_.diagnostics = std::move(all);
    return std::move(loaded_);
  }

  const LoadOptions& options_;
  const Source file_;
  const Source flags_;
  std::deque<Source> extra_sources_;  // stays put: assignments point into it
  std::vector<Assignment> given_;
  Resolution resolution_;
  LoadedConfig loaded_;
};

}  // namespace

LoadedConfig load_config_text(const std::string& text, const std::string& name,
                              const LoadOptions& options) {
  return Loader(Source(name, text), options).load();
}

LoadedConfig load_config(const std::string& path, const LoadOptions& options) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error& error) {
    LoadedConfig loaded;
    loaded.config.source = path;
    Diagnostic diagnostic = Source(path, "").error("NQD1001", {}, "", error.what());
    diagnostic.hint = error.hint();
    loaded.diagnostics.push_back(std::move(diagnostic));
    return loaded;
  }
  return load_config_text(text, path, options);
}

}  // namespace nqd::planner
