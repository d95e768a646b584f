// `nqd bench memory`, `pair-matrix` and `stragglers`: what is behind a collective that is slow.
#pragma once

namespace CLI {
class App;
}

namespace nqd::cli {

struct Context;

void add_bench_probes(CLI::App& bench, Context& context);

}  // namespace nqd::cli
