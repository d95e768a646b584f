// nqd data prepare | synthesize | stats | verify: data files, and what they hold.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "cli/command.h"
#include "engine/data/dataset.h"
#include "engine/data/series_dataset.h"
#include "engine/data/stats.h"
#include "engine/data/verify.h"
#include "engine/io/dataset_json.h"

namespace nqd::cli {
namespace {

struct PrepareFlags {
  std::vector<std::string> inputs;
  std::string output;
  double heldout_fraction = engine::PrepareOptions{}.heldout_fraction;
  std::uint64_t seed = engine::PrepareOptions{}.seed;
  bool json = false;
};

struct FolderFlags {
  std::string folder;
  bool json = false;
};

void print_split(const engine::PrepareResult& result, const std::string& split,
                 std::uint64_t tokens, const std::filesystem::path& output) {
  const auto documents = std::count_if(result.documents.begin(), result.documents.end(),
                                       [&](const auto& entry) { return entry.split == split; });
  const double share = static_cast<double>(tokens) /
                       static_cast<double>(result.train_tokens + result.heldout_tokens);
  std::printf("%-8s %4td documents %12s tokens %6.1f%%  %s\n", split.c_str(), documents,
              format_count(tokens).c_str(), 100 * share, (output / (split + ".tokens")).c_str());
}

void run_prepare(const PrepareFlags& flags) {
  engine::PrepareOptions options;
  options.inputs.assign(flags.inputs.begin(), flags.inputs.end());
  options.output = flags.output;
  options.heldout_fraction = flags.heldout_fraction;
  options.seed = flags.seed;
  const engine::PrepareResult result = engine::prepare_dataset(options);
  for (const std::string& duplicate : result.duplicates) log::info("dropped " + duplicate);
  for (const std::string& note : result.notes) log::info(note);
  if (flags.json) {
    std::cout << engine::prepare_json(result);
    return;
  }
  print_split(result, "train", result.train_tokens, options.output);
  print_split(result, "heldout", result.heldout_tokens, options.output);
  for (const engine::PreparedDocument& document : result.documents) {
    if (document.split == "heldout") std::printf("held out %s\n", document.path.c_str());
  }
  std::printf("digest   %s\n", result.digest.c_str());
}

void print_series(const engine::SeriesIndex& index, const std::string& split,
                  std::uint64_t samples) {
  const auto regions = std::count_if(index.regions.begin(), index.regions.end(),
                                     [&](const auto& region) { return region.split == split; });
  const double share = static_cast<double>(samples) / static_cast<double>(index.options.samples);
  std::printf("%-8s %4td regions %12s samples %6.1f%%  %s\n", split.c_str(), regions,
              format_count(samples).c_str(), 100 * share,
              (index.options.output / (split + ".series")).c_str());
}

void run_synthesize(const engine::SynthesizeOptions& options, bool json) {
  const engine::SeriesIndex index = engine::synthesize_crops(options);
  if (json) {
    std::cout << engine::series_index_json(index);
    return;
  }
  print_series(index, "train", index.train.samples);
  print_series(index, "heldout", index.heldout.samples);
  std::printf("synthetic: %s time steps of %lld features, %s classes\n",
              format_count(static_cast<std::uint64_t>(index.shape.steps)).c_str(),
              static_cast<long long>(index.shape.features),
              format_count(static_cast<std::uint64_t>(index.shape.classes)).c_str());
  std::printf("digest   %s\n", index.digest.c_str());
}

void run_series_stats(const FolderFlags& flags) {
  const std::vector<engine::SeriesStats> splits = engine::series_stats(flags.folder);
  if (flags.json) {
    std::cout << engine::series_stats_json(splits);
    return;
  }
  std::printf("%-8s %9s %14s %9s %28s\n", "split", "regions", "samples", "classes",
              "class entropy, nats/sample");
  for (const engine::SeriesStats& split : splits) {
    std::printf("%-8s %9s %14s %9s %28.4f\n", split.split.c_str(),
                format_count(split.regions).c_str(), format_count(split.samples).c_str(),
                format_count(split.distinct_classes).c_str(), split.class_entropy_nats);
  }
}

void run_stats(const FolderFlags& flags) {
  if (engine::holds_series(flags.folder)) return run_series_stats(flags);
  const std::vector<engine::SplitStats> splits = engine::dataset_stats(flags.folder);
  if (flags.json) {
    std::cout << engine::stats_json(splits);
    return;
  }
  std::printf("%-8s %9s %14s %9s %28s\n", "split", "documents", "tokens", "distinct",
              "unigram entropy, nats/token");
  for (const engine::SplitStats& split : splits) {
    std::printf("%-8s %9s %14s %9s %28.4f\n", split.split.c_str(),
                format_count(split.documents).c_str(), format_count(split.tokens).c_str(),
                format_count(split.distinct_tokens).c_str(), split.unigram_entropy_nats);
  }
}

void run_series_verify(const FolderFlags& flags) {
  const engine::SeriesIndex index = engine::verify_series(flags.folder);
  if (flags.json) {
    std::cout << engine::series_verify_json(index);
    return;
  }
  std::printf("%s: whole. %s regions, %s train and %s held-out samples, digest %s\n",
              flags.folder.c_str(), format_count(index.regions.size()).c_str(),
              format_count(index.train.samples).c_str(),
              format_count(index.heldout.samples).c_str(), index.digest.c_str());
}

void run_verify(const FolderFlags& flags) {
  if (engine::holds_series(flags.folder)) return run_series_verify(flags);
  const engine::VerifiedDataset dataset = engine::verify_dataset(flags.folder);
  if (flags.json) {
    std::cout << engine::verify_json(dataset);
    return;
  }
  std::printf("%s: whole. %s documents, %s train and %s held-out tokens, digest %s\n",
              flags.folder.c_str(), format_count(dataset.documents).c_str(),
              format_count(dataset.train_tokens).c_str(),
              format_count(dataset.heldout_tokens).c_str(), dataset.digest.c_str());
}

void add_prepare(CLI::App& data) {
  auto flags = std::make_shared<PrepareFlags>();
  CLI::App* prepare = data.add_subcommand(
      "prepare", "write byte-level token files, whole files held out for evaluation");
  prepare->add_option("FILES", flags->inputs,
                      "text files, or folders whose files are taken (default: "
                      "/usr/share/common-licenses)");
  prepare->add_option("--output", flags->output, "folder to write; created")->required();
  prepare
      ->add_option("--heldout-fraction", flags->heldout_fraction,
                   "least share of the bytes that is held out")
      ->capture_default_str();
  prepare->add_option("--seed", flags->seed, "which files are held out")->capture_default_str();
  prepare->add_flag("--json", flags->json, "print the result as JSON");
  prepare->callback([flags] { run_prepare(*flags); });
}

void add_synthesize(CLI::App& data) {
  CLI::App* synthesize =
      data.add_subcommand("synthesize", "write labelled time series that a generator makes up");
  synthesize->require_subcommand(1);
  struct Flags {
    engine::SynthesizeOptions options;
    std::string output;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  engine::SynthesizeOptions& options = flags->options;
  CLI::App* crops = synthesize->add_subcommand(
      "crops", "fields with crops as satellites see them, whole regions held out");
  crops->add_option("--output", flags->output, "folder to write; created")->required();
  const auto add = [&](const char* name, auto& value, const char* what) {
    crops->add_option(name, value, what)->capture_default_str();
  };
  add("--samples", options.samples, "fields, of all regions");
  add("--seed", options.seed, "of everything that is drawn");
  add("--regions", options.regions, "regions, which differ in season, soil and weather");
  add("--classes", options.classes, "crops");
  add("--steps", options.steps, "time steps of the year");
  add("--heldout-fraction", options.heldout_fraction, "least share of regions that is held out");
  crops->add_flag("--json", flags->json, "print the result as JSON");
  crops->callback([flags] {
    flags->options.output = flags->output;
    run_synthesize(flags->options, flags->json);
  });
}

void add_folder_command(CLI::App& data, const std::string& name, const std::string& description,
                        void (*run)(const FolderFlags&)) {
  auto flags = std::make_shared<FolderFlags>();
  CLI::App* command = data.add_subcommand(name, description);
  command->add_option("DIR", flags->folder, "folder written by `nqd data prepare` or `synthesize`")
      ->required();
  command->add_flag("--json", flags->json, "print the result as JSON");
  command->callback([flags, run] { run(*flags); });
}

}  // namespace

void add_data_command(CLI::App& app, Context&) {
  CLI::App* data = app.add_subcommand("data", "Prepare, describe and check data.");
  data->require_subcommand(1);
  add_prepare(*data);
  add_synthesize(*data);
  add_folder_command(*data, "stats", "count what a dataset holds", run_stats);
  add_folder_command(*data, "verify", "recompute every digest of a dataset", run_verify);
}

}  // namespace nqd::cli
