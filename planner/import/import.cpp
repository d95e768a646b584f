#include "planner/import/import.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "planner/config/config.h"
#include "planner/import/importers.h"

namespace nqd::planner {
namespace {

constexpr std::array<std::string_view, 4> kFormats = {"megatron", "deepspeed", "hf", "torchtitan"};
constexpr std::string_view kYamlName = "imported config";

// Several files read as one text, and the way back to the place in each.
class JoinedSource {
 public:
  JoinedSource(const std::vector<Source>& files, const std::vector<std::string>& definitions)
      : joined_(join(files, definitions)) {}

  const Source& source() const { return joined_; }

  void relocate(SourceLocation& where) const {
    if (where.file != joined_.name()) return;
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      if (where.line < part->first_line) continue;
      where.file = part->name;
      where.line -= part->first_line - 1;
      return;
    }
    where.file = first_;
  }

 private:
  struct Part {
    std::string name;
    int first_line = 1;
  };

  Source join(const std::vector<Source>& files, const std::vector<std::string>& definitions) {
    std::string text;
    if (!definitions.empty()) parts_.push_back({"--define", 1});
    for (const std::string& definition : definitions) {
      const std::size_t equals = std::min(definition.find('='), definition.size());
      std::string value = definition.substr(std::min(equals + 1, definition.size()));
      std::erase(value, '\'');
      std::erase(value, '\n');
      text += definition.substr(0, equals) + "='" + value + "'\n";
    }
    if (!files.empty()) first_ = files.front().name();
    for (const Source& file : files) {
      const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
      parts_.push_back({file.name(), lines + 1});
      text += file.text();
      if (parts_.size() > 1 && !text.empty() && text.back() != '\n') text += '\n';
    }
    // No file's own name, so that a place in the joined text is known as one.
    const std::string name = parts_.size() == 1 ? first_ : "script that starts with " + first_;
    return Source(name, std::move(text));
  }

  std::vector<Part> parts_;  // before joined_, which fills it
  std::string first_;
  Source joined_;
};

std::string section_line(std::string_view path, int depth) {
  return std::string(static_cast<std::size_t>(depth) * 2, ' ') + std::string(leaf_of(path)) + ":\n";
}

int depth_of(std::string_view path) {
  return static_cast<int>(std::count(path.begin(), path.end(), '.'));
}

// The config as text, and the path that each of its lines holds.
class YamlWriter {
 public:
  void comment(const std::string& text) { line("# " + one_line(text, 400), ""); }

  void value(const ImportedValue& value) {
    const Field& field = *find_field(value.path);
    store(field, draft_, value.value);
    const std::string_view section = parent_of(value.path);
    if (section != section_) open(section);
    const auto depth = static_cast<std::size_t>(depth_of(value.path));
    std::string text(depth * 2, ' ');
    text += std::string(leaf_of(value.path)) + ": " + value_text(field, draft_);
    line(text + "  # " + one_line(value.comment, 120), value.path);
  }

  std::string take() { return std::move(text_); }
  const std::string& path_of(int line) const {
    static const std::string kNone;
    const auto found = paths_.find(line);
    return found == paths_.end() ? kNone : found->second;
  }

 private:
  void open(std::string_view section) {
    const std::string_view parent = parent_of(section);
    if (!parent.empty() && section_ != parent && parent_of(section_) != parent) {
      line(std::string(leaf_of(parent)) + ":", "");
    }
    std::string text = section_line(section, depth_of(section));
    text.pop_back();
    line(text, std::string(section));
    section_ = section;
  }

  void line(const std::string& text, std::string path) {
    text_ += text + "\n";
    ++lines_;
    if (!path.empty()) paths_[lines_] = std::move(path);
  }

  Draft draft_;
  std::string text_;
  std::string section_;
  std::map<int, std::string> paths_;
  int lines_ = 0;
};

class Importer {
 public:
  explicit Importer(const ImportRequest& request)
      : request_(request), joined_(request.files, request.definitions) {}

  ImportResult run() {
    read();
    ImportResult result;
    const bool malformed = has_errors(draft_.diagnostics()) && is_malformed(draft_.diagnostics());
    result.values = draft_.values();
    result.unrepresented = std::move(draft_.unrepresented());
    for (ImportedValue& value : result.values)
      value.comment = comment_of(*draft_.origin(value.path));
    for (UnrepresentedKey& key : result.unrepresented) joined_.relocate(key.where);
    sort_by_place(result.unrepresented);
    if (!malformed) {
      result.yaml = write(result);
      check(result.yaml);
    }
    result.diagnostics = std::move(draft_.diagnostics());
    const auto relocate = [&](SourceLocation& where) { joined_.relocate(where); };
    for (Diagnostic& diagnostic : result.diagnostics) {
      relocate(diagnostic.where);
      for (RelatedPlace& related : diagnostic.related) relocate(related.where);
    }
    nqd::sort_by_place(result.diagnostics);
    if (has_errors(result.diagnostics)) {
      result.exit_code = malformed ? ExitCode::kUsage : ExitCode::kNo;
    }
    return result;
  }

