// Loading a config for a command that runs it: flags, diagnostics on stderr, exit codes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/error.h"
#include "planner/config/config.h"
#include "planner/plan/plan.h"

namespace CLI {
class App;
}

namespace nqd::cli {

struct ConfigFlags {
  std::string path;
  std::vector<std::string> overrides;  // --set key=value
  std::string cluster_file;            // --cluster
};

// Adds the CONFIG argument, --set and --cluster.
void add_config_flags(CLI::App& command, ConfigFlags& flags);

// A config that a command cannot go on with; its diagnostics are on stderr.
class ConfigError : public Error {
 public:
  ConfigError(ExitCode exit_code, const std::string& message, std::vector<Diagnostic> diagnostics)
      : Error(exit_code, "", message), diagnostics_(std::move(diagnostics)) {
    set_quiet(true);
  }
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// NQD10xx: the text is malformed (exit 2); later codes say that a well-formed config breaks a rule
// (exit 1).
bool is_malformed(const std::vector<Diagnostic>& diagnostics);

// What make_plan found beyond loading, which has reported the mesh rules (NQD12xx) already; located
// in the file.
std::vector<Diagnostic> plan_findings(const planner::LoadedConfig& loaded,
                                      const planner::Plan& plan);

// For another process than the speaker before it reports an error that the speaker may have too:
// the launcher ends it meanwhile if so.
void wait_for_speaker();

// Loads one config; the `speaker` among the processes of a job prints its diagnostics to stderr.
// Throws ConfigError: kUsage when it is malformed, kNo when it breaks a rule of the mesh. Another
// process first waits for the launcher to end it over the speaker's error; that it does not means
// that the error is its own, and it prints too.
planner::LoadedConfig load_or_throw(const ConfigFlags& flags, bool speaker);

// make_plan of a loaded config, its findings located and printed. Throws quietly as above (kNo).
planner::Plan plan_or_throw(const planner::LoadedConfig& loaded, bool speaker);

// Every value with its origin, one line each: what --explain-config prints.
std::string explain_config(const planner::LoadedConfig& loaded);

}  // namespace nqd::cli
