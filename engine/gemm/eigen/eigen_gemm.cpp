#include <Eigen/Core>
#include <string>

#include "engine/gemm/gemm.h"

namespace nqd::engine {
namespace {

using RowMajorMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const RowMajorMatrix, Eigen::Unaligned, Eigen::OuterStride<>>;
using Map = Eigen::Map<RowMajorMatrix, Eigen::Unaligned, Eigen::OuterStride<>>;

template <typename A, typename B>
void multiply(const A& a, const B& b, float alpha, float beta, Map& c) {
  if (beta == 0.0F) {
    c.noalias() = alpha * (a * b);
  } else {
    c.noalias() += alpha * (a * b);
  }
}

template <typename A>
void multiply(const A& a, const ConstMap& b, Transpose b_op, float alpha, float beta, Map& c) {
  if (b_op == Transpose::kYes) {
    multiply(a, b.transpose(), alpha, beta, c);
  } else {
    multiply(a, b, alpha, beta, c);
  }
}

}  // namespace

void gemm(Transpose a_op, Transpose b_op, std::int64_t m, std::int64_t n, std::int64_t k,
          float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc) {
  const bool a_transposed = a_op == Transpose::kYes;
  const bool b_transposed = b_op == Transpose::kYes;
  const ConstMap a_map(a, a_transposed ? k : m, a_transposed ? m : k, Eigen::OuterStride<>(lda));
  const ConstMap b_map(b, b_transposed ? n : k, b_transposed ? k : n, Eigen::OuterStride<>(ldb));
  Map c_map(c, m, n, Eigen::OuterStride<>(ldc));
  if (a_transposed) {
    multiply(a_map.transpose(), b_map, b_op, alpha, beta, c_map);
  } else {
    multiply(a_map, b_map, b_op, alpha, beta, c_map);
  }
}

void set_gemm_threads(int threads) { Eigen::setNbThreads(threads); }

GemmLibrary gemm_library() {
  return {"eigen",
          std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
              std::to_string(EIGEN_MINOR_VERSION),
          Eigen::SimdInstructionSetsInUse(), ""};
}

}  // namespace nqd::engine
