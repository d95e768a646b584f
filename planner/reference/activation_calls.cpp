#include <algorithm>
#include <span>
#include <utility>

#include "planner/layout/activation_buffers.h"
#include "planner/layout/state_shape.h"
#include "planner/mesh/rank_map.h"
#include "planner/models/dimensions.h"
#include "planner/plan/pipeline.h"
#include "planner/reference/traffic.h"

namespace nqd::planner {
namespace {

using collectives::Collective;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class ActivationCalls {
 public:
  ActivationCalls(const Config& config, const ReferenceStage& stage, std::int64_t rank,
                  CallTally& calls)
      : config_(config),
        stage_(stage),
        place_(RankMap(config).place(rank)),
        calls_(calls),
        tp_(rank_group(config, tp_group(config.parallel), place_.tp)),
        type_(state_shape(config).weights),
        m_(config.micro_batches()),
        rows_(config.train.micro_batch_size * config.model.sequence),
        stream_(rows_ * config.model.hidden) {}

  void add() {
    const std::span<const LocalUnit> units(stage_.units);
    for (const ReferenceStage::Chunk& chunk : stage_.chunks) {
      if (tp_.group.size > 1) {
        add_tensor_parallel(units.subspan(chunk.begin, chunk.end - chunk.begin));
      }
      add_messages(chunk.chunk);
    }
    calls_.expose_all("tp", true);
    calls_.expose_all("pp", true);
  }

 private:
  bool sequence_parallel() const { return config_.parallel.sequence_parallel; }

  // `times` a micro-batch: the sum over the group of a product split along its inner side.
  void sum(std::int64_t times, DType type = DType::kFloat32) {
    calls_.add(tp_, sequence_parallel() ? Collective::kReduceScatter : Collective::kAllReduce,
               stream_, type, m_ * times);
  }
  // Sequence parallelism alone: all rows of the stream where a rank has its part.
  void gather(std::int64_t times) {
    if (sequence_parallel()) calls_.add(tp_, Collective::kAllGather, stream_, type_, m_ * times);
  }
  void add_up(std::int64_t elements) {
    calls_.add(tp_, Collective::kAllReduce, elements, DType::kFloat32, m_);
  }

  void add_tensor_parallel(std::span<const LocalUnit> units) {
    std::int64_t layers = 0;
    for (const LocalUnit& unit : units) {
      switch (unit.role) {
        case UnitRole::kTokenEmbedding:
          sum(1, type_);
          gather(1);
          break;
        case UnitRole::kInputProjection:
          gather(1);
          break;
        case UnitRole::kPositionEmbedding:
          break;
        case UnitRole::kLayer:
          ++layers;
          sum(4);
          gather(6);
          break;
        case UnitRole::kHead:
          add_head();
          break;
        case UnitRole::kTied:
          break;
      }
      if (sequence_parallel()) add_up(replicated_elements(unit));
    }
    if (config_.train.recompute != Recompute::kFull) return;
    sum(2 * layers - ceil_div(layers, config_.train.recompute_every));
    gather(2 * layers);
  }

  void add_head() {
    gather(1);
    // Every rank has all the classes of an encoder.
    if (dimensions_of(config_.model).classifies()) return;
    add_up(rows_);
    add_up(2 * rows_);
    sum(1);
  }

  static std::int64_t replicated_elements(const LocalUnit& unit) {
    std::int64_t elements = 0;
    for (const LocalTensor& tensor : unit.tensors) {
      if (sums_over_rows(tensor.full)) elements += tensor.elements();
    }
    return elements;
  }

  void add_messages(std::int64_t chunk) {
    const RankGroup group = rank_group(config_, pp_group(config_.parallel), place_.pp);
    const ScheduleSpec spec = schedule_spec(config_);
    const auto bytes = static_cast<std::uint64_t>(residual_rows(config_) * config_.model.hidden) *
                       size_bytes(type_);
    for (const std::int64_t next : {chunk + 1, chunk - 1}) {
      if (next < 0 || next >= chunk_count(spec)) continue;
      if (stage_of_chunk(spec, next) != place_.pp) calls_.add_sends(group, bytes, m_);
    }
  }

  const Config& config_;
  const ReferenceStage& stage_;
  const RankPlace place_;
  CallTally& calls_;
  const RankGroup tp_;
  const DType type_;
  const std::int64_t m_;
  const std::int64_t rows_;
  const std::int64_t stream_;  // elements of the residual stream of a micro-batch
};

}  // namespace

void add_activation_calls(const Config& config, const ReferenceStage& stage, std::int64_t rank,
                          CallTally& calls) {
  ActivationCalls(config, stage, rank, calls).add();
}

std::vector<ReferenceStage> reference_stages(const Config& config) {
  std::vector<ReferenceStage> stages(static_cast<std::size_t>(config.parallel.pp));
  const std::vector<ChunkLayers> chunks = chunk_layers(config);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    ReferenceStage& stage = stages[static_cast<std::size_t>(chunks[i].stage)];
    const auto chunk = static_cast<std::int64_t>(i);
    const std::size_t begin = stage.units.size();
    for (LocalUnit& unit : chunk_units(config, chunk, 0)) stage.units.push_back(std::move(unit));
    stage.chunks.push_back({chunk, begin, stage.units.size()});
  }
  return stages;
}

CallTally engine_calls(const Config& config, const ReferenceStage& stage,
                       const MicroBatchTime& compute, std::int64_t rank) {
  CallTally calls(config);
  add_state_calls(config, stage, compute, rank, calls);
  add_activation_calls(config, stage, rank, calls);
  return calls;
}

}  // namespace nqd::planner
