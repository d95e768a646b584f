#pragma once

namespace CLI {
class App;
}

namespace nqd::cli {

struct Context;

// `nqd accept`.
void add_accept_command(CLI::App& app, Context& context);

}  // namespace nqd::cli
