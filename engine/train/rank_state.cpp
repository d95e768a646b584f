#include "engine/train/rank_state.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/types.h"
#include "engine/checkpoint/state.h"
#include "engine/philox.h"
#include "engine/train/make_device.h"
#include "engine/train/update.h"
#include "planner/layout/activation_buffers.h"
#include "planner/layout/state_buffers.h"
#include "planner/layout/state_shape.h"
#include "planner/schedule/schedule.h"

namespace nqd::engine {
namespace {

using collectives::Communicator;

constexpr double kDropout = 0.1;  // where train.dropout is set

// Elements [begin, begin + out.size()) of the tensor's normal stream.
void fill_normal(std::span<float> out, std::uint64_t seed, const std::string& name,
                 std::int64_t begin, double sigma) {
  const std::uint64_t stream = stream_of(name);
  const auto first = static_cast<std::uint64_t>(begin);
  const std::uint64_t last = first + out.size();
  for (std::uint64_t block = first / 4; block * 4 < last; ++block) {
    const std::array<float, 4> values = normal_block(seed, stream, block);
    for (std::uint64_t i = std::max(first, block * 4); i < std::min(last, block * 4 + 4); ++i) {
      out[i - first] = static_cast<float>(sigma) * values[i % 4];
    }
  }
}

std::string stream_name(const planner::Config& config, const std::string& tensor, Mutant mutant) {
  const std::string prefix = "layers.";
  if (mutant != Mutant::kSwappedStages || !tensor.starts_with(prefix)) return tensor;
  std::size_t digits = 0;
  const std::int64_t layer = std::stoll(tensor.substr(prefix.size()), &digits);
  const std::int64_t layers = config.model.layers;
  const std::int64_t of_next_stage = (layer + layers / config.parallel.pp) % layers;
  return prefix + std::to_string(of_next_stage) + tensor.substr(prefix.size() + digits);
}

UnitStore::Fill initial_weights(const planner::Config& config, Mutant mutant) {
  const auto seed = static_cast<std::uint64_t>(config.train.seed);
  constexpr double kSigma = 0.02;
  const double residual = kSigma / std::sqrt(2.0 * static_cast<double>(config.model.layers));
  return [=, &config](const planner::TensorSpec& tensor, std::int64_t begin, std::span<float> out) {
    if (tensor.shape.size() == 1) {
      std::fill(out.begin(), out.end(), tensor.name.ends_with(".weight") ? 1.0F : 0.0F);
    } else {
      const bool back = tensor.name.ends_with(".proj.weight");
      fill_normal(out, seed, stream_name(config, tensor.name, mutant), begin,
                  back ? residual : kSigma);
    }
  };
}

planner::ScheduleSpec schedule_of(const planner::Config& config) {
  const planner::ParallelSpec& mesh = config.parallel;
  return {mesh.schedule, mesh.pp, config.micro_batches(), mesh.vpp};
}

TensorParallel tensor_parallel(const planner::Config& config, const MeshGroups& groups,
                               Mutant mutant) {
  TensorParallel tp;
  tp.group = groups.tp.get();
  tp.rank = static_cast<int>(groups.place.tp);
  tp.size = static_cast<int>(config.parallel.tp);
  tp.sequence_parallel = config.parallel.sequence_parallel;
  tp.direct = groups.reach.tp;
  if (mutant == Mutant::kMissingTensorSum) tp.missing_sum_for_test = 7;
  tp.missing_norm_sum_for_test = mutant == Mutant::kMissingNormSum;
  return tp;
}

StoreFault store_fault(Mutant mutant) {
  switch (mutant) {
    case Mutant::kMissingSum:
      return StoreFault::kSkippedSum;
    case Mutant::kMissingReplicaSum:
      return StoreFault::kSkippedReplicaSum;
    case Mutant::kMissingTiedSum:
      return StoreFault::kSkippedTiedSum;
    case Mutant::kStaleGather:
      return StoreFault::kStaleGather;
    default:
      return StoreFault::kNone;
  }
}

std::uint64_t shared_bytes_of(const planner::Config& config, const planner::RankPlace& place) {
  std::int64_t bytes = 0;
  for (const auto& buffer : planner::state_buffers(config, place.pp, place.dp, place.tp)) {
    if (buffer.shared) bytes += buffer.bytes * buffer.count;
  }
  for (const auto& buffer : planner::activation_buffers(config, place.pp)) {
    if (buffer.shared) bytes += buffer.bytes;
  }
  return static_cast<std::uint64_t>(bytes);
}

std::string why_not_repeated(const planner::Config& config, const Device& device) {
  if (!device.can_repeat()) return "the device repeats nothing";
  if (config.parallel.ranks() > 1) return "messages between ranks are started by the host";
  return "";
}

}  // namespace

StoreGroups RankState::store_groups(const MeshGroups& groups) const {
  const bool hybrid = config_.parallel.engine == planner::Engine::kHsdp;
  return {(hybrid ? groups.dp_shard : groups.dp).get(),
          groups.dp_replicate.get(),
          groups.embedding.get(),
          groups.reach.dp,
          groups.reach.replicas,
          groups.reach.embedding};
}

std::vector<TransformerChunk> RankState::make_chunks(const MeshGroups& groups) {
  TransformerOptions options;
  options.dropout = config_.train.dropout ? kDropout : 0;
  std::vector<TransformerChunk> chunks;
  const planner::ScheduleSpec schedule = schedule_of(config_);
  for (std::int64_t chunk = 0; chunk < planner::chunk_count(schedule); ++chunk) {
    if (planner::stage_of_chunk(schedule, chunk) != groups.place.pp) continue;
    chunks.emplace_back(config_, options, chunk, tensor_parallel(config_, groups, mutant_), arena_,
                        *device_);
  }
  return chunks;
}

RankState::RankState(const planner::Config& config, MeshGroups& groups, MemoryLedger& ledger,
                     Mutant mutant, const UnitStore::Fill& fill, const CheckpointReader* saved,
                     std::unique_ptr<Device> device)
    : config_(config),
      place_(groups.place),
      mutant_(mutant),
      shared_bytes_(shared_bytes_of(config, groups.place)),
      device_(device ? std::move(device) : make_cpu_device(config)),
      arena_(planner::activation_buffers(config, groups.place.pp), &ledger, *device_),
      store_(planner::state_shape(config),
             planner::stage_units(config, groups.place.pp, groups.place.tp), store_groups(groups),
             groups.place.tp, &ledger, *device_),
      batch_(config.train.micro_batch_size, planner::sample_shape(config.model), ledger),
      runner_(std::make_unique<StageRunner>(schedule_of(config), groups.place.pp,
                                            make_chunks(groups), store_, groups.pp.get())),
      why_plain_(why_not_repeated(config, *device_)) {
  if (why_plain_.empty()) {
    runner_->repeat_passes(config.train.dropout ? PassRepeats::kOwn : PassRepeats::kShared);
  }
  store_.seed_fault_for_test(store_fault(mutant));
  if (mutant == Mutant::kLateInput) runner_->delay_inputs_for_test();
  if (saved != nullptr) {
    restore(store_, *saved);
    if (mutant == Mutant::kLostMoments && is_last_of_several()) forget_moments();
  } else {
    store_.initialize(fill ? fill : initial_weights(config, mutant));
  }
}

std::uint64_t RankState::packing_bytes() const {
  const auto threads = static_cast<int>(config_.train.threads);
  return static_cast<std::uint64_t>(FixedGemm::scratch_bytes(threads));
}

void RankState::run_plainly(std::string why) {
  why_plain_ = std::move(why);
  runner_->repeat_passes(PassRepeats::kNone);
}

void RankState::forget_moments() {
  store_.for_each_shard([&](const ShardRun& run) {
    for (const std::span<float> moment : run.moments) {
      device_->zero(moment.data(), static_cast<std::int64_t>(moment.size()));
    }
  });
}

bool RankState::is_last_of_several() const {
  return place_.rank > 0 && place_.rank + 1 == config_.parallel.ranks();
}

void RankState::update(std::int64_t step, double lr, double gradient_scale) {
  const bool stale = mutant_ == Mutant::kStaleShard && is_last_of_several();
  update_weights(store_, config_.train.optimizer, step, lr, gradient_scale, stale);
}

void RankState::train_step(const TrainingData& data, std::int64_t step, std::int64_t batch,
                           float loss_scale) {
  const planner::StateShape& shape = store_.shape();
  const std::int64_t sequences = config_.train.micro_batch_size;
  const std::int64_t first_of_batch = (batch - 1) * config_.train.global_batch_size;
  store_.begin_step();
  const auto load = [&](std::int64_t micro_batch) {
    const std::int64_t leaf =
        planner::leaf_index(shape.gradient_shards(), shape.micro_batches, place_.dp, micro_batch);
    batch_.load_training(*data.train, data.sampler,
                         static_cast<std::uint64_t>(first_of_batch + leaf * sequences));
    if (mutant_ == Mutant::kLostMicroBatch && is_last_of_several() &&
        micro_batch + 1 == shape.micro_batches) {
      masked_.assign(batch_.targets().size(), kMaskedTarget);
      return Batch{batch_.inputs(), masked_, leaf * sequences};
    }
    return Batch{batch_.inputs(), batch_.targets(), leaf * sequences};
  };
  // By reference: what it captures does not fit into a std::function without an allocation.
  runner_->train(step, loss_scale, std::ref(load));
}

LossSum RankState::evaluate(const TrainingData& data) {
  const std::int64_t rows = config_.train.micro_batch_size;
  const HeldoutSamples samples{
      std::min<std::uint64_t>(data.heldout->samples(),
                              static_cast<std::uint64_t>(config_.train.eval_batches * rows)),
      data.heldout->samples()};
  const auto wanted = static_cast<std::size_t>(samples.wanted);
  const auto ranks = static_cast<std::size_t>(config_.parallel.dp);
  const collectives::Chunk mine =
      collectives::chunk_of(wanted, ranks, static_cast<std::size_t>(place_.dp));
  const auto most = static_cast<std::int64_t>((wanted + ranks - 1) / ranks);
  return runner_->evaluate((most + rows - 1) / rows, [&](std::int64_t micro_batch) {
    const auto done = std::min(static_cast<std::size_t>(micro_batch * rows), mine.count);
    const auto count = std::min<std::int64_t>(rows, static_cast<std::int64_t>(mine.count - done));
    batch_.load_heldout(*data.heldout, samples, mine.begin + done, count);
    return Batch{batch_.inputs(), batch_.targets(), 0};
  });
}

}  // namespace nqd::engine
