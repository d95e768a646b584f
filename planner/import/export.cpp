#include "planner/import/export.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "planner/import/export_writers.h"
#include "planner/import/foreign_table.h"
#include "planner/import/import.h"

namespace nqd::planner {
namespace {

constexpr std::string_view kProgram = "the program builds the model: see --to hf";
constexpr std::string_view kSoftware = "what other software costs is no part of its arguments";
constexpr std::string_view kNoPlace = "the format has no place for it";

constexpr Reason kMegatronPlaces[] = {
    {"train.ema", "Megatron-LM keeps no average of the weights"},
    {"train.noise_scale", "a measured figure"},
    {"train.tokens", "--train-iters says how long"},
    {"train.threads", "Megatron-LM runs on devices"},
    {"train.eval_batches", "--eval-iters counts whole steps"},
    {"data.*", "Megatron-LM has its own data files"},
    {"cluster.nodes", ""},
    {"cluster.gpus_per_node", ""},
    {"cluster.*", "only nodes and devices a node are said, by torchrun"},
    {"stack.*", kSoftware},
    {"*", ""}};

constexpr Reason kHuggingFacePlaces[] = {{"model.*", ""}, {"*", "a config.json is a model alone"}};

constexpr Reason kDeepSpeedPlaces[] = {
    {"model.*", kProgram},
    {"parallel.engine", ""},
    {"parallel.dp", ""},
    {"parallel.tp", ""},
    {"parallel.pp", ""},
    {"parallel.hsdp_shard", ""},
    {"parallel.world_size", ""},
    {"parallel.cp", "DeepSpeed has no context parallelism"},
    {"parallel.ep", "the program's MoE layers say it"},
    {"parallel.*", "DeepSpeed's pipeline and its layers are the program's"},
    {"train.micro_batch_size", ""},
    {"train.global_batch_size", ""},
    {"train.precision", ""},
    {"train.gradient_precision", ""},
    {"train.bucket_bytes", ""},
    {"train.runtime", ""},
    {"train.optimizer.min_learning_rate", "the schedule is the program's"},
    {"train.optimizer.warmup_steps", "the schedule is the program's"},
    {"train.optimizer.*", ""},
    {"train.ema", "DeepSpeed keeps no average of the weights"},
    {"train.recompute*", "the program's layers say it"},
    {"train.*", "the program says it"},
    {"data.*", "the program reads its data"},
    {"cluster.*", "DeepSpeed's launcher says where it runs"},
    {"stack.*", kSoftware}};

struct Format {
  std::string_view name;
  ForeignFormat read_as;
  ExportResult (*write)(const Config&);
  // The first that fits a key: why the format has no place for it; empty = it has one.
  std::span<const Reason> places;
};

constexpr std::array<Format, 3> kFormats = {
    {{"megatron", ForeignFormat::kMegatron, write_megatron, kMegatronPlaces},
     {"hf", ForeignFormat::kHuggingFace, write_hugging_face, kHuggingFacePlaces},
     {"deepspeed", ForeignFormat::kDeepSpeed, write_deepspeed, kDeepSpeedPlaces}}};

// What the text says, as nqd's importer understands it.
std::map<std::string, std::string> said_by(const std::string& text, ForeignFormat format) {
  ImportRequest request;
  request.format = format;
  request.files.emplace_back("exported", text);
  const LoadedConfig back = load_config_text(import_config(request).yaml, "imported");
  std::map<std::string, std::string> said;
  for (const ResolvedValue& value : back.resolved) said[value.path] = value.value;
  return said;
}

bool is_name(const std::string& path) { return path == "model.preset" || path == "model.family"; }

bool is_given(const LoadedConfig& loaded, const ResolvedValue& value) {
  return loaded.places.contains(value.path) || value.origin.starts_with("--");
}

std::ptrdiff_t position(const InexpressibleKey& key) {
  const Field* field = find_field(key.path);
  return field == nullptr ? std::ssize(fields()) : field - fields().data();
}

}  // namespace

std::optional<ExportFormat> parse_export_format(std::string_view text) {
  const auto found = std::find_if(kFormats.begin(), kFormats.end(),
                                  [&](const Format& format) { return format.name == text; });
  if (found == kFormats.end()) return std::nullopt;
  return static_cast<ExportFormat>(found - kFormats.begin());
}

ExportResult export_config(const LoadedConfig& loaded, ExportFormat asked) {
  const Format& format = kFormats[static_cast<std::size_t>(asked)];
  ExportResult result = format.write(loaded.config);
  if (result.text.empty()) return result;
  const std::map<std::string, std::string> said = said_by(result.text, format.read_as);
  std::vector<InexpressibleKey>& all = result.inexpressible;
  for (const ResolvedValue& value : loaded.resolved) {
    const auto listed = [&](const InexpressibleKey& key) { return key.path == value.path; };
    if (std::any_of(all.begin(), all.end(), listed)) continue;
    const std::string_view reason = reason_of(format.places, value.path, kNoPlace);
    const bool has_place = reason.empty();
    if (has_place && is_name(value.path)) continue;
    const auto back = said.find(value.path);
    const bool same = back != said.end() && back->second == value.value;
    if (has_place ? same : !is_given(loaded, value)) continue;
    const std::string fate =
        back == said.end() ? "the text does not say it" : "the text says " + back->second;
    all.push_back({value.path, value.value, has_place ? fate : std::string(reason)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return position(a) < position(b); });
  return result;
}

}  // namespace nqd::planner
