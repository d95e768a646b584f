// nqd checkpoint list | inspect | verify | diff | export | prune: what a run has saved; reshard and
// import are in checkpoint_offline.cpp.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "cli/checkpoint_inspect.h"
#include "cli/checkpoint_offline.h"
#include "cli/command.h"
#include "engine/checkpoint/compare.h"
#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/keep.h"
#include "engine/checkpoint/locks.h"
#include "engine/checkpoint/reader.h"
#include "engine/io/hugging_face.h"
#include "planner/config/config.h"
#include "reports/checkpoint_json.h"

namespace nqd::cli {
namespace {

struct Flags {
  std::string folder;
  std::string other;  // diff: what it is compared with; export: where to
  std::string type = "float32";
  bool ema = false;
  engine::KeepPolicy keep;
  bool ranks = false;
  bool json = false;
};

// A folder of generations, or one of them. Throws Error (kUsage, NQD2080) where there is none.
engine::FoundGeneration found_generation(const Flags& flags) {
  auto found = engine::find_generation(engine::disk(), flags.folder);
  if (!found) {
    throw Error(ExitCode::kUsage, "NQD2080", flags.folder + " has no complete generation",
                "give the folder that holds LATEST, or one generation in it");
  }
  if (!found->warning.empty()) std::cerr << found->warning << '\n';
  return std::move(*found);
}

std::filesystem::path generation_of(const Flags& flags) { return found_generation(flags).folder; }

std::vector<engine::GenerationInfo> generations_of(const Flags& flags) {
  std::vector<engine::GenerationInfo> all = engine::list_generations(engine::disk(), flags.folder);
  if (!all.empty()) return all;
  throw Error(ExitCode::kUsage, "NQD2080", flags.folder + " has no generations",
              "give checkpoint.path of a run, by default runs/NAME/checkpoints");
}

int run_list(const Flags& flags) {
  const std::vector<engine::GenerationInfo> all = generations_of(flags);
  if (flags.json) {
    std::cout << reports::generations_json(all);
    return 0;
  }
  std::printf("%12s  %-10s %-21s %-26s %s\n", "step", "bytes", "written", "mesh", "generation");
  for (const engine::GenerationInfo& one : all) {
    const std::string state = one.complete ? "" : "  incomplete: " + one.why;
    std::printf("%12lld  %-10s %-21s %-26s %s%s%s\n", static_cast<long long>(one.step),
                one.complete ? format_bytes(static_cast<double>(one.bytes)).c_str() : "-",
                one.written_at.c_str(), one.mesh.c_str(), one.name.c_str(),
                one.latest ? "  LATEST" : "", state.c_str());
  }
  return 0;
}

int run_inspect(const Flags& flags) {
  const engine::CheckpointReader reader(engine::disk(), generation_of(flags));
  inspect(reader, flags.ranks, flags.json);
  return 0;
}

// A run that is under way removes what it no longer keeps.
bool has_gone(const engine::FoundGeneration& found, const Flags& flags) {
  return found.folder != flags.folder && !engine::disk().exists(found.folder / engine::kManifest);
}

int run_verify(const Flags& flags) {
  const engine::FoundGeneration found = found_generation(flags);
  std::optional<engine::CheckpointReader> opened;
  try {
    opened.emplace(engine::disk(), found.folder);
  } catch (const Error&) {
    if (has_gone(found, flags)) return run_verify(flags);
    throw;
  }
  const engine::CheckpointReader& reader = *opened;
  const std::vector<engine::CheckpointDamage> damage = reader.verify();
  if (!damage.empty() && has_gone(found, flags)) return run_verify(flags);
  // The one that LATEST names is damaged where another had to be taken.
  const bool ok = damage.empty() && found.warning.empty();
  if (flags.json) {
    std::cout << reports::damage_json(reader.manifest().generation, found.warning, damage);
  } else if (damage.empty()) {
    std::cout << reader.folder().string() << ": every byte is as it was written\n";
  }
  for (const engine::CheckpointDamage& one : damage) {
    std::cerr << (reader.folder() / one.file).string() << ": " << one.what << '\n';
  }
  return ok ? 0 : static_cast<int>(ExitCode::kNo);
}

int run_diff(const Flags& flags) {
  Flags second = flags;
  second.folder = flags.other;
  const engine::CheckpointReader a(engine::disk(), generation_of(flags));
  const engine::CheckpointReader b(engine::disk(), generation_of(second));
  const engine::CheckpointDifferences found = engine::compare_generations(a, b);
  if (flags.json) {
    std::cout << reports::differences_json(a.manifest().generation, b.manifest().generation, found);
    return found.same() ? 0 : static_cast<int>(ExitCode::kNo);
  }
  for (const engine::ValueDifference& one : found.values) {
    std::cout << one.key << ": " << one.a << " | " << one.b << '\n';
  }
  for (const engine::TensorDifference& one : found.tensors) {
    std::cout << engine::name(one.quantity) << " of " << one.tensor << ": ";
    if (one.only_in.empty()) {
      std::printf("%lld elements differ, by %.3g at most, by %.3g of the norm\n",
                  static_cast<long long>(one.elements), one.largest, one.relative_norm);
    } else {
      std::cout << "only in the " << (one.only_in == "a" ? "first\n" : "second\n");
    }
    std::fflush(stdout);
  }
  if (found.same()) std::cout << "the same bits\n";
  return found.same() ? 0 : static_cast<int>(ExitCode::kNo);
}

int run_export(const Flags& flags) {
  const engine::CheckpointReader reader(engine::disk(), generation_of(flags));
  const std::vector<engine::Quantity>& there = reader.manifest().quantities;
  if (flags.ema && std::find(there.begin(), there.end(), engine::Quantity::kEma) == there.end()) {
    throw Error(ExitCode::kUsage, "NQD2080",
                reader.folder().string() +
                    " has no moving average of the weights: it was trained without train.ema",
                "leave out --ema, or train with `--set train.ema=true`");
  }
  const planner::ModelSpec model = config_of(reader.manifest()).config.model;
  engine::HuggingFaceExport out(flags.other, model, *parse_dtype(flags.type));
  const engine::Quantity quantity = flags.ema ? engine::Quantity::kEma : engine::Quantity::kWeights;
  std::vector<float> values;
  for (const planner::TensorSpec& tensor : planner::parameters(model)) {
    values.resize(static_cast<std::size_t>(tensor.elements()));
    reader.read(quantity, tensor.name, 0, values);
    out.append(tensor.name, values);
  }
  out.commit();
  std::cout << "weights of step " << reader.manifest().state.step << " in " << flags.other << '\n';
  return 0;
}

// Null while a run saves to the folder, which may be in the middle of a save.
std::unique_ptr<engine::FolderLock> lock_unless_used(const std::string& folder) {
  try {
    return engine::lock_checkpoints(folder, "folder");
  } catch (const Error& error) {
    if (error.code() != "NQD2010") throw;
    std::cerr << error.what() << ": what it has not completed stays\n";
    return nullptr;
  }
}

int run_prune(const Flags& flags) {
  generations_of(flags);
  const auto lock = lock_unless_used(flags.folder);
  for (const std::string& name : engine::prune(engine::disk(), flags.folder, flags.keep)) {
    std::cout << "removed " << name << '\n';
  }
  if (!lock) return 0;
  for (const std::string& name : engine::remove_cut(engine::disk(), flags.folder)) {
    std::cout << "removed " << name << ", which was incomplete\n";
  }
  return 0;
}

void add(CLI::App& group, const std::string& name, const std::string& doc,
         const std::shared_ptr<Flags>& flags, Context& context, int (*run)(const Flags&)) {
  CLI::App* const command = group.add_subcommand(name, doc);
  command->add_option("folder", flags->folder, "checkpoint.path of a run, or one generation")
      ->required();
  command->callback([=, &context] { context.exit_code = run(*flags); });
  if (name == "prune") {
    command->add_option("--keep-last", flags->keep.last, "newest generations to keep")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    command->add_option("--keep-every", flags->keep.every, "keep those of steps that it divides")
        ->check(CLI::NonNegativeNumber);
    command
        ->add_option("--keep-interval", flags->keep.interval_s,
                     "and the first written in each so many seconds")
        ->check(CLI::NonNegativeNumber);
    return;
  }
  if (name == "export") {
    command->add_option("--output", flags->other, "folder for model.safetensors and config.json")
        ->required();
    command->add_option("--type", flags->type, "of the exported weights")
        ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
        ->capture_default_str();
    command->add_flag("--ema", flags->ema, "the moving average of the weights");
    return;
  }
  if (name == "diff") {
    command->add_option("other", flags->other, "what it is compared with")->required();
  }
  if (name == "inspect") {
    command->add_flag("--ranks", flags->ranks,
                      "which rank wrote which file, and its place in the mesh");
  }
  command->add_flag("--json", flags->json, "print a document on stdout");
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Context& context) {
  CLI::App* const group = app.add_subcommand(
      "checkpoint",
      "List, describe, verify, compare, reshard, export, import and prune what a run has saved");
  group->require_subcommand(1);
  const auto flags = std::make_shared<Flags>();
  add(*group, "list", "all generations, also those that a cut save left", flags, context, run_list);
  add(*group, "inspect", "step, mesh, tensors and files of a generation", flags, context,
      run_inspect);
  add(*group, "verify", "read every byte against its checksum", flags, context, run_verify);
  add(*group, "diff", "what of config, state and tensors is not the same", flags, context,
      run_diff);
  add(*group, "export", "the weights as a Hugging Face checkpoint", flags, context, run_export);
  add(*group, "prune", "remove generations, never the one that LATEST names", flags, context,
      run_prune);
  add_checkpoint_offline(*group, context);
}

}  // namespace nqd::cli
