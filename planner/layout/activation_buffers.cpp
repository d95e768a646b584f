#include "planner/layout/activation_buffers.h"

#include <algorithm>
#include <bit>

#include "planner/layout/layout.h"
#include "planner/layout/rank_units.h"
#include "planner/mesh/stages.h"
#include "planner/models/dimensions.h"
#include "planner/plan/pipeline.h"

namespace nqd::planner {
namespace {

constexpr std::int64_t kFloatBytes = 4;

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// What a buffer of a layer is read by after backward_input.
enum class ReadBy : std::uint8_t { kBackwardInput, kBackwardWeight };

struct LayerTensor {
  std::string name;
  std::int64_t bytes = 0;
  bool shared = false;
  ReadBy last_read = ReadBy::kBackwardInput;
};

class BufferList {
 public:
  BufferList(const Config& config, std::int64_t stage)
      : config_(config),
        stage_(stage),
        model_(config.model),
        d_(dimensions_of(config.model)),
        tp_(config.parallel.tp),
        sp_(config.parallel.sequence_parallel && tp_ > 1),
        storage_(weight_bytes(config.train)),
        samples_(config.train.micro_batch_size),
        rows_(samples_ * config.model.sequence),
        target_rows_(samples_ * sample_shape(config.model).targets),
        residual_rows_(residual_rows(config)),
        group_(recompute_group(config.train)),
        chunks_(chunk_layers(config)) {}

  std::vector<ActivationBuffer> list() {
    bool split = false;
    bool last = false;
    std::int64_t most_layers = 0;
    for (const ChunkFlight& flight : chunk_flights(config_, stage_)) {
      add_chunk(flight);
      split = split || flight.stashes > 0;
      last = last || is_last(flight.chunk);
      most_layers = std::max(most_layers, layers_of(flight.chunk).count);
    }
    add_recompute_sets(most_layers);
    if (!split) add_stash("shared.stash.", last);
    add_workspace(last);
    return std::move(out_);
  }

 private:
  const ChunkLayers& layers_of(std::int64_t chunk) const {
    return chunks_[static_cast<std::size_t>(chunk)];
  }
  bool is_last(std::int64_t chunk) const {
    return chunk + 1 == static_cast<std::int64_t>(chunks_.size());
  }
  std::int64_t residual_bytes() const { return residual_rows_ * d_.hidden * storage_; }
  std::int64_t qkv_width() const { return (d_.queries + d_.keys + d_.values) / tp_; }
  std::int64_t context_width() const { return d_.context / tp_; }
  std::int64_t ffn_width() const { return d_.ffn / tp_; }

  void add(const std::string& name, MemoryTag tag, std::int64_t bytes, bool shared = false) {
    out_.push_back({name, tag, bytes, shared && tp_ > 1});
  }
  void add_tensors(const std::string& prefix, const std::vector<LayerTensor>& tensors) {
    for (const LayerTensor& t : tensors) {
      add(prefix + t.name, MemoryTag::kActivations, t.bytes, t.shared);
    }
  }

  void append_norm(std::vector<LayerTensor>& out, const std::string& name,
                   std::int64_t output_rows) const {
    out.push_back({name, output_rows * d_.hidden * storage_, sp_, ReadBy::kBackwardWeight});
    if (model_.norm == Norm::kLayerNorm) {
      out.push_back({name + ".mean", residual_rows_ * kFloatBytes});
    }
    out.push_back({name + ".rstd", residual_rows_ * kFloatBytes});
  }

  std::vector<LayerTensor> layer_tensors() const {
    const std::int64_t lse = config_.train.micro_batch_size * d_.heads / tp_ * model_.sequence;
    std::vector<LayerTensor> out;
    out.push_back({"input", residual_bytes()});
    append_norm(out, "norm1", residual_rows_);
    out.push_back({"qkv", rows_ * qkv_width() * storage_});
    out.push_back(
        {"attention", rows_ * context_width() * storage_, false, ReadBy::kBackwardWeight});
    out.push_back({"lse", lse * kFloatBytes});
    out.push_back({"attention_residual", residual_bytes()});
    append_norm(out, "norm2", residual_rows_);
    out.push_back({"fc", rows_ * d_.gates * ffn_width() * storage_});
    out.push_back({"activated", rows_ * ffn_width() * storage_, false, ReadBy::kBackwardWeight});
    return out;
  }

  // Whether the slot keeps a tensor of the layer at `place` in its group.
  bool is_kept(const LayerTensor& tensor, std::int64_t place) const {
    switch (config_.train.recompute) {
      case Recompute::kNone:
        return true;
      case Recompute::kSelective:
        return tensor.name != "attention" && tensor.name != "lse";
      case Recompute::kFull:
        return tensor.name == "input" && place == 0;
    }
    return true;
  }

  // Tensors of a layer that are (not) kept, in order.
  std::vector<LayerTensor> chosen_tensors(std::int64_t place, bool kept) const {
    std::vector<LayerTensor> out;
    for (LayerTensor& tensor : layer_tensors()) {
      if (is_kept(tensor, place) == kept) out.push_back(std::move(tensor));
    }
    return out;
  }

