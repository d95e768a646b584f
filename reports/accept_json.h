// `nqd accept`: the index of its folder, and the page that a person reads.
#pragma once

#include <string>
#include <vector>

#include "reports/envelope.h"

namespace nqd::reports {

struct AcceptStep {
  std::string name;  // "canary", "all_reduce", …, "configs", "parity"
  bool passed = false;
  std::string seen;       // one sentence; of a failure with what is wrong
  std::string next_step;  // of a failure: what to do
  double seconds = 0;
  std::vector<std::string> argv;  // that was run; empty: inside `nqd accept`
  int exit_code = 0;
  std::string document;  // its raw JSON, a file of the folder; empty when it wrote none
  std::string sha256;    // of that file
};

// A config beside what is expected of it.
struct AcceptConfig {
  std::string path;
  bool should_pass = true;
  bool passed = true;
  std::string messages;  // verbatim, as mesh-plan prints them
};

struct Acceptance {
  std::string cluster;            // as asked; empty: this machine
  std::vector<std::string> plan;  // the names of all steps, in order
  std::vector<AcceptStep> steps;  // those that were made
  std::vector<AcceptConfig> configs;
  bool accepted() const;  // all steps were made and passed
};

// {…envelope, "cluster", "accepted", "planned", "steps": [{name, passed, seen, next_step, seconds,
// argv, exit_code, document, sha256}], "configs": [{path, should_pass, passed, messages}]}.
std::string accept_json(const Envelope& envelope, const Acceptance& acceptance);

// A line a step, then for a failure what was seen and what to do. Ends in a newline.
std::string accept_text(const Acceptance& acceptance);

// The same as Markdown with every config's verdict and, of the rejected ones, the messages.
std::string accept_markdown(const Envelope& envelope, const Acceptance& acceptance);

}  // namespace nqd::reports
