// nqd supervise -- COMMAND: starts a run, and starts it again when a fault ends it.
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/stop_signals.h"
#include "cli/supervise/attempts.h"
#include "cli/supervise/child.h"
#include "cli/supervise/placement.h"
#include "cli/supervise/suspects.h"
#include "engine/io/metrics.h"

namespace nqd::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int max_restarts = 10;
  int give_up_after = 3;
  double back_off_s = 1;
  PlacementOptions placement;
  bool json = false;
  std::vector<std::string> command;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Supervisor {
 public:
  explicit Supervisor(const Options& options)
      : options_(options),
        train_(read_train_command(options.command)),
        folder_(train_.folder),
        placement_(options.placement, options.command, train_),
        verdicts_(folder_) {}

  int run() {
    count_stop_signals();
    while (true) {
      run_once();
      const Attempt& last = attempts_.back();
      if (!goes_on(last)) return last.exit_code;
      const int restart = static_cast<int>(attempts_.size()) - 1;
      // A run that stopped for a slow host has saved, and is to go on without it.
      const double wait_s =
          last.exit_code == kStopped ? 0 : back_off_s(fruitless_, options_.back_off_s);
      log::warn("attempt " + std::to_string(last.number) + " ended with " +
                std::to_string(last.exit_code) + " after step " +
                std::to_string(last.last_step.value_or(0)) + "; restart " +
                std::to_string(restart + 1) + " of " + std::to_string(options_.max_restarts) +
                " in " + format_seconds(wait_s));
      if (!wait(wait_s)) return kStopped;
    }
  }

  const std::vector<Attempt>& attempts() const { return attempts_; }

 private:
  static constexpr int kStopped = static_cast<int>(ExitCode::kStopped);
  static constexpr auto kPoll = std::chrono::milliseconds(10);
  // A launcher may wait for ever for its part on a host that it no longer reaches.
  static constexpr double kLauncherS = 15;
  // A run that is just starting does not know the request to stop yet.
  static constexpr double kStartS = 15;
  // Between the request to end at once and the end of what does not follow it.
  static constexpr double kAtOnceS = 3;

  // False when the supervisor was asked to stop meanwhile.
  bool wait(double seconds) const {
    const Clock::time_point start = Clock::now();
    while (seconds_since(start) < seconds && !stop_signal_came())
      std::this_thread::sleep_for(kPoll);
    return !stop_signal_came();
  }

  bool goes_on(const Attempt& last) {
    if (last.exit_code == 0 || stop_signal_came()) return false;
    const std::vector<HostFault> faults = verdicts_.read();
    const bool changed = placement_.learn(faults, last.last_step.has_value());
    if (last.exit_code == kStopped && options_.placement.hosts.empty()) {
      for (const HostFault& fault : faults) {
        log::warn("the run stopped for host " + fault.host + ": " + fault.why +
                  "; without --hosts there is no other in its place");
      }
    }
    if (!is_worth_restarting(last.exit_code) && !changed) return false;
    const bool fruitful = last.last_step.value_or(0) > furthest_;
    furthest_ = std::max(furthest_, last.last_step.value_or(0));
    fruitless_ = fruitful || changed ? 0 : fruitless_ + 1;
    if (fruitless_ >= options_.give_up_after) {
      log::error(std::to_string(fruitless_) + " attempts in a row came no further than step " +
                 std::to_string(furthest_) + ": the fault is not one that passes");
      return false;
    }
    if (static_cast<int>(attempts_.size()) <= options_.max_restarts) return true;
    log::error("the run failed again after " + std::to_string(options_.max_restarts) +
               " restarts (--max-restarts)");
    return false;
  }

  void run_once() {
    Attempt attempt;
    attempt.number = static_cast<int>(attempts_.size());
    placement_.describe(attempt);
    verdicts_.snapshot();
    const std::filesystem::path metrics = folder_ / "metrics.jsonl";
    const auto before = last_written(metrics);
    const Clock::time_point start = Clock::now();
    Child child(placement_.command());
    Stop stop;
    std::optional<int> code;
    std::optional<Clock::time_point> failed;  // when the run reported a fault
    while (!code) {
      code = child.ended();
      if (last_written(metrics) != before) attempt.last_step = engine::last_step(metrics);
      if (attempt.last_step && !attempt.recovery_s && !attempts_.empty()) {
        attempt.recovery_s = seconds_since(ended_);
        log::info("recovered in " + format_seconds(*attempt.recovery_s));
      }
      if (stop_signal_came()) pass_on(stop, child);
      if (!failed && verdicts_.has_fault()) failed = Clock::now();
      if (failed && seconds_since(*failed) > kLauncherS) child.signal(SIGKILL);
      if (!code) std::this_thread::sleep_for(kPoll);
    }
    // Launchers say something of their own of a run that was not let end.
    attempt.exit_code = stop.second ? 128 + SIGTERM : *code;
    attempt.seconds = seconds_since(start);
    ended_ = Clock::now();
    if (attempt.last_step) {
      attempt.first_step = engine::resumed_after(metrics).value_or(0) + 1;
      if (const auto reached = step_before()) {
        attempt.lost_steps = std::max<std::int64_t>(0, *reached + 1 - *attempt.first_step);
        log::info("attempt " + std::to_string(attempt.number) + " made " +
                  std::to_string(*attempt.lost_steps) + " steps again");
      }
    }
    attempts_.push_back(attempt);
    keep_attempts();
  }

  // What has been done for the signals that came.
  struct Stop {
    std::optional<Clock::time_point> first;
    std::optional<Clock::time_point> second;
    bool passed_on = false;
  };

  // The first: save and stop (at SIGTERM mpirun would end the ranks within a second). The second:
  // at once.
  static void pass_on(Stop& stop, Child& child) {
    if (!stop.first) stop.first = Clock::now();
    if (!stop.passed_on) stop.passed_on = child.request_stop();
    const bool hurries = stop_signals() > 1;
    const bool is_deaf = !stop.passed_on && seconds_since(*stop.first) > kStartS;
    if (!stop.second && (hurries || is_deaf)) {
      stop.second = Clock::now();
      child.signal(SIGTERM);
    }
    if (stop.second && seconds_since(*stop.second) > kAtOnceS) child.kill_all();
  }

  // After every attempt: what ends the supervisor may come at any time.
  void keep_attempts() const {
    std::error_code error;
    if (!std::filesystem::is_directory(folder_, error)) return;
    try {
      write_file(folder_ / "attempts.json", attempts_json(attempts_));
    } catch (const Error& failure) {
      log::warn("the attempts are not recorded: " + std::string(failure.what()));
    }
  }

  // The last step that an earlier attempt made.
  std::optional<std::int64_t> step_before() const {
    for (auto one = attempts_.rbegin(); one != attempts_.rend(); ++one) {
      if (one->last_step) return one->last_step;
    }
    return std::nullopt;
  }

  static std::optional<std::filesystem::file_time_type> last_written(
      const std::filesystem::path& path) {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(path, error);
    return error ? std::nullopt : std::optional(time);
  }

  const Options& options_;
  const TrainCommand train_;
  const std::filesystem::path folder_;
  Placement placement_;
  RunVerdicts verdicts_;
  std::vector<Attempt> attempts_;
  Clock::time_point ended_{};  // of the last attempt
  std::int64_t furthest_ = 0;  // step
  int fruitless_ = 0;          // attempts in a row that came no further
};