  std::int64_t place_in_group(std::int64_t index) const { return group_ > 0 ? index % group_ : 0; }

  void add_chunk(const ChunkFlight& flight) {
    const std::string chunk = "chunk" + std::to_string(flight.chunk) + ".";
    for (std::int64_t i = 0; i < flight.slots; ++i) {
      add_slot(chunk + "slot" + std::to_string(i) + ".", flight.chunk);
    }
    for (std::int64_t i = 0; i < flight.gradients; ++i) {
      // The gathers of sequence parallelism read it.
      add(chunk + "gradient" + std::to_string(i), MemoryTag::kActivationGradients, residual_bytes(),
          sp_);
    }
    for (std::int64_t i = 0; i < flight.stashes; ++i) {
      add_chunk_stash(chunk + "stash" + std::to_string(i) + ".", flight.chunk);
    }
  }

  void add_slot(const std::string& slot, std::int64_t chunk) {
    const bool last = is_last(chunk);
    if (chunk == 0) {
      add(slot + (d_.classifies() ? "features" : "tokens"), MemoryTag::kData,
          samples_ * sample_shape(model_).inputs * kFloatBytes);
    }
    if (last) add(slot + "targets", MemoryTag::kData, target_rows_ * kFloatBytes);
    const ChunkLayers& own = layers_of(chunk);
    for (std::int64_t i = 0; i < own.count; ++i) {
      add_tensors(slot + "layers." + std::to_string(own.first + i) + ".",
                  chosen_tensors(place_in_group(i), true));
    }
    if (!last) return add(slot + "output", MemoryTag::kActivations, residual_bytes());
    std::vector<LayerTensor> head;
    head.push_back({"head.input", residual_bytes()});
    append_norm(head, "head.norm", rows_);
    if (d_.classifies()) head.push_back({"head.pooled", samples_ * d_.hidden * storage_});
    add_tensors(slot, head);
    const bool in_messages = !d_.classifies();
    add(slot + "head.logits", MemoryTag::kLogits,
        target_rows_ * vocabulary_rows(config_) * kFloatBytes);
    add(slot + "head.maximum", MemoryTag::kLogits, target_rows_ * kFloatBytes, in_messages);
    add(slot + "head.sums", MemoryTag::kLogits, 2 * target_rows_ * kFloatBytes, in_messages);
  }

  void add_stash(const std::string& prefix, bool last) {
    const auto add_gradient = [&](const std::string& name, std::int64_t width, bool shared) {
      add(prefix + name, MemoryTag::kActivationGradients, rows_ * width * storage_, shared);
    };
    add_gradient("d_mlp", d_.hidden, sp_);
    add_gradient("d_fc", d_.gates * ffn_width(), false);
    add_gradient("d_attention", d_.hidden, sp_);
    add_gradient("d_qkv", qkv_width(), false);
    const std::int64_t layer = replicated_elements(UnitKind::kDense);
    const std::int64_t most = last ? std::max(layer, replicated_elements(UnitKind::kHead)) : layer;
    add(prefix + "replicated", MemoryTag::kActivationGradients, most * kFloatBytes, sp_);
  }

  void add_chunk_stash(const std::string& stash, std::int64_t chunk) {
    const ChunkLayers& own = layers_of(chunk);
    if (chunk == 0)
      add(stash + "embedding", MemoryTag::kActivationGradients, residual_bytes(), sp_);
    for (std::int64_t i = 0; i < own.count; ++i) {
      const std::string layer = stash + "layers." + std::to_string(own.first + i) + ".";
      add_stash(layer, false);
      for (const LayerTensor& tensor : chosen_tensors(place_in_group(i), false)) {
        if (tensor.last_read == ReadBy::kBackwardWeight) add_tensors(layer, {tensor});
      }
    }
    if (!is_last(chunk)) return;
    add(stash + "head.replicated", MemoryTag::kActivationGradients,
        replicated_elements(UnitKind::kHead) * kFloatBytes, sp_);
  }

  // Of what a rank adds up in one message with sequence parallelism.
  std::int64_t replicated_elements(UnitKind kind) const {
    std::int64_t elements = 0;
    for (const TensorSpec& tensor : unit_tensors(model_, kind)) {
      if (sums_over_rows(tensor)) elements += tensor.elements();
    }
    return elements;
  }

  void add_recompute_sets(std::int64_t layers) {
    if (config_.train.recompute == Recompute::kNone) return;
    const std::int64_t sets = std::min(std::max<std::int64_t>(group_, 1), layers);
    for (std::int64_t i = 0; i < sets; ++i) {
      add_tensors("shared.recompute" + std::to_string(i) + ".", chosen_tensors(i, false));
    }
  }

