// The subcommands of `nqd simulate`: each runs on virtual ranks and prints what happened.
#pragma once

namespace CLI {
class App;
}

namespace nqd::cli {

struct Context;

void add_simulate_collective(CLI::App& simulate, Context& context);
void add_simulate_pipeline(CLI::App& simulate, Context& context);

}  // namespace nqd::cli
