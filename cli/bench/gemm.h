// `nqd bench gemm CONFIG`: the compute side of a calibration.
#pragma once

namespace CLI {
class App;
}

namespace nqd::cli {

struct Context;

// Adds the `gemm` subcommand of `bench`.
void add_bench_gemm(CLI::App& bench, Context& context);

}  // namespace nqd::cli
