#include "cli/supervise/attempts.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "reports/json_writer.h"

namespace nqd::cli {
namespace {

constexpr double kLongestWait = 60;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ExitCode::kUsage, "NQD1404", "the command behind -- " + what,
              "write it as `-- mpirun -n 4 nqd train CONFIG --resume auto`");
}

}  // namespace

bool is_worth_restarting(int exit_code) {
  return exit_code == static_cast<int>(ExitCode::kFault) || exit_code >= 128;
}

double back_off_s(int restart, double first_s) {
  return std::min(first_s * std::exp2(std::min(restart, 30)), kLongestWait);
}

std::string run_folder_of(const std::vector<std::string>& command) {
  const auto train = std::find(command.begin(), command.end(), "train");
  if (train == command.end()) refuse("has no `train`");
  std::string folder;
  std::string config;
  bool resumes = false;
  for (auto word = train + 1; word != command.end(); ++word) {
    const auto value = [&](const std::string& flag) -> std::optional<std::string> {
      if (*word == flag && word + 1 != command.end()) return *(word + 1);
      if (word->starts_with(flag + "=")) return word->substr(flag.size() + 1);
      return std::nullopt;
    };
    if (const auto found = value("--output-dir")) folder = *found;
    if (const auto found = value("--resume")) resumes = *found == "auto";
    const bool is_config = word->ends_with(".yaml") || word->ends_with(".yml");
    if (config.empty() && is_config) config = *word;
  }
  if (!resumes) refuse("has no `--resume auto`: every restart would start anew");
  if (!folder.empty()) return folder;
  if (config.empty()) refuse("names no config");
  return "runs/" + std::filesystem::path(config).stem().string();
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
    json.end();
  }
  json.end();
  json.field("restarts", attempts.size() - 1);
  json.field("exit_code", attempts.back().exit_code);
  json.end();
  return json.take();
}

}  // namespace nqd::cli