  void add_workspace(bool last) {
    const auto add_shared = [&](const std::string& name, std::int64_t bytes, bool in_messages) {
      add("shared." + name, MemoryTag::kWorkspace, bytes, in_messages);
    };
    add_shared("partial", rows_ * d_.hidden * kFloatBytes, true);
    if (sp_) {
      add_shared("scattered", residual_rows_ * d_.hidden * kFloatBytes, true);
      add_shared("gathered", rows_ * d_.hidden * storage_, true);
    }
    const std::int64_t inner = std::max(d_.gates > 1 ? ffn_width() : 0, context_width());
    add_shared("d_inner", rows_ * inner * storage_, false);
    if (storage_ != kFloatBytes) add_shared("d_norm", residual_bytes(), false);
    add_shared("attention",
               config_.train.threads * kFloatBytes *
                   attention_scratch_elements(model_.sequence, d_.qk_dim),
               false);
    if (model_.positions == Positions::kRotary) {
      add_shared("rotary", model_.sequence * d_.qk_dim * kFloatBytes, false);
    }
    add_shared("slices", product_scratch_elements(config_) * kFloatBytes, false);
    if (sp_ && stage_ == chunks_.front().stage && model_.positions == Positions::kLearned) {
      add_shared("positions", d_.tokens * d_.hidden * kFloatBytes, true);
    }
    if (last && d_.classifies()) add_shared("d_pooled", samples_ * d_.hidden * kFloatBytes, false);
    if (last) add_shared("row_losses", target_rows_ * 8, false);
  }

  const Config& config_;
  std::int64_t stage_;
  const ModelSpec& model_;
  Dimensions d_;
  std::int64_t tp_;
  bool sp_;
  std::int64_t storage_;
  std::int64_t samples_;
  std::int64_t rows_;
  std::int64_t target_rows_;
  std::int64_t residual_rows_;
  std::int64_t group_;
  std::vector<ChunkLayers> chunks_;
  std::vector<ActivationBuffer> out_;
};

}  // namespace

std::vector<ChunkFlight> chunk_flights(const PipelineSchedule& schedule, std::int64_t stage) {
  struct Count {
    std::int64_t slots = 0, stashes = 0;
  };
  const ScheduleSpec& spec = schedule.spec;
  std::vector<Count> now(static_cast<std::size_t>(chunk_count(spec)));
  std::vector<ChunkFlight> flights;
  for (std::int64_t chunk = 0; chunk < chunk_count(spec); ++chunk) {
    if (stage_of_chunk(spec, chunk) != stage) continue;
    flights.push_back({chunk, 1, 0, chunk_count(spec) > 1 ? 2 : 1});
  }
  for (const Action& action : schedule.stages[static_cast<std::size_t>(stage)]) {
    Count& count = now[static_cast<std::size_t>(action.chunk)];
    if (action.kind == ActionKind::kForward) ++count.slots;
    if (action.kind == ActionKind::kBackwardInput) ++count.stashes;
    const auto flight = std::find_if(flights.begin(), flights.end(),
                                     [&](const ChunkFlight& f) { return f.chunk == action.chunk; });
    flight->slots = std::max(flight->slots, count.slots);
    flight->stashes = std::max(flight->stashes, count.stashes);
    if (action.kind == ActionKind::kBackwardWeight) --count.stashes;
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight) {
      --count.slots;
    }
  }
  return flights;
}

std::vector<ChunkFlight> chunk_flights(const Config& config, std::int64_t stage) {
  return chunk_flights(make_schedule(schedule_spec(config)), stage);
}

SampleShape sample_shape(const ModelSpec& model) {
  const Dimensions d = dimensions_of(model);
  return {d.tokens * std::max<std::int64_t>(d.patch_elements, 1), d.targets};
}

std::int64_t residual_rows(const Config& config) {
  const std::int64_t rows = config.train.micro_batch_size * config.model.sequence;
  return config.parallel.sequence_parallel ? rows / config.parallel.tp : rows;
}

std::int64_t attention_scratch_elements(std::int64_t sequence, std::int64_t head_width) {
  const std::int64_t s = round_up(sequence, 16);
  const std::int64_t d = round_up(head_width, 16);
  return 5 * s * d + 144 * d + 97 * 192 + 48;
}

std::int64_t product_scratch_elements(const Config& config) {
  const std::int64_t slices = config.numerics.tp_slices / config.parallel.tp;
  if (config.numerics.mode == collectives::Numerics::kFast || slices <= 1) return 0;
  const std::int64_t rows = config.train.micro_batch_size * config.model.sequence;
  // One sum a level of the tree waits for its right sibling, the highest in the result's own place.
  const std::int64_t sums = std::bit_width(static_cast<std::uint64_t>(slices - 1));
  return sums * std::min(rows, kSlicedRows) * config.model.hidden;
}

std::int64_t recompute_group(const TrainSpec& train) {
  return train.recompute == Recompute::kFull ? train.recompute_every : 0;
}

std::vector<ActivationBuffer> activation_buffers(const Config& config, std::int64_t stage) {
  return BufferList(config, stage).list();
}

}  // namespace nqd::planner
