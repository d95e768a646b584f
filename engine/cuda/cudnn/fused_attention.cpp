#include "engine/cuda/cudnn/fused_attention.h"

#include <cudnn_frontend.h>

#include <array>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "engine/cuda/cudnn/attention_tensors.h"
#include "engine/cuda/kernels/body.h"
#include "engine/cuda/shared_library.h"

namespace cudnn_frontend {
// The library that the front end looks its functions up in (NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING).
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace nqd::engine::cuda {
namespace {

namespace fe = cudnn_frontend;

// Deterministic gradients may take room for every score: beyond this the own kernels, which take
// none, are the better choice for whoever runs the model.
constexpr std::int64_t kMostWorkspaceBytes = std::int64_t{8} << 30;

// The functions of the library that are called here; the front end finds its own.
struct Library : SharedLibrary {
  static const Library& get() {
    static const Library library;
    return library;
  }

  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;

 private:
  Library() : SharedLibrary({"libcudnn.so." + std::to_string(CUDNN_MAJOR)}) {
    load(version, "cudnnGetVersion");
    load(error_string, "cudnnGetErrorString");
    load(create, "cudnnCreate");
    load(destroy, "cudnnDestroy");
    load(set_stream, "cudnnSetStream");
    if (reason().empty()) fe::cudnn_dlhandle = handle();
  }
};

// "cuDNN 9.12.0" of 91200.
std::string version_text(std::size_t version) {
  return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100);
}

[[noreturn]] void fail(const std::string& call, const std::string& why) {
  throw Error(
      ExitCode::kFault, "NQD4060", call + " failed: " + why,
      "`nqd doctor` says what is missing for CUDA; NQD_WITH_CUDNN=OFF builds without cuDNN");
}

class Handle {
 public:
  explicit Handle(StreamHandle stream) {
    check(library_.create(&handle_), "cudnnCreate");
    check(library_.set_stream(handle_, stream), "cudnnSetStream");
  }
  ~Handle() { static_cast<void>(library_.destroy(handle_)); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cudnnHandle_t get() const { return handle_; }

 private:
  void check(cudnnStatus_t status, const char* call) {
    if (status != CUDNN_STATUS_SUCCESS) fail(call, library_.error_string(status));
  }

  const Library& library_ = Library::get();
  cudnnHandle_t handle_ = nullptr;
};

enum class Pass : bool { kForward, kBackward };

// What tensors are called in a graph.
enum Uid : std::int64_t { kQ = 1, kK, kV, kOut, kLse, kDOut, kDQ, kDK, kDV };

using Graph = fe::graph::Graph;
using Tensor = fe::graph::Tensor_attributes;
using Pointers = std::unordered_map<std::int64_t, void*>;

Tensor& describe(Tensor& tensor, Uid uid, const AttentionTensor& at) {
  return tensor.set_uid(uid)
      .set_dim({at.extents.begin(), at.extents.end()})
      .set_stride({at.strides.begin(), at.strides.end()});
}

std::shared_ptr<Tensor> input(Graph& graph, Uid uid, const AttentionTensor& at) {
  Tensor tensor;
  return graph.tensor(describe(tensor, uid, at));
}

template <typename Attributes>
Attributes attributes_of(const cpu::AttentionLayout& at) {
  Attributes attributes;
  attributes.set_name("attention");
  attributes.set_attn_scale(1.0F / std::sqrt(static_cast<float>(at.head_width)));
  if (at.causal) {
    attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
    attributes.set_diagonal_band_right_bound(0);
  }
  return attributes;
}

void describe_forward(Graph& graph, const cpu::AttentionLayout& layout) {
  const AttentionTensors at = attention_tensors(layout);
  auto attributes = attributes_of<fe::graph::SDPA_attributes>(layout);
  attributes.set_generate_stats(true);
  const auto [out, lse] = graph.sdpa(input(graph, kQ, at.q), input(graph, kK, at.kv),
                                     input(graph, kV, at.kv), attributes);
  describe(*out, kOut, at.out).set_output(true);
  describe(*lse, kLse, at.lse).set_output(true).set_data_type(fe::DataType_t::FLOAT);
}

void describe_backward(Graph& graph, const cpu::AttentionLayout& layout) {
  const AttentionTensors at = attention_tensors(layout);
  auto attributes = attributes_of<fe::graph::SDPA_backward_attributes>(layout);
  attributes.set_deterministic_algorithm(true);
  const auto lse = input(graph, kLse, at.lse);
  lse->set_data_type(fe::DataType_t::FLOAT);
  const auto [dq, dk, dv] =
      graph.sdpa_backward(input(graph, kQ, at.q), input(graph, kK, at.kv), input(graph, kV, at.kv),
                          input(graph, kOut, at.out), input(graph, kDOut, at.out), lse, attributes);
  describe(*dq, kDQ, at.q).set_output(true);
  describe(*dk, kDK, at.kv).set_output(true);
  describe(*dv, kDV, at.kv).set_output(true);
}

// A graph that is ready to run, or why there is none.
struct Plan {
  std::unique_ptr<Graph> graph;
  std::int64_t workspace_bytes = 0;
  std::string reason;
};

Plan make_plan(Pass pass, DType type, const cpu::AttentionLayout& layout, cudnnHandle_t handle) {
  Plan plan;
  auto graph = std::make_unique<Graph>();
  graph
      ->set_io_data_type(type == DType::kBFloat16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  try {
    (pass == Pass::kForward ? describe_forward : describe_backward)(*graph, layout);
    fe::error_t built = graph->build(handle, {fe::HeurMode_t::A});
    if (built.is_bad()) {
      plan.reason = built.get_message();
      return plan;
    }
    plan.workspace_bytes = graph->get_workspace_size();
  } catch (const std::exception& error) {
    // Of the front end: a function or the CUDA runtime that it cannot load.
    plan.reason = error.what();
    return plan;
  }
  if (plan.workspace_bytes > kMostWorkspaceBytes) {
    plan.reason = "it would take " + std::to_string(plan.workspace_bytes) + " bytes of workspace";
    return plan;
  }
  plan.graph = std::move(graph);
  return plan;
}

std::string layout_text(DType type, const cpu::AttentionLayout& at) {
  return std::to_string(at.batch) + " x " + std::to_string(at.sequence) + " tokens, " +
         std::to_string(at.heads) + " heads of " + std::to_string(at.head_width) + ", " +
         std::string(name(type));
}

class CudnnAttention final : public FusedAttention {
 public:
  CudnnAttention(StreamHandle stream, AttentionWorkspace workspace)
      : handle_(stream), workspace_(std::move(workspace)) {}

  bool forward(const AttentionOperands& o) override {
    if (!are_aligned(bytes(o.q), bytes(o.k), bytes(o.v), bytes(o.out))) return false;
    Plan* const plan = plan_of(Pass::kForward, o.type, o.layout);
    if (plan == nullptr) return false;
    Pointers pointers = operands(o);
    run(*plan, pointers);
    return true;
  }

  bool backward(const AttentionOperands& o, const AttentionGradients& d) override {
    if (!are_aligned(bytes(o.q), bytes(o.k), bytes(o.v), bytes(o.out), bytes(d.d_out), bytes(d.dq),
                     bytes(d.dk), bytes(d.dv))) {
      return false;
    }
    Plan* const plan = plan_of(Pass::kBackward, o.type, o.layout);
    if (plan == nullptr) return false;
    Pointers pointers = operands(o);
    pointers.insert({{kDOut, const_cast<void*>(d.d_out)}, {kDQ, d.dq}, {kDK, d.dk}, {kDV, d.dv}});
    run(*plan, pointers);
    return true;
  }

  std::string description() const override {
    const std::string library = version_text(Library::get().version());
    return first_reason_.empty() ? library : library + ", own kernels for " + first_reason_;
  }

 private:
  using Key = std::array<std::int64_t, 11>;

  static const std::byte* bytes(const void* data) { return static_cast<const std::byte*>(data); }

  // The front end takes what it reads and what it writes alike.
  static Pointers operands(const AttentionOperands& o) {
    return {{kQ, const_cast<void*>(o.q)},
            {kK, const_cast<void*>(o.k)},
            {kV, const_cast<void*>(o.v)},
            {kOut, o.out},
            {kLse, o.lse}};
  }

  // Null where the layout is not for the library.
  Plan* plan_of(Pass pass, DType type, const cpu::AttentionLayout& at) {
    if (!suits_fused_attention(type, at)) return nullptr;
    const Key key{pass == Pass::kBackward,
                  static_cast<std::int64_t>(type),
                  at.batch,
                  at.sequence,
                  at.heads,
                  at.kv_heads,
                  at.head_width,
                  at.causal,
                  at.q_stride,
                  at.kv_stride,
                  at.out_stride};
    const auto [found, is_new] = plans_.try_emplace(key);
    if (is_new) {
      found->second = make_plan(pass, type, at, handle_.get());
      if (!found->second.reason.empty()) refuse(layout_text(type, at), found->second.reason);
    }
    return found->second.graph ? &found->second : nullptr;
  }

  void refuse(const std::string& layout, const std::string& reason) {
    log::warn("attention of " + layout + " stays with nqd's own kernels: " + reason);
    if (first_reason_.empty()) first_reason_ = layout + ": " + reason;
  }

  void run(const Plan& plan, Pointers& pointers) {
    void* const room = plan.workspace_bytes > 0 ? workspace_(plan.workspace_bytes) : nullptr;
    fe::error_t done = plan.graph->execute(handle_.get(), pointers, room);
    if (done.is_bad()) fail("cuDNN's attention", done.get_message());
  }

  Handle handle_;
  AttentionWorkspace workspace_;
  std::map<Key, Plan> plans_;
  std::string first_reason_;
};

}  // namespace

FusedAttentionStatus fused_attention_status() {
  const Library& library = Library::get();
  if (!library.reason().empty()) return {true, "", library.reason()};
  return {true, version_text(library.version()), ""};
}

std::unique_ptr<FusedAttention> make_fused_attention(StreamHandle stream,
                                                     AttentionWorkspace workspace) {
  if (!Library::get().reason().empty()) return nullptr;
  return std::make_unique<CudnnAttention>(stream, std::move(workspace));
}

}  // namespace nqd::engine::cuda
