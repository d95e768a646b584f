#include "engine/bench/engine_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/host.h"
#include "engine/bench/kernel_runner.h"
#include "engine/device/cpu_device.h"
#include "engine/train/rank_state.h"
#include "planner/layout/activation_buffers.h"
#include "planner/models/dimensions.h"
#include "planner/plan/pipeline.h"
#include "planner/reference/traffic.h"
#include "planner/reference/work.h"

namespace nqd::engine {
namespace {

using collectives::Communicator;
using collectives::KernelRow;
using planner::Kernel;
using planner::KernelCall;
using Clock = std::chrono::steady_clock;

// Operands rotate through this much: more than a private cache holds, as the layers of a model do;
// a GPU's is shared by all that it runs.
constexpr std::int64_t kRotateBytes = std::int64_t{32} << 20;
constexpr std::int64_t kRotateBytesOfGpu = std::int64_t{256} << 20;

// Calls of a sample where the device works beside the host: so many hide what it costs to ask for
// one, as in a step, which is asked for ahead.
constexpr int kCallsAhead = 16;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::int64_t place_on_host(const Communicator& world) {
  std::int64_t before = 0;
  for (int rank = 0; rank < world.rank(); ++rank) {
    if (world.host(rank) == world.host(world.rank())) ++before;
  }
  return before;
}

void merge(std::vector<KernelCall>& all, const KernelCall& call) {
  const auto same = std::find_if(all.begin(), all.end(), [&](const KernelCall& known) {
    return known.kernel == call.kernel && known.m == call.m && known.n == call.n &&
           known.k == call.k;
  });
  if (same == all.end()) {
    all.push_back(call);
  } else {
    same->calls += call.calls;
  }
}

// Of a step of a config on one rank; and with 0 calls what other meshes and options add to it.
std::vector<KernelCall> calls_of(const planner::Config& solo) {
  std::vector<KernelCall> all;
  for (const planner::ReferenceStage& stage : planner::reference_stages(solo)) {
    const planner::UnitWork work = planner::chunk_work(solo, stage.units);
    for (const auto* calls : {&work.forward, &work.backward_input, &work.backward_weight}) {
      for (const KernelCall& call : *calls) merge(all, call);
    }
    for (const KernelCall& call : planner::update_work(solo, stage.units)) merge(all, call);
  }
  const std::int64_t rows = solo.train.micro_batch_size * solo.model.sequence;
  const planner::Dimensions d = planner::dimensions_of(solo.model);
  const std::int64_t largest = d.hidden * d.ffn;
  for (const Kernel kernel : {Kernel::kNarrow, Kernel::kDropout, Kernel::kCopy}) {
    merge(all, {kernel, rows, d.hidden, 0, 0});
  }
  for (const Kernel kernel : {Kernel::kAdd, Kernel::kFill, Kernel::kAdamw, Kernel::kSgd}) {
    merge(all, {kernel, 1, largest, 0, 0});
  }
  merge(all, {Kernel::kWeightProduct, d.hidden, d.ffn, rows, 0});
  merge(all, {Kernel::kFreshProduct, d.hidden, d.ffn, rows, 0});
  for (const std::int64_t width : {d.queries, d.ffn}) {
    merge(all, {Kernel::kForwardProduct, rows, d.hidden, width, 0});
    merge(all, {Kernel::kSlicedProduct, rows, d.hidden, width, 0});
  }
  return all;
}

// A micro-batch's targets, of all values.
std::vector<std::int32_t> targets_of(const planner::Config& config) {
  const std::int64_t count =
      config.train.micro_batch_size * planner::sample_shape(config.model).targets;
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 1; i <= count; ++i) {
    const std::int64_t values = planner::dimensions_of(config.model).outputs;
    targets.push_back(static_cast<std::int32_t>(i * 7919 % values));
  }
  return targets;
}

// Its tokens, or an encoder's features: small numbers.
std::vector<std::byte> inputs_of(const planner::Config& config) {
  const std::int64_t count =
      config.train.micro_batch_size * planner::sample_shape(config.model).inputs;
  const bool features = planner::dimensions_of(config.model).classifies();
  std::vector<std::byte> inputs(static_cast<std::size_t>(4 * count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* const to = inputs.data() + 4 * i;
    if (features) {
      const float value = static_cast<float>(i % 7) - 3;
      std::memcpy(to, &value, sizeof value);
    } else {
      const auto token = static_cast<std::int32_t>(i * 7919 % config.model.vocab);
      std::memcpy(to, &token, sizeof token);
    }
  }
  return inputs;
}

class EngineBench {
 public:
  EngineBench(Communicator& world, const planner::Config& config, const EngineBenchOptions& options)
      : world_(world),
        options_(options),
        solo_(solo_config(config)),
        other_(other_config(solo_)),
        ranks_(static_cast<int>(collectives::ranks_on_this_host(world))) {}

  std::vector<KernelRow> run() {
    add_rows(solo_, true);
    const std::size_t of_config = rows_.size();
    add_rows(other_, false);
    rows_.push_back(row_of("step"));
    samples_.resize(rows_.size());
    for (int round = 0; round < options_.rounds; ++round) {
      const std::unique_ptr<Device> device = make_device();
      time_kernels(solo_, *device, 0, of_config);
      time_kernels(other_, *device, of_config, rows_.size() - 1);
      time_steps();
    }
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      take_slowest(samples_[i], rows_[i]);
      if (options_.on_row && world_.rank() == 0) options_.on_row(rows_[i]);
    }
    return std::move(rows_);
  }

 private:
  std::unique_ptr<Device> make_device() const {
    if (options_.make_device) return options_.make_device(place_on_host(world_));
    return std::make_unique<CpuDevice>(static_cast<int>(solo_.train.threads));
  }

  KernelRow row_of(std::string kernel) const {
    KernelRow row;
    row.kernel = std::move(kernel);
    row.numerics = name(solo_.numerics.mode);
    row.precision = name(solo_.train.precision);
    row.threads = static_cast<int>(solo_.train.threads);
    row.ranks = ranks_;
    return row;
  }

  void add_rows(const planner::Config& config, bool counts) {
    for (const KernelCall& call : calls_of(config)) {
      KernelRow row = row_of(std::string(planner::name(call.kernel)));
      row.m = call.m;
      row.n = call.n;
      row.k = call.k;
      const planner::KernelCost cost = planner::cost_of(call, config.model.causal);
      row.items = cost.items;
      row.units = cost.units;
      row.calls = counts ? call.calls : 0;
      rows_.push_back(std::move(row));
      calls_.push_back(call);
    }
  }

  void time_kernels(const planner::Config& config, Device& device, std::size_t begin,
                    std::size_t end) {
    KernelRunner runner(config, device);
    const bool ahead = !device.is_host();
    for (std::size_t i = begin; i < end; ++i) {
      const auto kernel = runner.prepare(calls_[i], ahead ? kRotateBytesOfGpu : kRotateBytes);
      time(samples_[i], device, ahead ? kCallsAhead : 1, [&] { kernel->run(); });
    }
  }

  // A rank's whole step: forward, backward, norm and update of one micro-batch.
  void time_steps() {
    MemoryLedger ledger;
    MeshGroups alone;
    RankState state(solo_, alone, ledger, Mutant::kNone, {}, nullptr, make_device());
    const std::vector<std::int32_t> targets = targets_of(solo_);
    const std::vector<std::byte> inputs = inputs_of(solo_);
    std::int64_t step = 0;
    time(samples_.back(), state.store().device(), 1, [&] {
      UnitStore& store = state.store();
      store.begin_step();
      state.runner().train(++step, 1.0F, [&](std::int64_t) { return Batch{inputs, targets, 0}; });
      store.finish_step();
      const double norm = std::sqrt(store.squared_gradients().value());
      state.update(step, 1e-4, 1 / (norm * static_cast<double>(targets.size())));
    });
  }

  // A sample is of `calls` calls.
  template <typename Work>
  void time(std::vector<double>& samples, Device& device, int calls, const Work& work) {
    work();
    device.synchronize();
    world_.barrier();
    for (int i = 0; i < options_.iterations; ++i) {
      const Clock::time_point start = Clock::now();
      for (int call = 0; call < calls; ++call) work();
      device.synchronize();
      samples.push_back(seconds_since(start) / calls);
    }
  }

  // Collective.
  void take_slowest(std::vector<double>& samples, KernelRow& row) {
    std::vector<double> all(samples.size() * static_cast<std::size_t>(world_.size()));
    world_.all_gather(std::as_bytes(std::span(samples)), std::as_writable_bytes(std::span(all)),
                      DType::kFloat64);
    for (auto rank = all.begin(); rank != all.end();
         rank += static_cast<std::ptrdiff_t>(samples.size())) {
      std::vector<double> of_rank(rank, rank + static_cast<std::ptrdiff_t>(samples.size()));
      const double p50_s = collectives::percentile(of_rank, 0.5);
      if (p50_s <= row.p50_s) continue;
      row.p50_s = p50_s;
      row.samples_s = std::move(of_rank);
    }
  }

  Communicator& world_;
  const EngineBenchOptions& options_;
  const planner::Config solo_;
  const planner::Config other_;
  const int ranks_;
  std::vector<KernelRow> rows_;
  std::vector<KernelCall> calls_;             // of the rows but the last
  std::vector<std::vector<double>> samples_;  // of this rank, by row
};

}  // namespace

