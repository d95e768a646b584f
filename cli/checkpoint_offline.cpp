#include "cli/checkpoint_offline.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/error.h"
#include "cli/checkpoint_inspect.h"
#include "cli/config_input.h"
#include "engine/checkpoint/compatible.h"
#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/head.h"
#include "engine/checkpoint/offline.h"
#include "engine/checkpoint/reader.h"
#include "engine/data/training_data.h"
#include "engine/io/hugging_face.h"
#include "engine/train/loss_scale.h"
#include "engine/train/preflight.h"

namespace nqd::cli {
namespace {

struct Flags {
  std::string source;
  ConfigFlags config;  // reshard: overrides alone
  std::string output;
  std::optional<int> ranks;
  bool json = false;
};

engine::RunValues values_of(const planner::LoadedConfig& loaded) {
  engine::RunValues values;
  for (const planner::ResolvedValue& value : loaded.resolved) values[value.path] = value.value;
  return values;
}

void print_findings(const planner::LoadedConfig& loaded) {
  for (const Diagnostic& finding : loaded.diagnostics) std::cerr << format(finding);
}

void set(std::vector<std::string>& overrides, const std::string& key, std::int64_t value) {
  overrides.push_back(key + "=" + std::to_string(value));
}

// As many devices as the mesh has ranks; dp takes what tp and pp leave of `ranks`. What the mesh of
// the run that saved it decided, and the new one does not have, is taken back.
std::vector<std::string> mesh_overrides(const planner::ParallelSpec& asked,
                                        const std::optional<int>& ranks) {
  planner::ParallelSpec mesh = asked;
  if (ranks) mesh.dp = std::max<std::int64_t>(*ranks / (mesh.tp * mesh.pp), 1);
  std::vector<std::string> overrides;
  set(overrides, "cluster.nodes", 1);
  set(overrides, "cluster.gpus_per_node", ranks ? *ranks : mesh.ranks());
  set(overrides, "parallel.dp", mesh.dp);
  set(overrides, "parallel.world_size", mesh.ranks());
  if (mesh.engine != planner::Engine::kHsdp) set(overrides, "parallel.hsdp_shard", 0);
  return overrides;
}

// Throws ConfigError (kUsage malformed, kNo where the mesh breaks a rule); those of check_trainable
// and check_resumable.
planner::LoadedConfig target_of(const engine::Manifest& manifest, const Flags& flags) {
  planner::LoadOptions options{flags.config.overrides, ""};
  const planner::ParallelSpec asked = config_of(manifest, options).config.parallel;
  for (std::string& value : mesh_overrides(asked, flags.ranks)) {
    options.overrides.push_back(std::move(value));
  }
  planner::LoadedConfig loaded = config_of(manifest, options);
  print_findings(loaded);
  if (!loaded.ok()) {
    throw ConfigError(is_malformed(loaded.diagnostics) ? ExitCode::kUsage : ExitCode::kNo,
                      "the config is not valid on that mesh", loaded.diagnostics);
  }
  engine::check_trainable(loaded.config);
  // Keys that the nqd which saved it did not have are as they were by default.
  engine::Manifest saved = manifest;
  saved.config = values_of(config_of(manifest));
  engine::RunValues values = values_of(loaded);
  values["data.digest"] = manifest.data_digest;
  try {
    engine::check_resumable(saved, values, {});
  } catch (const Error& error) {
    throw Error(error.exit_code(), error.code(), error.what(),
                "another mesh has the same values: leave out what --set says of others; a run may "
                "change them, with --resume and --allow-changed");
  }
  return loaded;
}

void announce(const engine::Manifest& written, const Flags& flags) {
  const std::filesystem::path folder = std::filesystem::path(flags.output) / written.generation;
  if (flags.json) {
    const engine::CheckpointReader reader(engine::disk(), folder);
    inspect(reader, true, true);
    return;
  }
  std::cout << folder.string() << ": step " << written.state.step << ", " << written.mesh << ", "
            << written.files.size() << " files\n";
}

int run_reshard(const Flags& flags) {
  const auto found = engine::find_generation(engine::disk(), flags.source);
  if (!found) {
    throw Error(ExitCode::kUsage, "NQD2080", flags.source + " has no complete generation",
                "give the folder that holds LATEST, or one generation in it");
  }
  if (!found->warning.empty()) std::cerr << found->warning << '\n';
  const engine::CheckpointReader reader(engine::disk(), found->folder);
  const engine::Manifest& from = reader.manifest();
  const planner::LoadedConfig loaded = target_of(from, flags);
  engine::SavedRun run{engine::new_run_id(), values_of(loaded), from.data_digest, from.lineage};
  run.lineage.push_back(from.generation);
  const engine::Manifest written = engine::write_generation(
      engine::disk(), flags.output, engine::manifest_head(run, loaded.config, from.state),
      loaded.config,
      [&](engine::Quantity quantity, const std::string& tensor, std::int64_t begin,
          std::span<float> out) { reader.read(quantity, tensor, begin, out); });
  announce(written, flags);
  return 0;
}

int run_import(const Flags& flags) {
  ConfigFlags config = flags.config;
  if (flags.ranks) {
    const planner::ParallelSpec asked = load_or_throw(config, true).config.parallel;
    for (std::string& value : mesh_overrides(asked, flags.ranks)) {
      config.overrides.push_back(std::move(value));
    }
  }
  const planner::LoadedConfig loaded = load_or_throw(config, true);
  engine::check_trainable(loaded.config);
  const engine::HuggingFaceWeights weights(flags.source, loaded.config.model);
  const engine::SavedRun run{engine::new_run_id(),
                             values_of(loaded),
                             engine::open_training_data(loaded.config, true).digest,
                             {}};
  engine::RunState state;
  state.loss_scale = engine::LossScale(loaded.config.train.precision).value();
  std::map<std::string, planner::TensorSpec> tensors;
  for (const planner::TensorSpec& tensor : planner::parameters(loaded.config.model)) {
    tensors[tensor.name] = tensor;
  }
  const engine::Manifest written = engine::write_generation(
      engine::disk(), flags.output, engine::manifest_head(run, loaded.config, state), loaded.config,
      [&](engine::Quantity quantity, const std::string& tensor, std::int64_t begin,
          std::span<float> out) {
        const bool moment =
            quantity == engine::Quantity::kMoment0 || quantity == engine::Quantity::kMoment1;
        // The moving average begins as the weights.
        if (moment) {
          std::fill(out.begin(), out.end(), 0.0F);
        } else {
          weights.fill(tensors.at(tensor), begin, out);
        }
      });
  announce(written, flags);
  return 0;
}

void add_target_flags(CLI::App& command, Flags& flags) {
  command.add_option("--output", flags.output, "folder of the new generation")
      ->required()
      ->type_name("DIR");
  command.add_option("--ranks", flags.ranks, "of the mesh; dp takes what tp and pp leave")
      ->check(CLI::Range(1, 1 << 20));
  command.add_flag("--json", flags.json, "print what it is on stdout");
}

}  // namespace

planner::LoadedConfig config_of(const engine::Manifest& manifest,
                                const planner::LoadOptions& options) {
  std::string text;
  std::string section;
  std::string parent;
  // Keys are sorted, so that those of a section, and of one within it, are neighbours.
  for (const auto& [key, value] : manifest.config) {
    const std::size_t first = key.find('.');
    const std::size_t last = key.rfind('.');
    if (key.substr(0, first) != section) {
      section = key.substr(0, first);
      text += section + ":\n";
    }
    const std::string own = key.substr(0, last);
    if (own != parent && last != first) text += "  " + own.substr(first + 1) + ":\n";
    parent = own;
    text += std::string(last != first ? "    " : "  ") + key.substr(last + 1) + ": " + value + "\n";
  }
  return planner::load_config_text(text, manifest.generation, options);
}

void add_checkpoint_offline(CLI::App& group, Context& context) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* const reshard =
      group.add_subcommand("reshard", "write a generation as another mesh would have");
  reshard->add_option("source", flags->source, "checkpoint.path of a run, or one generation")
      ->required();
  reshard
      ->add_option("--set", flags->config.overrides,
                   "a value of the mesh: parallel.tp=2, parallel.engine=zero3")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_target_flags(*reshard, *flags);
  reshard->callback([=, &context] { context.exit_code = run_reshard(*flags); });
  CLI::App* const import = group.add_subcommand(
      "import", "a generation of step 0 with the weights of a Hugging Face checkpoint");
  import
      ->add_option("weights", flags->source,
                   "folder of the checkpoint (GPT-2 or Llama), or one .safetensors file")
      ->required();
  add_config_flags(*import, flags->config);
  add_target_flags(*import, *flags);
  import->callback([=, &context] { context.exit_code = run_import(*flags);
});
}  // namespace nqd::cli

}  // namespace nqd::cli
