// What canonical numerics costs in matrix products: the library of the build, the fixed-order
// product, and the same in 8 slices of k, turn by turn in one run on one thread. A time is the
// first octile of CPU time, since what a shared machine adds is never negative.
//
//   nqd_fixed_gemm_bench [SAMPLES=15]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "engine/gemm/fixed/fixed_gemm.h"
#include "engine/gemm/gemm.h"

namespace nqd::bench {
namespace {

using engine::FixedGemm;
using engine::FixedProduct;
using engine::KSlices;
using engine::Transpose;

struct Shape {
  const char* name;
  std::int64_t m, n, k;
  Transpose a_op, b_op;
};

constexpr Transpose kN = Transpose::kNo;
constexpr Transpose kT = Transpose::kYes;
// Of GPT with 6 layers of 384 and 4 x 256 tokens, and of one with 768.
constexpr std::array kShapes = {Shape{"qkv forward", 1024, 1152, 384, kN, kT},
                                Shape{"qkv dx", 1024, 384, 1152, kN, kN},
                                Shape{"qkv dw", 1152, 384, 1024, kT, kN},
                                Shape{"proj forward", 1024, 384, 384, kN, kT},
                                Shape{"proj dx", 1024, 384, 384, kN, kN},
                                Shape{"proj dw", 384, 384, 1024, kT, kN},
                                Shape{"fc forward", 1024, 1536, 384, kN, kT},
                                Shape{"fc dx", 1024, 384, 1536, kN, kN},
                                Shape{"fc dw", 1536, 384, 1024, kT, kN},
                                Shape{"fc2 forward", 1024, 384, 1536, kN, kT},
                                Shape{"fc2 dx", 1024, 1536, 384, kN, kN},
                                Shape{"fc2 dw", 384, 1536, 1024, kT, kN},
                                Shape{"scores", 256, 256, 64, kN, kT},
                                Shape{"scores, block", 64, 256, 64, kN, kT},
                                Shape{"attention, block", 64, 64, 256, kN, kN},
                                Shape{"dv, block", 256, 64, 64, kT, kN},
                                Shape{"768: fc forward", 1024, 3072, 768, kN, kT},
                                Shape{"768: fc dx", 1024, 768, 3072, kN, kN},
                                Shape{"768: fc dw", 3072, 768, 1024, kT, kN}};

constexpr std::int64_t kSlicedFrom = 384;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Rates {
  double library, fixed, sliced;  // GFLOP/s
};

Rates measure(const Shape& s, int samples, FixedGemm& gemm) {
  std::vector<float> a(static_cast<std::size_t>(s.m * s.k));
  std::vector<float> b(static_cast<std::size_t>(s.k * s.n));
  std::vector<float> c(static_cast<std::size_t>(s.m * s.n));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 0.01F * static_cast<float>(i % 97 + 1);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = 0.01F * static_cast<float>(i % 89 + 1);
  const std::int64_t a_stride = s.a_op == kT ? s.m : s.k;
  const std::int64_t b_stride = s.b_op == kT ? s.k : s.n;
  FixedProduct fixed{
      s.m, s.n, s.k, {a.data(), a_stride, s.a_op}, {b.data(), b_stride, s.b_op}, {c.data(), s.n}};
  FixedProduct sliced = fixed;
  sliced.slices = KSlices::whole(8, s.k);
  const auto run = [&](int which) {
    if (which == 1) return gemm.run(fixed);
    if (which == 2) return gemm.run(sliced);
    engine::gemm(s.a_op, s.b_op, s.m, s.n, s.k, 1.0F, a.data(), a_stride, b.data(), b_stride, 0.0F,
                 c.data(), s.n);
  };
  // Long enough for the clock.
  const std::int64_t calls = std::max<std::int64_t>(1, 20'000'000 / (s.m * s.n * s.k));
  std::array<std::vector<double>, 3> times;
  for (int sample = -1; sample < samples; ++sample) {
    for (std::size_t which = 0; which < times.size(); ++which) {
      const double start = cpu_seconds();
      for (std::int64_t i = 0; i < calls; ++i) run(static_cast<int>(which));
      if (sample >= 0) times[which].push_back(cpu_seconds() - start);
    }
  }
  const double work = 2e-9 * static_cast<double>(s.m * s.n * s.k * calls);
  const auto rate = [&](std::vector<double>& seconds) {
    std::sort(seconds.begin(), seconds.end());
    return work / seconds[seconds.size() / 8];
  };
  return {rate(times[0]), rate(times[1]), rate(times[2])};
}

void run(int samples) {
  const engine::GemmLibrary library = engine::gemm_library();
  const engine::GemmLibrary own = engine::fixed_gemm_library();
  std::printf("%s %s (%s) and %s; GFLOP/s\n", library.name.c_str(), library.version.c_str(),
              library.core.c_str(), own.core.c_str());
  std::printf("%-18s %15s    %8s %8s   %13s   %8s %12s\n", "", "m x n x k", "library", "fixed",
              "fixed/library", "8 slices", "fixed/slices");
  FixedGemm gemm(nullptr);
  double log_fixed = 0;
  double log_sliced = 0;
  int sliced = 0;
  for (const Shape& s : kShapes) {
    const Rates r = measure(s, samples, gemm);
    std::printf("%-18s %5lldx%4lldx%4lld %c%c %8.1f %8.1f   %13.2f", s.name,
                static_cast<long long>(s.m), static_cast<long long>(s.n),
                static_cast<long long>(s.k), s.a_op == kT ? 'T' : 'N', s.b_op == kT ? 'T' : 'N',
                r.library, r.fixed, r.fixed / r.library);
    log_fixed += std::log(r.fixed / r.library);
    if (s.k >= kSlicedFrom) {
      std::printf("   %8.1f %12.2f", r.sliced, r.fixed / r.sliced);
      log_sliced += std::log(r.fixed / r.sliced);
      ++sliced;
    }
    std::printf("\n");
  }
  std::printf("%-54s %13.2f   %8s %12.2f\n", "geometric mean",
              std::exp(log_fixed / static_cast<double>(kShapes.size())), "",
              std::exp(log_sliced / sliced));
}

}  // namespace
}  // namespace nqd::bench

int main(int argc, char** argv) { nqd::bench::run(argc > 1 ? std::atoi(argv[1]) : 15); }