planner::Config solo_config(const planner::Config& config) {
  planner::Config solo = config;
  planner::ParallelSpec& mesh = solo.parallel;
  mesh.engine = planner::Engine::kDdp;
  mesh.dp = mesh.tp = mesh.pp = mesh.vpp = 1;
  mesh.hsdp_shard = 0;
  mesh.schedule = planner::Schedule::k1F1B;
  mesh.sequence_parallel = false;
  mesh.pipeline_split.clear();
  solo.train.global_batch_size = solo.train.micro_batch_size;
  solo.train.recompute = planner::Recompute::kNone;
  solo.train.dropout = false;
  return solo;
}

planner::Config other_config(const planner::Config& solo) {
  planner::Config other = solo;
  planner::ModelSpec& model = other.model;
  const planner::Dimensions d = planner::dimensions_of(model);
  const bool layer_norm = model.norm == planner::Norm::kLayerNorm;
  model.norm = layer_norm ? planner::Norm::kRmsNorm : planner::Norm::kLayerNorm;
  model.positions = model.positions == planner::Positions::kRotary ? planner::Positions::kLearned
                                                                   : planner::Positions::kRotary;
  model.gated_mlp = !model.gated_mlp;
  model.bias = model.qkv_bias = !model.bias;
  model.layers = 1;
  // Half as wide, in heads of an even width.
  const std::int64_t width = std::max<std::int64_t>(d.qk_dim / 4 * 2, 2);
  model.heads = d.heads;
  model.kv_heads = d.heads % 2 == 0 && d.kv_heads == d.heads ? d.heads / 2 : d.heads;
  model.head_dim = width;
  model.hidden = d.heads * width;
  model.ffn_hidden = std::max<std::int64_t>(d.ffn / 2 / 8 * 8, 8);
  return other;
}

std::vector<KernelRow> run_engine_bench(Communicator& world, const planner::Config& config,
                                        const EngineBenchOptions& options) {
  return EngineBench(world, config, options).run();
}

}  // namespace nqd::engine