 private:
  void read() {
    const Source& source = joined_.source();
    if (request_.model) import_hugging_face(*request_.model, draft_);
    switch (request_.format) {
      case ForeignFormat::kMegatron:
        import_megatron(source, draft_);
        break;
      case ForeignFormat::kDeepSpeed:
        import_deepspeed(source, request_.world_size, draft_);
        break;
      case ForeignFormat::kHuggingFace:
        import_hugging_face(source, draft_);
        break;
      case ForeignFormat::kTorchTitan:
        import_torchtitan(source, request_.world_size, draft_);
        break;
    }
    if (request_.world_size > 0) {
      draft_.set("parallel.world_size", request_.world_size, {"--world-size", nullptr, {}});
    }
  }

  static void sort_by_place(std::vector<UnrepresentedKey>& keys) {
    std::stable_sort(keys.begin(), keys.end(),
                     [](const UnrepresentedKey& a, const UnrepresentedKey& b) {
                       return std::tie(a.where.file, a.where.line, a.where.column) <
                              std::tie(b.where.file, b.where.line, b.where.column);
                     });
  }

  // "line 12", or "env.sh:12" where there are several files.
  std::string label(SourceLocation where) const {
    joined_.relocate(where);
    const bool several =
        request_.files.size() > 1 || request_.model || !request_.definitions.empty();
    return (several ? where.file + ":" : std::string("line ")) + std::to_string(where.line);
  }

  std::string comment_of(const Origin& origin) const {
    std::string text = origin.comment;
    if (origin.source != nullptr) {
      text += ", " + label({origin.source->name(), origin.place.line, origin.place.column});
    }
    return text + (origin.rule.empty() ? "" : ": " + origin.rule);
  }

  // A contradiction (NQD231x) leaves a config to look at; anything else leaves none.
  static bool is_malformed(const std::vector<Diagnostic>& diagnostics) {
    return std::any_of(diagnostics.begin(), diagnostics.end(), [](const Diagnostic& d) {
      return d.severity == Severity::kError && !d.code.starts_with("NQD231");
    });
  }

  std::string write(const ImportResult& result) {
    writer_.comment("Imported from " + request_.files.front().name() + " (" +
                    std::string(name(request_.format)) + ").");
    if (!result.unrepresented.empty()) {
      writer_.comment("Not represented (" + std::to_string(result.unrepresented.size()) + "):");
    }
    for (const UnrepresentedKey& key : result.unrepresented) {
      const std::string value = key.value.empty() ? "" : " " + key.value;
      writer_.comment("  " + one_line(key.key) + value + " (" + label(key.where) +
                      "): " + key.reason);
    }
    for (const ImportedValue& value : result.values) writer_.value(value);
    return writer_.take();
  }

  // What loading the config finds, at the foreign places.
  void check(const std::string& yaml) {
    LoadedConfig loaded = load_config_text(yaml, std::string(kYamlName));
    for (Diagnostic& diagnostic : loaded.diagnostics) {
      if (diagnostic.code == "NQD1014" || diagnostic.code == "NQD1020" ||
          diagnostic.code == "NQD1028" || diagnostic.code == "NQD1003") {
        incomplete(diagnostic);
        continue;
      }
      // Said already, with the arithmetic of the foreign tool.
      if (diagnostic.code == "NQD1206" && reported("NQD2311")) continue;
      if (diagnostic.code == "NQD1209" && reported("NQD2312")) continue;
      point(diagnostic);
      draft_.report(std::move(diagnostic));
    }
  }

  bool reported(std::string_view code) {
    const auto& all = draft_.diagnostics();
    return std::any_of(all.begin(), all.end(), [&](const Diagnostic& d) { return d.code == code; });
  }

  void incomplete(const Diagnostic& found) {
    Diagnostic diagnostic = joined_.source().error("NQD2315", {}, found.path,
                                                   "the config is not complete: " + found.message);
    diagnostic.hint = request_.format == ForeignFormat::kDeepSpeed && !request_.model
                          ? "give the model's config.json: --model config.json"
                          : "add what is missing to the written config";
    draft_.warn(std::move(diagnostic));
  }

  // From the written config to the foreign text.
  void point(Diagnostic& diagnostic) {
    const std::string path = writer_.path_of(diagnostic.where.line);
    const Origin* origin = draft_.origin(path);
    if (origin != nullptr && origin->source != nullptr) {
      origin->source->point(diagnostic, origin->place);
    } else {
      joined_.source().point(diagnostic, {});
      diagnostic.source_line.clear();
      if (origin != nullptr) diagnostic.message += " (" + path + ": " + origin->comment + ")";
    }
    std::vector<RelatedPlace> related;
    for (RelatedPlace& place : diagnostic.related) {
      const Origin* from = draft_.origin(writer_.path_of(place.where.line));
      if (from == nullptr) continue;
      const std::string file =
          from->source == nullptr ? joined_.source().name() : from->source->name();
      related.push_back({{file, from->place.line, from->place.column}, place.message});
    }
    diagnostic.related = std::move(related);
  }

  const ImportRequest& request_;
  const JoinedSource joined_;
  ImportDraft draft_;
  YamlWriter writer_;
};

}  // namespace

std::string_view name(ForeignFormat format) { return kFormats[static_cast<std::size_t>(format)]; }

std::optional<ForeignFormat> parse_foreign_format(std::string_view text) {
  const auto found = std::find(kFormats.begin(), kFormats.end(), text);
  if (found == kFormats.end()) return std::nullopt;
  return static_cast<ForeignFormat>(found - kFormats.begin());
}

ImportResult import_config(const ImportRequest& request) { return Importer(request).run(); }

}  // namespace nqd::planner
