// `nqd calc flops` and `nqd calc mfu`.
#include <iostream>
#include <memory>

#include "base/diagnostic.h"
#include "base/error.h"
#include "cli/calc/calc.h"
#include "planner/config/config.h"
#include "planner/models/shape.h"

namespace nqd::cli {
namespace {

using planner::Recompute;

struct FlopsOptions {
  std::string model;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn_hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t sequence = 0;
  std::string recompute = "none";
  std::optional<double> tokens;
  std::optional<double> rate;
};

// The model as a config gives it, so that every rule and preset of configs holds here too.
planner::ModelSpec model_of(const FlopsOptions& options) {
  std::string text = "model:\n";
  if (!options.model.empty()) text += "  preset: " + options.model + "\n";
  const std::pair<const char*, std::int64_t> shape[] = {
      {"layers", options.layers}, {"hidden", options.hidden},
      {"heads", options.heads},   {"ffn_hidden", options.ffn_hidden},
      {"vocab", options.vocab},   {"sequence", options.sequence}};
  bool given = !options.model.empty();
  for (const auto& [key, value] : shape) {
    if (value == 0) continue;
    text += "  " + std::string(key) + ": " + std::to_string(value) + "\n";
    given = true;
  }
  if (!given) {
    throw_mismatch("no model is given",
                   "give --model PRESET, or --layers, --hidden, --heads, "
                   "--vocab and --sequence");
  }
  const planner::LoadedConfig loaded = planner::load_config_text(text, "calc flops");
  for (const Diagnostic& diagnostic : loaded.diagnostics) {
    if (diagnostic.severity == Severity::kError) std::cerr << format(diagnostic);
  }
  if (!loaded.ok()) {
    Error error(ExitCode::kUsage, "", "the model is not valid");
    error.set_quiet(true);
    throw error;
  }
  return loaded.config.model;
}

// Forward operations of one sample that backward runs again.
double recomputed(const planner::SampleFlops& forward, const std::string& recompute) {
  if (recompute == name(Recompute::kSelective)) return forward.attention;
  if (recompute == name(Recompute::kFull)) {
    return forward.matmul - forward.head + forward.attention;
  }
  return 0;
}

// Per token for models of tokens, per sample for all; backward takes two operations a forward one.
void add_flops(const planner::ModelShape& shape, const FlopsOptions& options, CalcReport& report) {
  const planner::SampleFlops forward = forward_flops(shape);
  const double again = recomputed(forward, options.recompute);
  const auto add = [&](const std::string& one, double samples) {
    const double products = forward.matmul / samples;
    const auto put = [&](const std::string& key, const std::string& label, double attention,
                         double more) {
      report.figures.push_back(
          {key + one, label, 3 * (products + attention / samples) + more / samples, Unit::kFlops,
           "3·(products + attention)" + std::string(more > 0 ? " + recomputed" : ""),
           "3·(" + compact(products) + " + " + compact(attention / samples) + ")" +
               (more > 0 ? " + " + compact(more / samples) : "")});
    };
    put("model_flops_per_", "a " + one + ", forward and backward", forward.attention, 0);
    put("full_attention_flops_per_", "the same, had all scores been counted",
        forward.attention_full, 0);
    put("hardware_flops_per_", "a " + one + " with what is recomputed", forward.attention, again);
  };
  if (shape.vocab > 0) add("token", shape.rows);
  add("sample", 1);
}

CalcReport compute_flops(const FlopsOptions& options) {
  const planner::ModelSpec model = model_of(options);
  const planner::ModelShape shape = model_shape(model, planner::TrainSpec{});
  if (!shape.known) {
    throw_mismatch("the operations of a model of family " + model.family + " are not known",
                   "give a model with a shape: --model gpt2-124m, or --layers and so on");
  }
  if (options.tokens && shape.vocab <= 0) {
    throw_mismatch("a model of family " + model.family + " does not train on tokens",
                   "leave --tokens out; the figures are of one sample");
  }
  CalcReport report;
  report.inputs = {
      {"model", options.model}, {"family", model.family}, {"recompute", options.recompute}};
  if (model.sequence > 0) report.inputs.emplace_back("sequence", model.sequence);
  report.figures.push_back({"parameters", "parameters", shape.parameters});
  add_flops(shape, options, report);
  if (options.tokens) {
    const double one = std::get<double>(report.figures[1].value);
    report.inputs.emplace_back("tokens", *options.tokens);
    report.figures.push_back({"model_flops", "all tokens", one * *options.tokens, Unit::kFlops,
                              "tokens · FLOP/token",
                              compact(*options.tokens) + "·" + compact(one)});
    if (options.rate) {
      report.inputs.emplace_back("rate_flops_per_s", *options.rate);
      report.figures.push_back(
          {"time_s", "time", one * *options.tokens / *options.rate, Unit::kSeconds,
           "tokens · FLOP/token / rate",
           compact(*options.tokens) + "·" + compact(one) + "/" + compact(*options.rate)});
    }
  } else if (options.rate) {
    throw_mismatch("--rate gives a time only for a number of tokens", "give --tokens too");
  }
  report.notes = {
      "A multiply-add is 2; attention counts the scores that the model needs, the "
      "causal half in a decoder."};
  return report;
}

struct MfuOptions {
  double tokens_per_s = 0;
  double flops_per_token = 0;
  double peak = 0;
  std::int64_t devices = 1;
};

CalcReport compute_mfu(const MfuOptions& options) {
  const double achieved = options.tokens_per_s * options.flops_per_token;
  const double peak = options.peak * static_cast<double>(options.devices);
  const std::string product =
      compact(options.tokens_per_s) + "·" + compact(options.flops_per_token);
  CalcReport report;
  report.inputs = {{"tokens_per_s", options.tokens_per_s},
                   {"flops_per_token", options.flops_per_token},
                   {"peak_flops_per_s", options.peak},
                   {"devices", options.devices}};
  report.figures.push_back({"achieved_flops_per_s", "achieved", achieved, Unit::kFlopsPerSecond,
                            "tokens/s · FLOP/token", product});
  report.figures.push_back(
      {"mfu_fraction", "model FLOPs utilisation", achieved / peak, Unit::kFraction,
       "tokens/s · FLOP/token / (devices · peak)",
       product + "/(" + std::to_string(options.devices) + "·" + compact(options.peak) + ")"});
  report.notes = {"With the FLOPs that the hardware did, recomputation included, this is HFU."};
  return report;
}

}  // namespace

void add_calc_flops(CLI::App& calc, Context& context) {
  auto options = std::make_shared<FlopsOptions>();
  constexpr std::int64_t kMost = 1'000'000'000;
  Calculation flops(calc, "flops", "Operations of a token, of a whole training, and its time");
  flops.text("--model", options->model, "a preset, such as gpt2-124m; the flags below override it")
      .count("--layers", options->layers, "L", kMost)
      .count("--hidden", options->hidden, "h", kMost)
      .count("--heads", options->heads, "a", kMost)
      .count("--ffn-hidden", options->ffn_hidden, "f [4h]", kMost)
      .count("--vocab", options->vocab, "V", kMost)
      .count("--sequence", options->sequence, "s", kMost)
      .choice("--recompute", options->recompute, {"none", "selective", "full"},
              "what backward computes again")
      .quantity("--tokens", options->tokens, Unit::kNumber, "to train on: 300e9 or 300B")
      .quantity("--rate", options->rate, Unit::kFlopsPerSecond,
                "achieved by all devices together: gives the time")
      .computes(context, [options] { return compute_flops(*options); });
}

void add_calc_mfu(CLI::App& calc, Context& context) {
  auto options = std::make_shared<MfuOptions>();
  Calculation mfu(calc, "mfu", "Share of the devices' peak that a measured rate uses");
  mfu.quantity("--tokens-per-second", options->tokens_per_s, Unit::kNumber, "of the whole job")
      .required()
      .quantity("--flops-per-token", options->flops_per_token, Unit::kFlops,
                "forward and backward: 120e9 or 120 GFLOP (nqd calc flops)")
      .required()
      .quantity("--peak", options->peak, Unit::kFlopsPerSecond, "dense, of one device")
      .required()
      .count("--devices", options->devices, "of the job")
      .computes(context, [options] { return compute_mfu(*options); });
}

}  // namespace nqd::cli
