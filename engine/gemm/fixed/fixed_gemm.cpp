#include "engine/gemm/fixed/fixed_gemm.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "engine/gemm/fixed/blocked_product.h"
#include "engine/gemm/fixed/kernels.h"
#include "engine/threads/worker_pool.h"

namespace nqd::engine {
namespace {

// Below this many multiply-adds a worker costs more to wake than it saves (about 10 µs of one
// core).
constexpr std::int64_t kSmallProduct = std::int64_t{1} << 19;

std::string forced_kernel() {
  const char* name = std::getenv("NQD_GEMM_KERNEL");
  return name == nullptr ? "" : name;
}

const fixed::KernelSet& choose_kernels(std::string_view asked) {
  const std::string name = asked.empty() ? forced_kernel() : std::string(asked);
  if (name.empty()) return fixed::best_kernels();
  if (const fixed::KernelSet* set = fixed::find_kernels(name)) return *set;
  throw Error(ExitCode::kEnvironment, "NQD3040",
              "the matrix kernel \"" + name + "\" is unknown, or this CPU lacks its instructions",
              "Unset NQD_GEMM_KERNEL, or set it to portable, avx2 or avx512.");
}

[[noreturn]] void refuse_slices(const FixedProduct& product, const std::string& why) {
  const KSlices& slices = product.slices;
  throw Error(ExitCode::kFault, "NQD4041",
              "slices [" + std::to_string(slices.first) + ", " + std::to_string(slices.last) +
                  ") of " + std::to_string(slices.total) + ", " + std::to_string(slices.width) +
                  " wide, of a product over k = " + std::to_string(product.k) + ": " + why,
              "Choose numerics.tp_slices as a multiple of tp, and a power of two.");
}

// Whether [first, last) is a node of the tree over [0, total).
bool is_tree_node(std::int64_t first, std::int64_t last, std::int64_t total) {
  std::int64_t begin = 0;
  std::int64_t end = total;
  while (begin != first || end != last) {
    if (end - begin < 2) return false;
    const auto left =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(end - begin - 1)));
    if (last <= begin + left) {
      end = begin + left;
    } else if (first >= begin + left) {
      begin += left;
    } else {
      return false;
    }
  }
  return true;
}

void check_slices(const FixedProduct& product) {
  const KSlices& slices = product.slices;
  if (slices.first < 0 || slices.first >= slices.last || slices.last > slices.total ||
      !is_tree_node(slices.first, slices.last, slices.total)) {
    refuse_slices(product, "not a node of the tree over all slices");
  }
  if (slices.total > 1 && (slices.width < 0 || slices.count() * slices.width < product.k)) {
    refuse_slices(product, "they do not cover k");
  }
}

// What one worker computes of C.
FixedProduct part_of(const FixedProduct& whole, const WorkerShare& rows,
                     const WorkerShare& columns) {
  const auto moved = [](const void* data, std::int64_t elements, DType type) {
    return static_cast<const std::byte*>(data) +
           elements * static_cast<std::int64_t>(size_bytes(type));
  };
  FixedProduct part = whole;
  part.m = rows.end - rows.begin;
  part.n = columns.end - columns.begin;
  const std::int64_t a = whole.a.op == Transpose::kNo ? whole.a.stride : 1;
  const std::int64_t b = whole.b.op == Transpose::kNo ? 1 : whole.b.stride;
  part.a.data = moved(whole.a.data, rows.begin * a, whole.a.type);
  part.b.data = moved(whole.b.data, columns.begin * b, whole.b.type);
  const std::size_t c = static_cast<std::size_t>(rows.begin * whole.c.stride + columns.begin);
  part.c.data = static_cast<std::byte*>(whole.c.data) + c * size_bytes(whole.c.type);
  return part;
}

// Share of `count` elements in whole panels.
WorkerShare panel_share(std::int64_t count, std::int64_t panel, int worker, int workers) {
  const WorkerShare share = worker_share((count + panel - 1) / panel, worker, workers);
  return {std::min(share.begin * panel, count), std::min(share.end * panel, count)};
}

// Whether to give each worker some columns (and all of A) rather than some rows (and all of B):
// what takes the slowest worker less time. An element packed costs about as much as one vector of
// multiply-adds.
bool splits_columns(const FixedProduct& p, const fixed::KernelSet& kernels, int workers) {
  const std::int64_t panel = kernels.vectors * kernels.lanes;
  const auto largest = [&](std::int64_t count, std::int64_t unit) {
    const std::int64_t panels = (count + unit - 1) / unit;
    return std::min(count, (panels + workers - 1) / workers * unit);
  };
  const std::int64_t rows = largest(p.m, kernels.rows);
  const std::int64_t columns = largest(p.n, panel);
  return columns * p.m + (p.m + columns) * kernels.lanes <
         rows * p.n + (rows + p.n) * kernels.lanes;
}

}  // namespace

FixedGemm::FixedGemm(MemoryLedger* ledger, WorkerPool* pool, std::string_view kernel)
    : kernels_(choose_kernels(kernel)),
      pool_(pool),
      scratch_(ledger, MemoryTag::kWorkspace,
               static_cast<std::size_t>(scratch_bytes(pool == nullptr ? 1 : pool->threads()))) {}

void FixedGemm::run(const FixedProduct& product) {
  check_slices(product);
  if (product.m == 0 || product.n == 0) return;
  const int workers = pool_ == nullptr ? 1 : pool_->threads();
  float* const scratch = scratch_.as<float>();
  if (workers == 1 || product.m * product.n * product.k < kSmallProduct) {
    fixed::blocked_product(kernels_, product, scratch);
    return;
  }
  const bool by_columns = splits_columns(product, kernels_, workers);
  pool_->run([&](int worker) {
    WorkerShare rows{0, product.m};
    WorkerShare columns{0, product.n};
    if (by_columns) {
      columns = panel_share(product.n, kernels_.vectors * kernels_.lanes, worker, workers);
    } else {
      rows = panel_share(product.m, kernels_.rows, worker, workers);
    }
    if (rows.begin == rows.end || columns.begin == columns.end) return;
    fixed::blocked_product(kernels_, part_of(product, rows, columns),
                           scratch + worker * fixed::scratch_floats());
  });
}

void FixedGemm::run_alone(const FixedProduct& product, int worker) {
  check_slices(product);
  if (product.m == 0 || product.n == 0) return;
  fixed::blocked_product(kernels_, product,
                         scratch_.as<float>() + worker * fixed::scratch_floats());
}

std::int64_t FixedGemm::scratch_bytes(int threads) {
  return threads * fixed::scratch_floats() * static_cast<std::int64_t>(sizeof(float));
}

GemmLibrary fixed_gemm_library() {
  const fixed::KernelSet& set = choose_kernels({});
  std::string warning;
  if (&set != &fixed::best_kernels()) {
    warning = "NQD_GEMM_KERNEL=" + forced_kernel() + " forces the kernel " + set.description +
              "; unset it to use " + fixed::best_kernels().description;
  }
  return {"fixed", "1", set.description, warning};
}

}  // namespace nqd::engine
