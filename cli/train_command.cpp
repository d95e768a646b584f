// `nqd train CONFIG`: runs the engine on threads (--ranks N) or on the ranks that mpirun started.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/config_input.h"
#include "cli/stop_signals.h"
#include "cli/train_run.h"
#include "collectives/world.h"
#include "engine/train/device_check.h"
#include "engine/train/preflight.h"

namespace nqd::cli {
namespace {

struct Options {
  ConfigFlags config;
  std::optional<int> ranks;
  TrainRunOptions run;
  std::string device = "cpu";
  bool no_graph = false;
  std::string backend = "auto";
  std::string export_type = "float32";
  std::string rendezvous;
  bool explain = false;
};

// `--ranks N` resizes the mesh: N devices on one node, dp takes what tp and pp leave, and the
// global batch stays.
ConfigFlags with_ranks(const Options& options, bool print) {
  ConfigFlags flags = options.config;
  if (!options.ranks) return flags;
  const planner::ParallelSpec mesh = load_or_throw(flags, print).config.parallel;
  const std::int64_t dp = *options.ranks / (mesh.tp * mesh.pp);
  flags.overrides.push_back("cluster.nodes=1");
  flags.overrides.push_back("cluster.gpus_per_node=" + std::to_string(*options.ranks));
  flags.overrides.push_back("parallel.dp=" + std::to_string(std::max<std::int64_t>(dp, 1)));
  return flags;
}

void refuse_alone(const Options& options, int mesh, const collectives::LaunchIdentity& identity) {
  if (options.ranks || identity.launcher != "none" || mesh == 1) return;
  throw Error(ExitCode::kEnvironment, "NQD3001",
              "the mesh has " + std::to_string(mesh) +
                  " ranks, but this process was started alone (world size 1)",
              "start it with `mpirun -n " + std::to_string(mesh) +
                  " nqd train ...`, or pass --ranks " + std::to_string(mesh) +
                  " to run the ranks as threads");
}

engine::MessagePath message_path(const std::string& backend) {
  if (backend == "auto") return engine::MessagePath::kAuto;
  return backend == "nccl" ? engine::MessagePath::kNccl : engine::MessagePath::kHost;
}

int run(const Options& options, const Context& context) {
  const collectives::LaunchIdentity identity =
      collectives::read_launch_identity(!options.rendezvous.empty());
  const bool speaker = identity.rank == 0;
  planner::LoadedConfig loaded = load_or_throw(with_ranks(options, speaker), speaker);
  if (options.explain) {
    if (speaker) std::cout << explain_config(loaded);
    return 0;
  }
  TrainRunOptions run_options = options.run;
  run_options.step_graph = !options.no_graph;
  if (options.device == "cuda") {
    run_options.device = engine::DeviceKind::kCuda;
    loaded.config = engine::on_gpus(std::move(loaded.config));
  }
  run_options.messages = message_path(options.backend);
  const planner::Plan plan = plan_or_throw(loaded, speaker);
  try {
    engine::DeviceOptions device;
    device.kind = run_options.device;
    device.messages = run_options.messages;
    engine::require_device(device, loaded.config);
    engine::check_trainable(loaded.config);
  } catch (const Error&) {
    if (!speaker) wait_for_speaker();
    throw;
  }
  const int mesh = static_cast<int>(loaded.config.parallel.ranks());
  if (options.rendezvous.empty()) refuse_alone(options, mesh, identity);
  run_options.export_type = *parse_dtype(options.export_type);
  TrainRun train_run(run_options, context.argv, loaded, plan);
  collectives::WorldOptions world;
  world.ranks = mesh;
  world.rendezvous = options.rendezvous;
  // NCCL is opened over whatever world there is.
  if (run_options.messages == engine::MessagePath::kHost) world.backend = options.backend;
  world.deadline =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.run.deadline_s * 1e3));
  world.last_words = [&](const Error& error) { train_run.last_words(error); };
  world.check_stop = throw_if_stopped;
  watch_stop_signals();
  collectives::run_world(world, [&](collectives::Communicator& comm) { train_run.run_rank(comm); });
  if (!train_run.audit_ok()) return static_cast<int>(ExitCode::kNo);
  return train_run.stopped() ? static_cast<int>(ExitCode::kStopped) : 0;
}

}  // namespace

void add_train_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "train", "Train a config on threads or under mpirun, and audit it against its plan");
  add_config_flags(*command, options->config);
  command
      ->add_option("--ranks", options->ranks,
                   "run this many ranks (as threads without a launcher); resizes dp")
      ->check(CLI::Range(1, 1024));
  command->add_option("--device", options->device, "who computes: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_flag("--no-graph", options->no_graph,
                    "on a GPU start every operation of a step by itself, in place of CUDA graphs");
  command
      ->add_option(
          "--backend", options->backend,
          "how messages go: local (threads), mpi, shm (processes of one host), nccl (of "
          "--device cuda, between GPUs) or auto: mpi under a launcher, else local, and nccl "
          "between GPUs where each rank has its own")
      ->check(CLI::IsMember({"auto", "local", "mpi", "shm", "nccl"}))
      ->capture_default_str();
  command->add_option("--output-dir", options->run.output_dir,
                      "folder for metrics.jsonl and evidence.json (default runs/CONFIG-NAME)");
  command
      ->add_option("--init-weights", options->run.init_weights,
                   "start from a Hugging Face checkpoint of GPT-2 or Llama: its folder or one "
                   ".safetensors file")
      ->type_name("PATH");
  command
      ->add_option("--export-weights", options->run.export_weights,
                   "write the final weights there as model.safetensors and config.json")
      ->type_name("DIR");
  command
      ->add_option("--save-weights", options->run.save_weights,
                   "write the final float32 weights there as safetensors under nqd's own names")
      ->type_name("FILE");
  command->add_option("--export-type", options->export_type, "of the exported weights")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->capture_default_str();
  command
      ->add_option(
          "--resume", options->run.resume,
          "go on from a generation: auto (the newest of checkpoint.path, or a new run when "
          "there is none), a folder of generations, or one of them")
      ->type_name("auto|PATH");
  command
      ->add_option("--allow-changed", options->run.allowed_changes,
                   "config keys that may differ from those of the generation")
      ->type_name("KEY")
      ->needs("--resume");
  command
      ->add_option("--max-time", options->run.max_s,
                   "save and stop after so many seconds, with exit code 75")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--stop-after", options->run.stop_after,
                   "save and stop after this step, with exit code 75")
      ->type_name("STEP")
      ->check(CLI::PositiveNumber);
  command
      ->add_option(
          "--rendezvous", options->rendezvous,
          "processes of one host meet by this file instead of by MPI: under torchrun, srun "
          "without PMI, or with RANK and WORLD_SIZE set")
      ->check(
          [](const std::string& text) { return std::string(text.empty() ? "give file:PATH" : ""); })
      ->type_name("file:PATH");
  command
      ->add_option("--deadline", options->run.deadline_s,
                   "seconds that a rank waits for another before it names it")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command->add_flag("--canary", options->run.canary,
                    "first time every device and link, and refuse to start where one is slow");
  command->add_flag("--json", options->run.json, "print the evidence document on stdout");
  command->add_flag("--explain-config", options->explain,
                    "print every value with its origin, and stop");
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace nqd::cli
