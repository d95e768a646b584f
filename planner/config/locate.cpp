#include "planner/config/locate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/config/field.h"

namespace nqd::planner {
namespace {

// "parallel.pipeline_split" of "parallel.pipeline_split[2]".
std::string without_index(const std::string& path) { return path.substr(0, path.find('[')); }

std::optional<Place> place_in_file(const std::string& path, const LoadedConfig& loaded) {
  const auto found = loaded.places.find(without_index(path));
  if (found == loaded.places.end()) return std::nullopt;
  return Place{found->second.line, found->second.column};
}

// Where the value came from when it is not in the file: "preset gpt2-124m", "--set", "default".
std::string origin_of(const std::string& path, const LoadedConfig& loaded) {
  const auto found =
      std::find_if(loaded.resolved.begin(), loaded.resolved.end(),
                   [&](const ResolvedValue& value) { return value.path == without_index(path); });
  return found == loaded.resolved.end() ? "default" : found->origin;
}

bool names_a_path(const RelatedPlace& related) {
  return related.where.line == 0 && (find_field(without_index(related.where.file)) != nullptr ||
                                     find_section(related.where.file) != nullptr);
}

// When the value at fault is not in the file, the first related value that is stands for it: that
// is what the reader can edit.
void point_at_file(Diagnostic& diagnostic, const LoadedConfig& loaded, const Source& source) {
  if (const std::optional<Place> place = place_in_file(diagnostic.path, loaded)) {
    source.point(diagnostic, *place);
    return;
  }
  const std::string origin = origin_of(diagnostic.path, loaded);
  if (origin == "--set") {
    diagnostic.where = {origin, 0, 0};
    return;
  }
  for (const RelatedPlace& related : diagnostic.related) {
    if (!names_a_path(related)) continue;
    if (const std::optional<Place> place = place_in_file(related.where.file, loaded)) {
      source.point(diagnostic, *place);
      return;
    }
  }
  const std::string section(parent_of(diagnostic.path));
  source.point(diagnostic, place_in_file(section, loaded).value_or(Place{}));
}

void point_related(RelatedPlace& related, const LoadedConfig& loaded, const Source& source) {
  if (const std::optional<Place> place = place_in_file(related.where.file, loaded)) {
    related.where = {source.name(), place->line, place->column};
  } else {
    related.where = {origin_of(related.where.file, loaded), 0, 0};
  }
}

}  // namespace

void locate_in(Diagnostic& diagnostic, const LoadedConfig& loaded, const Source& source) {
  point_at_file(diagnostic, loaded, source);
  std::vector<RelatedPlace> kept;
  for (RelatedPlace& related : diagnostic.related) {
    const bool path = names_a_path(related);
    if (path) point_related(related, loaded, source);
    const bool same_place = related.where.file == diagnostic.where.file &&
                            related.where.line == diagnostic.where.line &&
                            related.where.column == diagnostic.where.column;
    // Nobody wrote a default or derived value; the message's arithmetic shows it.
    const bool unwritten =
        related.where.file == "default" || related.where.file.starts_with("derived");
    if (path && (same_place || unwritten)) continue;
    kept.push_back(std::move(related));
  }
  diagnostic.related = std::move(kept);
}

void locate(Diagnostic& diagnostic, const LoadedConfig& loaded, const std::string& text) {
  locate_in(diagnostic, loaded, Source(loaded.config.source, text));
}

}  // namespace nqd::planner
