#include <array>
#include <cmath>
#include <limits>

#include "reports/json_field.h"
#include "reports/nccl_tests/nccl_tests.h"

namespace nqd::reports {
namespace {

using collectives::BenchRow;

// nccl-tests writes NaN as the text "nan".
double figure(const JsonField& field) {
  return field.is_text() && field.text().find("nan") != std::string::npos
             ? std::numeric_limits<double>::quiet_NaN()
             : field.number();
}

// Microseconds of each iteration, the maximum over processes (-I).
std::vector<double> samples_of(const JsonField& result, const char* key) {
  std::vector<double> samples;
  const std::optional<JsonField> report = result.find(key);
  if (!report) return samples;
  const std::vector<JsonField> times = report->at("times_us").items();
  const auto skipped = report->find("skipped_iterations");
  const std::size_t first = skipped ? skipped->integer<std::size_t>() : 0;
  for (std::size_t i = first; i < times.size(); ++i) {
    const double seconds = times[i].number() * 1e-6;
    if (seconds > 0) samples.push_back(seconds);
  }
  return samples;
}

void read_half(const JsonField& result, bool in_place, NcclTestsRun& run, NcclTestsOutput& output) {
  const std::optional<JsonField> half = result.find(in_place ? "in_place" : "out_of_place");
  if (!half) return;
  BenchRow row;
  row.in_place = in_place;
  row.effective_bytes = result.at("size").integer<std::uint64_t>();
  row.dtype = dtype_of_nccl(result.at("type").text());
  row.op = result.at("redop").text();
  if (row.op.empty()) row.op = "none";
  const std::optional<JsonField> cpu = half->find("cpu_time");
  row.p50_s = figure(cpu ? *cpu : half->at("time")) * 1e-6;
  row.algbw_gbps = figure(half->at("alg_bw"));
  row.busbw_gbps = figure(half->at("bus_bw"));
  const std::optional<JsonField> wrong = half->find("nwrong");
  row.checked = wrong.has_value();
  if (wrong) row.wrong = wrong->integer<std::uint64_t>();
  row.samples_s = samples_of(result, in_place ? "in_place_per_iter" : "out_of_place_per_iter");
  add_nccl_row(run, std::move(row), output);
}

void read_config(const JsonField& config, NcclTestsRun& run) {
  for (const JsonField& device : config.at("devices").items()) {
    run.devices.push_back({.rank = device.at("rank").integer<int>(),
                           .pid = device.at("pid").integer<std::int64_t>(),
                           .host = device.at("hostname").text(),
                           .bus_id = device.at("device_hex").text()});
  }
  // Each process reports its first device alone.
  const int per_process = config.at("nthreads").integer<int>() * config.at("ngpus").integer<int>();
  run.ranks = static_cast<int>(run.devices.size()) * per_process;
}

}  // namespace

bool is_nccl_tests_json(const JsonField& document) {
  return document.is_object() && document.find("version") && document.find("args") &&
         document.find("nccl_version");
}

NcclTestsOutput read_nccl_tests_json(const JsonField& document) {
  NcclTestsOutput output;
  NcclTestsRun& run = output.runs.emplace_back();
  for (const JsonField& argument : document.at("args").items()) {
    if (const std::string name = collective_of_program(argument.text()); !name.empty()) {
      run.collective = name;
    }
  }
  // A program that stopped before its devices were known wrote its arguments only.
  const std::optional<JsonField> config = document.find("config");
  if (config) read_config(*config, run);
  if (const std::optional<JsonField> results = document.find("results")) {
    for (const JsonField& result : results->items()) {
      read_half(result, false, run, output);
      read_half(result, true, run, output);
    }
  }
  if (const auto bounds = document.find("out_of_bounds")) {
    run.out_of_bounds = bounds->at("count").integer<std::uint64_t>();
  }
  if (const auto average = document.find("average_bus_bandwidth")) {
    run.average_busbw_gbps = figure(average->at("bandwidth"));
    run.complete = true;
  }
  if (!run.complete) output.notes.push_back("the run has no end: it was stopped");
  finish_nccl_run(run);
  return output;
}

}  // namespace nqd::reports
