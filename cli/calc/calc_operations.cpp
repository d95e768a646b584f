// `nqd calc checkpoint`, `goodput` and `ingest`.
#include <memory>

#include "cli/calc/calc.h"
#include "planner/formulas/failure_simulation.h"

namespace nqd::cli {
namespace {

using planner::Resilience;

constexpr std::int64_t kMostRuns = 1'000'000;
// Saves that a simulated run makes.
constexpr double kIntervalsARun = 200;

struct CheckpointOptions {
  double save_s = 0;
  std::optional<double> interval_s;
  std::optional<double> mtbf_s;
  std::optional<double> device_mtbf_s;
  std::int64_t devices = 0;
  double restart_s = 0;
  std::int64_t runs = 0;  // to simulate
  std::optional<double> shape;
  std::optional<double> gpus;
  std::optional<double> price;  // $ an hour and GPU
};

void add_intervals(double save_s, double mtbf_s, CalcReport& report) {
  report.figures.push_back({"young_interval_s", "best interval after Young",
                            planner::young_interval_s(save_s, mtbf_s), Unit::kSeconds, "√(2δM)",
                            "√(2·" + compact(save_s) + "·" + compact(mtbf_s) + ")"});
  Figure daly{"daly_interval_s", "best interval after Daly",
              planner::daly_interval_s(save_s, mtbf_s), Unit::kSeconds};
  if (save_s < 2 * mtbf_s) {
    daly.formula = "√(2δM)·(1 + √(δ/(2M))/3 + δ/(18M)) − δ";
    daly.numbers = "√(2·" + compact(save_s) + "·" + compact(mtbf_s) + ")·(1 + √(" +
                   compact(save_s) + "/" + compact(2 * mtbf_s) + ")/3 + " + compact(save_s) + "/" +
                   compact(18 * mtbf_s) + ") − " + compact(save_s);
  } else {
    daly.formula = "M, since δ ≥ 2M";
    daly.numbers = compact(mtbf_s);
  }
  report.figures.push_back(std::move(daly));
}

// Goodput of saving as often as given, and as often as each rule says.
void add_goodput_table(const CheckpointOptions& options, double mtbf_s, CalcReport& report) {
  Resilience r{options.save_s, 0, mtbf_s, options.restart_s};
  CalcTable table{"intervals",
                  {{"rule", "rule", Unit::kNumber},
                   {"interval_s", "interval", Unit::kSeconds},
                   {"goodput_fraction", "goodput", Unit::kFraction}},
                  {}};
  if (options.runs > 0) {
    table.columns.push_back({"simulated_fraction", "simulated", Unit::kFraction});
    table.columns.push_back({"standard_error_fraction", "± standard error", Unit::kFraction});
  }
  const auto add = [&](const std::string& rule, double interval_s) {
    if (interval_s <= 0) return;
    r.interval_s = interval_s;
    std::vector<CalcValue> row = {rule, interval_s, planner::exact_goodput(r)};
    if (options.runs > 0) {
      const planner::SimulatedRuns played =
          planner::simulate_failures(r, {options.shape.value_or(1), 1}, kIntervalsARun * interval_s,
                                     static_cast<int>(options.runs));
      row.emplace_back(played.goodput_fraction);
      row.emplace_back(played.standard_error);
    }
    table.rows.push_back(std::move(row));
  };
  if (options.interval_s) add("uniform", *options.interval_s);
  add("young", planner::young_interval_s(r.save_s, mtbf_s));
  add("daly", planner::daly_interval_s(r.save_s, mtbf_s));
  add("best", planner::best_interval_s(r));
  report.tables.push_back(std::move(table));
  report.notes.emplace_back(
      "Goodput: τ/(M·e^(R/M)·(e^((τ+δ)/M) − 1)), for failures that come at random.");
}

// M of the whole job.
std::optional<double> mtbf_of(const CheckpointOptions& options, CalcReport& report) {
  if (options.device_mtbf_s.has_value() != (options.devices > 0)) {
    throw_mismatch("--device-mtbf and --devices need each other", "give both, or --mtbf");
  }
  if (!options.device_mtbf_s) return options.mtbf_s;
  if (options.mtbf_s) throw_mismatch("--mtbf and --device-mtbf say the same", "give one of them");
  const double mtbf_s = *options.device_mtbf_s / static_cast<double>(options.devices);
  report.inputs.emplace_back("device_mtbf_s", *options.device_mtbf_s);
  report.inputs.emplace_back("devices", options.devices);
  report.figures.push_back(
      {"mtbf_s", "mean time between failures of the job", mtbf_s, Unit::kSeconds,
       "M = device MTBF/devices",
       compact(*options.device_mtbf_s) + "/" + std::to_string(options.devices)});
  return mtbf_s;
}

void add_cost(const CheckpointOptions& options, double lost_s, CalcReport& report) {
  const std::string rate = compact(*options.gpus) + "·$" + compact(*options.price);
  report.figures.push_back({"cost_per_hour", "cost of an hour",
                            planner::cost_of(3600, *options.gpus, *options.price), Unit::kDollars,
                            "GPUs·price", rate});
  report.figures.push_back({"cost_per_failure", "cost of a failure",
                            planner::cost_of(lost_s, *options.gpus, *options.price), Unit::kDollars,
                            "GPUs·price·lost/3600", rate + "·" + compact(lost_s) + "/3600"});
}

CalcReport compute_checkpoint(const CheckpointOptions& options) {
  if (options.gpus.has_value() != options.price.has_value()) {
    throw_mismatch("a cost needs --gpus and --price together", "give both, or neither");
  }
  if (options.shape && options.runs == 0) {
    throw_mismatch("--shape is that of simulated failures, and none are simulated",
                   "give --simulate RUNS with it");
  }
  CalcReport report;
  report.inputs.emplace_back("save_s", options.save_s);
  const std::optional<double> mtbf_s = mtbf_of(options, report);
  if (!options.interval_s && !mtbf_s) {
    throw_mismatch("neither --interval nor --mtbf is given, so there is nothing to compute",
                   "give --interval for the overhead of a habit, --mtbf for the best interval");
  }
  if (mtbf_s) {
    report.inputs.emplace_back("mtbf_s", *mtbf_s);
    report.inputs.emplace_back("restart_s", options.restart_s);
    add_intervals(options.save_s, *mtbf_s, report);
    add_goodput_table(options, *mtbf_s, report);
  }
  const double interval_s =
      options.interval_s ? *options.interval_s : planner::daly_interval_s(options.save_s, *mtbf_s);
  report.inputs.emplace_back("interval_s", interval_s);
  report.figures.push_back({"overhead_fraction", "share of the time spent saving",
                            planner::checkpoint_overhead(options.save_s, interval_s),
                            Unit::kFraction, "δ/(τ + δ)",
                            compact(options.save_s) + "/(" + compact(interval_s) + " + " +
                                compact(options.save_s) + ")"});
  const double lost_s = planner::mean_lost_s(interval_s);
  report.figures.push_back({"mean_lost_s", "work that a failure loses on average", lost_s,
                            Unit::kSeconds, "τ/2", compact(interval_s) + "/2"});
  if (mtbf_s && interval_s > *mtbf_s / 2) {
    report.notes.emplace_back(
        "τ/2 holds where τ is well below M: here more than one failure meets "
        "an interval, and each loses less.");
  }
  if (options.gpus) {
    report.inputs.emplace_back("gpus", *options.gpus);
    report.inputs.emplace_back("price_per_gpu_hour", *options.price);
    add_cost(options, lost_s, report);
  }
  return report;
}

CalcReport compute_goodput(const Resilience& options) {
  CalcReport report;
  report.inputs = {{"save_s", options.save_s},
                   {"interval_s", options.interval_s},
                   {"mtbf_s", options.mtbf_s},
                   {"restart_s", options.restart_s}};
  const std::string save = compact(options.save_s);
  const std::string interval = compact(options.interval_s);
  report.figures.push_back(
      {"goodput_fraction", "useful share of the time", planner::goodput(options), Unit::kFraction,
       "(1 − δ/(τ+δ))·(1 − (R + (τ+δ)/2)/M)",
       "(1 − " + save + "/(" + interval + "+" + save + "))·(1 − (" + compact(options.restart_s) +
           " + (" + interval + "+" + save + ")/2)/" + compact(options.mtbf_s) + ")"});
  report.notes = {"To first order in 1/M: failures in restarts and saves are not counted twice."};
  return report;
}

struct IngestOptions {
  double samples_per_s = 0;
  double bytes_per_sample = 0;
  std::int64_t nodes = 1;
  std::optional<double> available;  // bytes/s of one node
};

CalcReport compute_ingest(const IngestOptions& options) {
  const double all = options.samples_per_s * options.bytes_per_sample;
  const double node = all / static_cast<double>(options.nodes);
  const std::string product =
      compact(options.samples_per_s) + "·" + compact(options.bytes_per_sample);
  CalcReport report;
  report.inputs = {{"samples_per_s", options.samples_per_s},
                   {"bytes_per_sample", options.bytes_per_sample},
                   {"nodes", options.nodes}};
  report.figures.push_back({"bytes_per_s", "ingest of the run", all, Unit::kBytesPerSecond,
                            "samples/s · bytes/sample", product});
  report.figures.push_back({"bytes_per_s_per_node", "ingest of one node", node,
                            Unit::kBytesPerSecond, "samples/s · bytes/sample / nodes",
                            product + "/" + std::to_string(options.nodes)});
  if (!options.available) return report;
  report.inputs.emplace_back("available_bytes_per_s", *options.available);
  report.answer_is_no = *options.available < node;
  report.figures.push_back({"enough", "the input keeps up", !report.answer_is_no});
  if (report.answer_is_no) {
    report.notes = {"Input-bound: the run reaches at most " +
                    print_quantity(*options.available / node, Unit::kFraction) +
                    " of its rate, and more ranks starve faster."};
  }
  return report;
}

}  // namespace

void add_calc_checkpoint(CLI::App& calc, Context& context) {
  auto options = std::make_shared<CheckpointOptions>();
  Calculation checkpoint(calc, "checkpoint", "What saving costs, and how often to do it");
  checkpoint.quantity("--save-time", options->save_s, Unit::kSeconds, "δ: one save, 4min")
      .required()
      .quantity("--interval", options->interval_s, Unit::kSeconds,
                "τ: useful work between saves [the best one for --mtbf]")
      .quantity("--mtbf", options->mtbf_s, Unit::kSeconds, "M: mean time between failures")
      .quantity("--device-mtbf", options->device_mtbf_s, Unit::kSeconds,
                "mean time between failures of one device")
      .count("--devices", options->devices, "of the job, for --device-mtbf", 100'000'000)
      .quantity("--restart-time", options->restart_s, Unit::kSeconds,
                "R: from a failure to the next useful step", 0, false)
      .count("--simulate", options->runs, "play so many runs through", kMostRuns)
      .quantity("--shape", options->shape, Unit::kNumber,
                "of the Weibull times between simulated failures; below 1 they come in bursts")
      .quantity("--gpus", options->gpus, Unit::kNumber, "devices of the job")
      .quantity("--price", options->price, Unit::kDollars, "of one device an hour")
      .computes(context, [options] { return compute_checkpoint(*options); });
}

void add_calc_goodput(CLI::App& calc, Context& context) {
  auto options = std::make_shared<Resilience>();
  Calculation goodput(calc, "goodput", "Useful share of the time, with saves and failures");
  goodput.quantity("--save-time", options->save_s, Unit::kSeconds, "δ: one save, 4min", 0, false)
      .required()
      .quantity("--interval", options->interval_s, Unit::kSeconds, "τ: useful work between saves")
      .required()
      .quantity("--mtbf", options->mtbf_s, Unit::kSeconds, "M: mean time between failures")
      .required()
      .quantity("--restart-time", options->restart_s, Unit::kSeconds,
                "R: from a failure to the next useful step", 0, false)
      .computes(context, [options] { return compute_goodput(*options); });
}

void add_calc_ingest(CLI::App& calc, Context& context) {
  auto options = std::make_shared<IngestOptions>();
  Calculation ingest(calc, "ingest", "Bytes a second that the input has to deliver");
  ingest.quantity("--samples-per-second", options->samples_per_s, Unit::kNumber, "of the whole run")
      .required()
      .quantity("--bytes-per-sample", options->bytes_per_sample, Unit::kBytes, "as it is read")
      .required()
      .count("--nodes", options->nodes, "that read, alike")
      .quantity("--available", options->available, Unit::kBytesPerSecond,
                "what one node can read: says whether that is enough")
      .computes(context, [options] { return compute_ingest(*options); });
}

}  // namespace nqd::cli
