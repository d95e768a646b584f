// The part of the shell's language in which launch scripts keep their arguments: variables, arrays,
// quoting, line continuations, $((arithmetic)), `if` and `case` over known values. Nothing is run:
// what only a running shell knows stays as it is written ("$SLURM_NNODES", "$(hostname)").
#pragma once

#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/config/source.h"

namespace nqd::planner {

struct ShellWord {
  std::string text;
  Place place;  // where its first character is written, inside a variable's value if it is there
};

struct ShellCommand {
  std::vector<ShellWord> words;
};

// The commands that the script would run, branches that are known not to be taken left out; each
// `#SBATCH` line is one. A word in quotes that holds arguments (`bash -c "..."`, `eval`) is cut
// into its words. Findings: what check_foreign_text refuses; an unclosed quote, or expansions
// beyond 4 MiB (NQD2301, errors); a branch on something unknown, of which the first is taken, and a
// file that is sourced and not read (NQD2316, warnings). Never throws for bad input.
std::vector<ShellCommand> read_script(const Source& source, std::vector<Diagnostic>& diagnostics);

}  // namespace nqd::planner
