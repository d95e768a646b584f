#include "cli/supervise/attempts.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "reports/json_writer.h"

namespace nqd::cli {
namespace {

constexpr double kLongestWait = 60;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ExitCode::kUsage, "NQD1404", "the command behind -- " + what,
              "write it as `-- mpirun -n 4 nqd train CONFIG --resume auto`");
}

// Of `nqd train`.
bool takes_no_value(const std::string& flag) {
  return flag == "--json" || flag == "--canary" || flag == "--explain-config";
}

void write_names(reports::JsonWriter& json, std::string_view key,
                 const std::vector<std::string>& names) {
  json.key(key).begin_array();
  for (const std::string& name : names) json.value(name);
  json.end();
}

}  // namespace

bool is_worth_restarting(int exit_code) {
  return exit_code == static_cast<int>(ExitCode::kFault) || exit_code >= 128;
}

double back_off_s(int restart, double first_s) {
  return std::min(first_s * std::exp2(std::min(restart, 30)), kLongestWait);
}

TrainCommand read_train_command(const std::vector<std::string>& command) {
  const auto train = std::find(command.begin(), command.end(), "train");
  if (train == command.end()) refuse("has no `train`");
  TrainCommand run;
  std::string resume;
  for (auto word = train + 1; word != command.end(); ++word) {
    if (!word->starts_with("--")) {
      if (run.config.empty()) run.config = *word;
      continue;
    }
    const std::size_t equals = word->find('=');
    const std::string flag = word->substr(0, equals);
    if (takes_no_value(flag)) continue;
    std::string value;
    if (equals != std::string::npos) {
      value = word->substr(equals + 1);
    } else if (word + 1 != command.end()) {
      value = *++word;
    }
    if (flag == "--output-dir") run.folder = value;
    if (flag == "--resume") resume = value;
    if (flag == "--cluster") run.cluster_file = value;
    if (flag == "--set") run.overrides.push_back(std::move(value));
  }
  if (resume != "auto") refuse("has no `--resume auto`: every restart would start anew");
  if (run.config.empty()) refuse("names no config");
  if (run.folder.empty()) {
    run.folder = "runs/" + std::filesystem::path(run.config).stem().string();
  }
  return run;
}

std::string attempts_json(const std::vector<Attempt>& attempts) {
  using Layout = reports::JsonWriter::Layout;
  reports::JsonWriter json;
  json.begin_object();
  json.key("attempts").begin_array();
  for (const Attempt& one : attempts) {
    json.begin_object(Layout::kInline);
    json.field("attempt", one.number);
    json.field("exit_code", one.exit_code);
    json.field("seconds", one.seconds);
    json.field("first_step", one.first_step);
    json.field("last_step", one.last_step);
    json.field("lost_steps", one.lost_steps);
    json.field("recovery_s", one.recovery_s);
    write_names(json, "hosts", one.hosts);
    write_names(json, "left_out", one.left_out);
    json.field("mesh", reports::known(one.mesh));
    json.end();
  }
  json.end();
  json.field("restarts", attempts.size() - 1);
  json.field("exit_code", attempts.back().exit_code);
  json.end();
  return json.take();
}

}  // namespace nqd::cli
