#pragma once

namespace CLI {
class App;
}

namespace nqd::cli {

struct Context;

// `nqd bench engine`.
void add_bench_engine(CLI::App& bench, Context& context);

}  // namespace nqd::cli