int run(const Options& options) {
  Supervisor supervisor(options);
  const int code = supervisor.run();
  if (options.json) std::cout << attempts_json(supervisor.attempts());
  return code;
}

}  // namespace

void add_supervise_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "supervise", "Start a run, and start it again from its last save when a fault ends it");
  command->add_option("--max-restarts", options->max_restarts, "restarts in all")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command
      ->add_option("--give-up-after", options->give_up_after,
                   "attempts in a row that came no further")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command
      ->add_option("--back-off", options->back_off_s,
                   "seconds before a restart; doubled while attempts come no further, up to 60")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  command
      ->add_option("--hosts", options->placement.hosts,
                   "hosts with their numbers of ranks, a:2,b:2; the command has {hosts} in their "
                   "place, and {ranks} for all of them")
      ->type_name("HOST[:RANKS],...");
  command
      ->add_option("--spares", options->placement.spares,
                   "hosts that take the place of one that is at fault")
      ->type_name("HOST[:RANKS],...");
  command->add_flag(
      "--elastic", options->placement.elastic,
      "without a spare go on with fewer ranks, on the mesh that the planner proposes");
  command->add_flag("--json", options->json, "print what every attempt came to on stdout");
  command->add_option("command", options->command, "behind --: mpirun -n 4 nqd train …")
      ->required();
  command->positionals_at_end();
  command->callback([options, &context] { context.exit_code = run(*options); });
}

}  // namespace nqd::cli
