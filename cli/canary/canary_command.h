#pragma once

namespace CLI {
class App;
}

namespace nqd::cli {

struct Context;

// `nqd canary`.
void add_canary_command(CLI::App& app, Context& context);

}  // namespace nqd::cli
