#include <array>
#include <vector>

#include "planner/config/field_parts.h"

namespace nqd::planner {
namespace {

constexpr std::array kSections = {
    Section{"model", "What is trained: a preset, a shape, or (family state) a parameter count."},
    Section{"model.moe", "Experts in place of the MLP."},
    Section{"model.mla", "Multi-head latent attention; kv_lora_rank 0 = ordinary attention."},
    Section{"model.image", "Pictures in: vit, edsr, unet."},
    Section{"cluster", "What it runs on. Omitted: one node with as many devices as the mesh asks."},
    Section{"cluster.intra_node", "One device's link to the others of its node, one direction."},
    Section{"cluster.inter_node",
            "One device's share of the network between nodes, one direction."},
    Section{"cluster.device",
            "What one device reaches of its data sheet: the time model's constants."},
    Section{"cluster.fabric", "What communication between devices reaches."},
    Section{"parallel", "The mesh and the engine."},
    Section{"train", "The training job."},
    Section{"train.optimizer", "AdamW with decoupled weight decay, warm-up and cosine decay."},
    Section{"stack", "The software that drives the devices: constants of the time model."},
    Section{"data", "Where the tokens come from."},
};

constexpr std::array kData = {
    Field{.path = "data.path",
          .kind = Kind::kText,
          .slot = [](Draft& d) -> Slot { return &d.config.data.path; },
          .doc = "Folder written by `nqd data prepare`; empty for planning only."},
};

std::vector<Field> all_fields() {
  std::vector<Field> all;
  for (const std::span<const Field> part :
       {model_fields(), cluster_fields(), device_fields(), parallel_fields(), train_fields(),
        stack_fields(), std::span<const Field>(kData)}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

std::span<const Field> fields() {
  static const std::vector<Field> all = all_fields();
  return all;
}
std::span<const Section> sections() { return kSections; }

}  // namespace nqd::planner
