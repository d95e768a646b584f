// What a supervised run has been through.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nqd::cli {

struct Attempt {
  int number = 0;  // from 0
  int exit_code = 0;
  double seconds = 0;                      // from its start to its end
  std::optional<std::int64_t> first_step;  // of those that it made
  std::optional<std::int64_t> last_step;
  // Of a restart: steps that were made before and had to be made again (recovery point), and
  // seconds from the end of the attempt before to the end of the first new step (recovery time).
  std::optional<std::int64_t> lost_steps;
  std::optional<double> recovery_s;
  // With --hosts: where it ran, whom it was without, and, after a change, its mesh.
  std::vector<std::string> hosts{};
  std::vector<std::string> left_out{};
  std::string mesh{};
};

// Whether a run that ended so goes on when it is started again: a fault (4) or a signal that killed
// it. A refused config, a missing device or an answer of no would only be the same again.
bool is_worth_restarting(int exit_code);

// Seconds before restart `restart` (from 0), doubling from `first_s` to at most a minute.
double back_off_s(int restart, double first_s);

// What a command that holds `train CONFIG …` says of its run.
struct TrainCommand {
  std::string config;
  std::vector<std::string> overrides;  // --set
  std::string cluster_file;            // --cluster
  std::string folder;                  // --output-dir, else runs/CONFIG-NAME
};
// Throws Error (kUsage, NQD1404) where it cannot be told, or where a restart would start anew: no
// --resume auto.
TrainCommand read_train_command(const std::vector<std::string>& command);

// {"attempts": [...], "restarts", "exit_code"}; hosts and left_out of an attempt are empty, and
// mesh is null, without --hosts.
std::string attempts_json(const std::vector<Attempt>& attempts);

}  // namespace nqd::cli
