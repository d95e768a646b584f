#include "engine/cuda/gemm.h"

#include <cublasLt.h>

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <string>

#include "base/error.h"
#include "engine/cuda/device.h"
#include "engine/cuda/shared_library.h"

namespace nqd::engine::cuda {
namespace {

// The functions of the library that are used.
struct Library : SharedLibrary {
  // Opened once; has a reason() where it cannot be.
  static const Library& get() {
    static const Library library;
    return library;
  }

  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtGetStatusName) status_name = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;

 private:
  // Beside what the loader finds, where the toolkit installs itself.
  Library() : SharedLibrary({file_name(), "/usr/local/cuda/lib64/" + file_name()}) {
    load(version, "cublasLtGetVersion");
    load(status_name, "cublasLtGetStatusName");
    load(create, "cublasLtCreate");
    load(destroy, "cublasLtDestroy");
    load(matmul, "cublasLtMatmul");
    load(desc_create, "cublasLtMatmulDescCreate");
    load(desc_destroy, "cublasLtMatmulDescDestroy");
    load(desc_set, "cublasLtMatmulDescSetAttribute");
    load(layout_create, "cublasLtMatrixLayoutCreate");
    load(layout_destroy, "cublasLtMatrixLayoutDestroy");
    load(preference_create, "cublasLtMatmulPreferenceCreate");
    load(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    load(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    load(heuristic, "cublasLtMatmulAlgoGetHeuristic");
  }
  static std::string file_name() { return "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR); }
};

void check_lt(cublasStatus_t status, const std::string& call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ExitCode::kFault, "NQD4060",
              call + " failed with " + Library::get().status_name(status),
              "`nqd doctor` says what is missing for CUDA");
}

cudaDataType_t data_type(DType type) {
  if (type == DType::kBFloat16) return CUDA_R_16BF;
  return type == DType::kFloat16 ? CUDA_R_16F : CUDA_R_32F;
}

cublasLtEpilogue_t lt_epilogue(GemmEpilogue::Kind kind) {
  using Kind = GemmEpilogue::Kind;
  switch (kind) {
    case Kind::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Kind::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Kind::kGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case Kind::kGeluBias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Kind::kGeluBackward:
      return CUBLASLT_EPILOGUE_DGELU;
    case Kind::kGeluBackwardBiasGradient:
      return CUBLASLT_EPILOGUE_DGELU_BGRAD;
    // The library's matrices are by columns, so it computes Cᵀ = op(B)ᵀ · op(A)ᵀ: its A is B.
    case Kind::kBiasGradientOfA:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Kind::kBiasGradientOfB:
      return CUBLASLT_EPILOGUE_BGRADA;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// Bytes to which an address is aligned, up to 256: algorithms depend on it.
std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256U;
  return std::uint32_t{1} << std::countr_zero(bits);
}

// Owns a descriptor of the library.
template <typename T>
class Owned {
 public:
  using Destroy = cublasStatus_t (*)(T);
  explicit Owned(Destroy destroy) : destroy_(destroy) {}
  ~Owned() {
    if (value != nullptr) static_cast<void>(destroy_(value));
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  T value = nullptr;

 private:
  Destroy destroy_;
};

// Everything that a choice depends on.
using Key = std::array<std::int64_t, 19>;

Key key_of(const FixedProduct& p, const GemmEpilogue& e) {
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  return {p.m,
          p.n,
          p.k,
          number(p.a.type),
          number(p.c.type),
          number(p.a.op),
          number(p.b.op),
          p.a.stride,
          p.b.stride,
          p.c.stride,
          number(p.accumulate),
          number(e.kind),
          e.aux_stride,
          number(alignment_of(p.a.data)),
          number(alignment_of(p.b.data)),
          number(alignment_of(p.c.data)),
          number(alignment_of(e.vector)),
          number(alignment_of(e.aux)),
          number(alignment_of(e.addend))};
}

// What the library asks of the matrix beside a GELU (cublasLt.h, EPILOGUE_AUX_LD). The preferences
// that algorithms are chosen by do not name the vector, which some read 16 bytes at a time.
bool takes_operands(const GemmEpilogue& e) {
  return (e.aux == nullptr || (e.aux_stride % 8 == 0 && alignment_of(e.aux) >= 16)) &&
         (e.vector == nullptr || alignment_of(e.vector) >= 16);
}

}  // namespace

struct CudaGemm::State {
  // A product's descriptors and the algorithm chosen for it.
  struct Choice {
    explicit Choice(const Library& lt)
        : desc(lt.desc_destroy),
          left(lt.layout_destroy),
          right(lt.layout_destroy),
          result(lt.layout_destroy) {}
    Owned<cublasLtMatmulDesc_t> desc;
    Owned<cublasLtMatrixLayout_t> left;   // op(B)ᵀ
    Owned<cublasLtMatrixLayout_t> right;  // op(A)ᵀ
    Owned<cublasLtMatrixLayout_t> result;
    cublasLtMatmulAlgo_t algorithm{};
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;  // why there is none
  };

  State(void* memory, std::size_t bytes, Float32Products products)
      : workspace(memory), workspace_bytes(bytes), float32(products), handle(lt.destroy) {}

  const Library& lt = Library::get();
  void* workspace;
  std::size_t workspace_bytes;
  Float32Products float32;
  Owned<cublasLtHandle_t> handle;
  std::map<Key, Choice> choices;

  template <typename T>
  void set(Choice& choice, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_lt(lt.desc_set(choice.desc.value, attribute, &value, sizeof value),
             "cublasLtMatmulDescSetAttribute");
  }

  // The layout of a stored matrix [rows, columns], by columns: its transpose.
  void describe(Owned<cublasLtMatrixLayout_t>& layout, DType type, std::int64_t rows,
                std::int64_t columns, std::int64_t stride) {
    check_lt(lt.layout_create(&layout.value, data_type(type), static_cast<std::uint64_t>(columns),
                              static_cast<std::uint64_t>(rows), stride),
             "cublasLtMatrixLayoutCreate");
  }

  Choice& choice_of(const FixedProduct& p, const GemmEpilogue& e) {
    const auto [found, is_new] = choices.try_emplace(key_of(p, e), lt);
    if (!is_new) return found->second;
    try {
      prepare(found->second, p, e);
    } catch (...) {
      choices.erase(found);
      throw;
    }
    return found->second;
  }

  void prepare(Choice& choice, const FixedProduct& p, const GemmEpilogue& e) {
    const bool tf32 = float32 == Float32Products::kTf32 && p.a.type == DType::kFloat32;
    check_lt(lt.desc_create(&choice.desc.value,
                            tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "cublasLtMatmulDescCreate");
    const auto operation = [](Transpose op) {
      return op == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    set(choice, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.b.op));
    set(choice, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.a.op));
    const bool a_t = p.a.op == Transpose::kYes;
    const bool b_t = p.b.op == Transpose::kYes;
    describe(choice.left, p.b.type, b_t ? p.n : p.k, b_t ? p.k : p.n, p.b.stride);
    describe(choice.right, p.a.type, a_t ? p.k : p.m, a_t ? p.m : p.k, p.a.stride);
    describe(choice.result, p.c.type, p.m, p.n, p.c.stride);
    set(choice, CUBLASLT_MATMUL_DESC_EPILOGUE, lt_epilogue(e.kind));
    if (e.vector != nullptr) {
      set(choice, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(p.c.type));
    }
    if (e.aux != nullptr) set(choice, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, e.aux_stride);
    point(choice, e);
    choose(choice, p, e);
  }

  // The addresses that an epilogue uses, which change from call to call.
  void point(Choice& choice, const GemmEpilogue& e) {
    if (e.vector != nullptr) set(choice, CUBLASLT_MATMUL_DESC_BIAS_POINTER, e.vector);
    if (e.aux != nullptr) set(choice, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, e.aux);
  }

  void choose(Choice& choice, const FixedProduct& p, const GemmEpilogue& e) {
    Owned<cublasLtMatmulPreference_t> preference(lt.preference_destroy);
    check_lt(lt.preference_create(&preference.value), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_lt(lt.preference_set(preference.value, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
    };
    const void* const added = e.addend == nullptr ? p.c.data : e.addend;
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(added));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c.data));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    choice.status =
        lt.heuristic(handle.value, choice.desc.value, choice.left.value, choice.right.value,
                     choice.result.value, choice.result.value, preference.value, 1, &best, &found);
    if (choice.status != CUBLAS_STATUS_SUCCESS) return;
    choice.status = found > 0 ? best.state : CUBLAS_STATUS_NOT_SUPPORTED;
    choice.algorithm = best.algo;
  }

  void run(StreamHandle stream, Choice& choice, const FixedProduct& p, const GemmEpilogue& e) {
    point(choice, e);
    const bool adds = p.accumulate || e.addend != nullptr;
    const float beta = adds ? 1.0F : 0.0F;
    const void* const added = e.addend == nullptr ? p.c.data : e.addend;
    check_lt(lt.matmul(handle.value, choice.desc.value, &p.alpha, p.b.data, choice.left.value,
                       p.a.data, choice.right.value, &beta, added, choice.result.value, p.c.data,
                       choice.result.value, &choice.algorithm, workspace, workspace_bytes, stream),
             "cublasLtMatmul");
  }
};

CudaGemm::CudaGemm(void* workspace, std::size_t workspace_bytes, Float32Products float32) {
  const Library& lt = Library::get();
  if (!lt.reason().empty()) {
    throw Error(ExitCode::kEnvironment, "NQD3061", "cuBLASLt cannot be used: " + lt.reason(),
                "install the CUDA toolkit's libraries, or name their folder in LD_LIBRARY_PATH");
  }
  state_ = std::make_unique<State>(workspace, workspace_bytes, float32);
  check_lt(lt.create(&state_->handle.value), "cublasLtCreate");
}

CudaGemm::~CudaGemm() = default;

bool CudaGemm::takes(const FixedProduct& product) {
  return product.a.type == product.b.type &&
         (product.c.type == product.a.type || product.c.type == DType::kFloat32);
}

void CudaGemm::run(StreamHandle stream, const FixedProduct& product, const GemmEpilogue& epilogue) {
  if (try_run(stream, product, epilogue)) return;
  const std::string shape = std::to_string(product.m) + " x " + std::to_string(product.n) + " x " +
                            std::to_string(product.k);
  check_lt(takes_operands(epilogue) ? state_->choice_of(product, epilogue).status
                                    : CUBLAS_STATUS_NOT_SUPPORTED,
           "cublasLtMatmulAlgoGetHeuristic for " + shape);
}

bool CudaGemm::try_run(StreamHandle stream, const FixedProduct& product,
                       const GemmEpilogue& epilogue) {
  if (product.m == 0 || product.n == 0) return true;
  if (!takes_operands(epilogue)) return false;
  State::Choice& choice = state_->choice_of(product, epilogue);
  if (choice.status != CUBLAS_STATUS_SUCCESS) return false;
  state_->run(stream, choice, product, epilogue);
  return true;
}

std::size_t CudaGemm::cached_choices() const { return state_->choices.size(); }

}  // namespace nqd::engine::cuda

namespace nqd::engine {

CudaProductLibrary cuda_product_library() {
  const cuda::Library& lt = cuda::Library::get();
  if (!lt.reason().empty()) return {"", lt.reason()};
  const std::size_t version = lt.version();
  return {"cuBLASLt " + std::to_string(version / 10000) + "." +
              std::to_string(version / 100 % 100) + "." + std::to_string(version % 100),
          ""};
}

}  // namespace nqd::engine
