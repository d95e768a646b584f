// `nqd calc memory` and `nqd calc activations`.
#include <algorithm>
#include <memory>

#include "cli/calc/calc.h"
#include "planner/formulas/korthikanti.h"
#include "planner/formulas/state.h"

namespace nqd::cli {
namespace {

using planner::ActivationVariant;
using planner::Engine;
using planner::GptMesh;
using planner::GptShape;
using planner::Precision;
using planner::StateFormula;

struct MemoryOptions {
  double parameters = 0;
  std::int64_t ranks = 1;
  std::string engine = "ddp";
  std::int64_t shard = 0;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::string precision = "bfloat16";
  std::string gradient_precision;
  bool ema = false;
  std::optional<double> memory_bytes;
};

Engine engine_of(const std::string& text) {
  for (const Engine engine : {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kHsdp}) {
    if (text == name(engine)) return engine;
  }
  return Engine::kZero3;  // also called fsdp2
}

Precision precision_of(const std::string& text) {
  if (text == name(Precision::kFloat32)) return Precision::kFloat32;
  return text == name(Precision::kFloat16) ? Precision::kFloat16 : Precision::kBFloat16;
}

// "2" and "14" of "2·Φ + 14·Φ/N"; parts of no bytes are left out.
std::string state_text(const StateFormula& formula, const std::string& parameters,
                       const std::string& shards) {
  std::string text;
  if (formula.replicated > 0) text = compact(formula.replicated) + "·" + parameters;
  if (formula.sharded > 0) {
    text +=
        (text.empty() ? "" : " + ") + compact(formula.sharded) + "·" + parameters + "/" + shards;
  }
  return text;
}

void judge_fit(const StateFormula& formula, double parameters, double memory_bytes,
               CalcReport& report) {
  const double left = memory_bytes - formula.bytes(parameters);
  report.answer_is_no = left < 0;
  report.figures.push_back({"fits", "state alone fits", left >= 0});
  report.figures.push_back({"left_bytes", "left for activations and everything else", left,
                            Unit::kBytes, "memory − state",
                            compact(memory_bytes) + " − " + compact(formula.bytes(parameters))});
  Figure least{"min_shard_ranks", "ranks that must share it, at least", {}};
  const std::optional<std::int64_t> ranks = min_shards(formula, parameters, memory_bytes);
  if (ranks) {
    least.value = *ranks;
  } else {
    report.notes.push_back(
        "What every rank holds under this engine does not fit: shard more of the "
        "state (zero1, zero2, zero3), or split the model (--tp, --pp).");
  }
  if (formula.sharded > 0 && ranks) {
    least.formula = "⌈sharded·Φ/(memory − replicated·Φ)⌉";
    least.numbers = "⌈" + compact(formula.sharded) + "·" + compact(parameters) + "/(" +
                    compact(memory_bytes) + " − " + compact(formula.replicated) + "·" +
                    compact(parameters) + ")⌉";
  }
  report.figures.push_back(std::move(least));
}

CalcReport compute_memory(const MemoryOptions& options) {
  const Engine engine = engine_of(options.engine);
  if (engine == Engine::kHsdp &&
      (options.shard < 1 || options.ranks % std::max<std::int64_t>(options.shard, 1) != 0)) {
    throw_mismatch("hsdp shards inside groups of equal size, so --shard must divide --ranks " +
                       std::to_string(options.ranks),
                   "give --shard the data-parallel ranks of one node, such as --shard 8");
  }
  if (engine != Engine::kHsdp && options.shard > 0) {
    throw_mismatch("--shard is the shard group of hsdp, but --engine is " + options.engine,
                   "use --engine hsdp, or leave --shard out: " + std::string(name(engine)) +
                       " shares what it shares among all --ranks");
  }
  planner::TrainSpec train;
  train.precision = precision_of(options.precision);
  train.gradient_precision = options.gradient_precision.empty()
                                 ? train.precision
                                 : precision_of(options.gradient_precision);
  train.ema = options.ema;
  const StateFormula formula = state_formula(train, engine, options.ranks, options.shard);
  const double split = static_cast<double>(options.tp * options.pp);
  const double parameters = options.parameters / split;

  CalcReport report;
  report.inputs = {{"parameters", options.parameters},
                   {"ranks", options.ranks},
                   {"engine", std::string(name(engine))},
                   {"tp", options.tp},
                   {"pp", options.pp},
                   {"precision", options.precision},
                   {"gradient_precision", std::string(name(train.gradient_precision))},
                   {"ema", options.ema}};
  const double whole = (formula.replicated + formula.sharded) * options.parameters;
  report.figures.push_back(
      {"state_bytes", "state of the whole model", whole, Unit::kBytes,
       compact(formula.replicated + formula.sharded) + "·Φ",
       compact(formula.replicated + formula.sharded) + "·" + compact(options.parameters)});
  if (split > 1) {
    report.figures.push_back({"parameters_per_rank", "parameters of one rank", parameters,
                              Unit::kNumber, "Φ/(t·p)",
                              compact(options.parameters) + "/(" + std::to_string(options.tp) +
                                  "·" + std::to_string(options.pp) + ")"});
  }
  report.figures.push_back(
      {"persistent_bytes_per_rank", "persistent state of one rank", formula.bytes(parameters),
       Unit::kBytes, state_text(formula, "Φ", "N"),
       state_text(formula, compact(parameters), std::to_string(formula.shards))});
  if (options.memory_bytes) {
    report.inputs.emplace_back("memory_bytes", *options.memory_bytes);
    judge_fit(formula, parameters, *options.memory_bytes, report);
  }
  return report;
}

struct ActivationOptions {
  GptShape shape;
  GptMesh mesh;
};

CalcReport compute_activations(const ActivationOptions& options) {
  const GptShape& shape = options.shape;
  const GptMesh& mesh = options.mesh;
  CalcReport report;
  report.inputs = {{"layers", shape.layers}, {"hidden", shape.hidden},
                   {"heads", shape.heads},   {"sequence", shape.sequence},
                   {"vocab", shape.vocab},   {"micro_batch_size", mesh.micro_batch_size},
                   {"tp", mesh.tp},          {"pp", mesh.pp},
                   {"vpp", mesh.vpp}};
  const bool interleaved = mesh.vpp > 1;
  report.figures.push_back(
      {"layers_in_flight", "layers whose activations the first stage holds",
       layers_in_flight(shape, mesh), Unit::kNumber, interleaved ? "L(1 + (p−1)/(p·v))" : "L",
       std::to_string(shape.layers) +
           (interleaved ? "(1 + " + std::to_string(mesh.pp - 1) + "/(" + std::to_string(mesh.pp) +
                              "·" + std::to_string(mesh.vpp) + "))"
                        : "")});
  if (shape.vocab > 0) {
    report.figures.push_back({"outer_bytes", "embedding, output layer and loss on it",
                              outer_bytes(shape, mesh), Unit::kBytes,
                              mesh.pp > 1 ? "sbh·p/t" : "sbh/t + 4sbh/t(1 + V/h)"});
  }
  CalcTable table{"variants",
                  {{"variant", "split+recompute"},
                   {"formula", "a layer"},
                   {"layer_bytes", "is", Unit::kBytes},
                   {"bytes", "first stage", Unit::kBytes}},
                  {}};
  for (const ActivationVariant variant : planner::kActivationVariants) {
    table.rows.push_back({std::string(name(variant)), std::string(formula(variant)),
                          layer_bytes(variant, shape, mesh),
                          activation_bytes(variant, shape, mesh)});
  }
  report.tables.push_back(std::move(table));
  report.notes = {
      "GPT with a 4h MLP, dropout and 16-bit activations (arXiv:2205.05198); `nqd "
      "mesh-plan` counts the tensors of other models."};
  return report;
}

}  // namespace

void add_calc_memory(CLI::App& calc, Context& context) {
  auto options = std::make_shared<MemoryOptions>();
  const std::vector<std::string> precisions = {"float32", "bfloat16", "float16"};
  Calculation memory(calc, "memory", "Persistent state of one rank: weights, gradients, optimizer");
  memory.quantity("--parameters", options->parameters, Unit::kNumber, "of the model: 70e9 or 70B")
      .required()
      .count("--ranks", options->ranks, "data-parallel ranks N")
      .choice("--engine", options->engine, {"ddp", "zero1", "zero2", "zero3", "fsdp2", "hsdp"},
              "what data-parallel ranks share")
      .count("--shard", options->shard, "hsdp: ranks of one shard group")
      .count("--tp", options->tp, "ranks that split every layer")
      .count("--pp", options->pp, "pipeline stages, taken as equal")
      .choice("--precision", options->precision, precisions, "of weights")
      .choice("--gradient-precision", options->gradient_precision, precisions,
              "of gradients [that of weights]")
      .flag("--ema", options->ema, "a float32 moving average of the weights too")
      .quantity("--memory", options->memory_bytes, Unit::kBytes,
                "of one device: says whether the state fits, and from how many ranks on")
      .computes(context, [options] { return compute_memory(*options); });
}

void add_calc_activations(CLI::App& calc, Context& context) {
  auto options = std::make_shared<ActivationOptions>();
  constexpr std::int64_t kMost = 1'000'000'000;
  Calculation activations(calc, "activations",
                          "Activations of a GPT's first stage under each way of keeping fewer");
  activations.count("--layers", options->shape.layers, "L", kMost)
      .required()
      .count("--hidden", options->shape.hidden, "h", kMost)
      .required()
      .count("--heads", options->shape.heads, "a", kMost)
      .required()
      .count("--sequence", options->shape.sequence, "s", kMost)
      .required()
      .count("--vocab", options->shape.vocab, "V: counts embedding, output layer and loss", kMost)
      .count("--micro-batch", options->mesh.micro_batch_size, "b, sequences", kMost)
      .count("--tp", options->mesh.tp, "t")
      .count("--pp", options->mesh.pp, "p")
      .count("--vpp", options->mesh.vpp, "v, chunks a stage interleaves")
      .computes(context, [options] { return compute_activations(*options); });
}

}  // namespace nqd::cli
