// One model on many meshes: whole tensors, their digest, and the norm of all gradients.
#include "engine/parallel/store/export.h"
#include "engine/device/cpu_device.h"

#include <doctest/doctest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "collectives/world.h"
#include "planner/mesh/rank_map.h"
#include "tests/cases/store_toy.h"

using namespace nqd;
using collectives::Communicator;
using planner::Engine;

namespace {

struct Mesh {
  Engine engine = Engine::kDdp;
  std::int64_t dp = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t vpp = 1;
  std::int64_t hsdp_shard = 0;
};

planner::Config config_of(const Mesh& mesh, bool tied, collectives::Numerics numerics) {
  planner::Config config;
  config.model.layers = 4;
  config.model.hidden = 16;
  config.model.heads = 4;
  config.model.kv_heads = 4;
  config.model.head_dim = 4;
  config.model.ffn_hidden = 24;
  config.model.vocab = 97;  // divisible by no tp
  config.model.sequence = 8;
  config.model.tied_head = tied;
  config.cluster.gpus_per_node = mesh.dp * mesh.tp * mesh.pp;
  config.parallel.engine = mesh.engine;
  config.parallel.dp = mesh.dp;
  config.parallel.tp = mesh.tp;
  config.parallel.pp = mesh.pp;
  config.parallel.vpp = mesh.vpp;
  config.parallel.hsdp_shard = mesh.hsdp_shard;
  if (mesh.vpp > 1) config.parallel.schedule = planner::Schedule::kInterleaved;
  config.train.precision = planner::Precision::kFloat32;
  config.train.global_batch_size = mesh.dp;
  config.numerics.mode = numerics;
  return config;
}

struct RankGroups {
  RankGroups(Communicator& world, const planner::Config& config) {
    place = planner::RankMap(config).place(world.rank());
    const auto tp = static_cast<int>(place.tp);
    const auto pp = static_cast<int>(place.pp);
    const auto dp = static_cast<int>(place.dp);
    const int column = pp * static_cast<int>(config.parallel.tp) + tp;
    const auto shard = static_cast<int>(planner::state_shape(config).parts());
    const bool hybrid = config.parallel.engine == Engine::kHsdp;
    first = world.split(hybrid ? column * 64 + dp / shard : column, dp, "dp");
    if (hybrid) second = world.split(column * 64 + dp % shard, dp, "dp_replicate");
    const bool end = pp == 0 || pp + 1 == config.parallel.pp;
    const bool joins = config.model.tied_head && config.parallel.pp > 1 && end;
    ends =
        world.split(joins ? dp * static_cast<int>(config.parallel.tp) + tp : -1, pp, "embedding");
  }
  engine::StoreGroups groups() const { return {first.get(), second.get(), ends.get()}; }

  planner::RankPlace place;
  std::unique_ptr<Communicator> first;
  std::unique_ptr<Communicator> second;
  std::unique_ptr<Communicator> ends;
};

// One gradient a parameter, given by the first dp rank alone; what lies in padding must not count.
void give_gradients(engine::UnitStore& store, bool gives) {
  store.begin_step();
  for (std::size_t unit = store.units().size(); unit-- > 0;) {
    float* const out = store.begin_gradient(static_cast<int>(unit));
    const bool tied = store.units()[unit].role == planner::UnitRole::kTied;
    for (const planner::LocalTensor& tensor : store.units()[unit].tensors) {
      if (!gives || tied) continue;
      std::fill_n(out + tensor.offset, tensor.elements(), 1e30F);
      engine::for_each_piece(tensor, 0, tensor.elements(),
                             [&](std::int64_t full, std::int64_t local, std::int64_t count) {
                               for (std::int64_t k = 0; k < count; ++k) {
                                 out[tensor.offset + local + k] =
                                     toy::leaf(tensor.full.name, full + k, 5);
                               }
                             });
    }
    store.end_gradient(static_cast<int>(unit));
  }
  store.finish_step();
}

struct Outcome {
  std::string digest;
  engine::ExactSum::Words squares{};
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_on(const Mesh& mesh, bool tied, collectives::Numerics numerics) {
  const planner::Config config = config_of(mesh, tied, numerics);
  Outcome outcome;
  collectives::run_threads(static_cast<int>(config.parallel.ranks()), {}, [&](Communicator& world) {
    const RankGroups groups(world, config);
    engine::CpuDevice device;
    engine::UnitStore store(planner::state_shape(config),
                            planner::stage_units(config, groups.place.pp, groups.place.tp),
                            groups.groups(), groups.place.tp, nullptr, device);
    store.initialize(toy::fill);
    give_gradients(store, groups.place.dp == 0);
    Outcome mine;
    mine.squares = store.squared_gradients().words();
    const auto words = std::as_writable_bytes(std::span(mine.squares));
    world.all_reduce(words, words, DType::kInt64, collectives::ReduceOp::kSum);
    mine.squares = engine::ExactSum(mine.squares).words();
    mine.digest = engine::weights_sha256(store, engine::model_owners(config), world);
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    if (outcome.digest.empty()) outcome = mine;
    if (!(outcome == mine)) throw Error(ExitCode::kNo, "test", "ranks differ");
  });
  return outcome;
}

// By the model's own list of tensors.
Outcome expected_outcome(bool tied) {
  Outcome outcome;
  engine::ExactSum squares;
  std::string bytes;
  for (const planner::TensorSpec& tensor :
       planner::parameters(config_of({}, tied, collectives::Numerics::kFast).model)) {
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    toy::fill(tensor, 0, values);
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] = toy::leaf(tensor.name, static_cast<std::int64_t>(k), 5);
    }
    squares.add_squares(values);
  }
  outcome.digest = sha256_hex(bytes);
  outcome.squares = squares.words();
  return outcome;
}

}  // namespace

TEST_CASE("digest and norm are those of the whole model on every mesh") {
  for (const bool tied : {true, false}) {
    const Outcome expected = expected_outcome(tied);
    for (const auto numerics : {collectives::Numerics::kCanonical, collectives::Numerics::kFast}) {
      for (const Mesh& mesh :
           {Mesh{}, Mesh{Engine::kZero3, 3}, Mesh{Engine::kDdp, 1, 4}, Mesh{Engine::kDdp, 1, 1, 4},
            Mesh{Engine::kZero2, 2, 2}, Mesh{Engine::kZero1, 3, 1, 2},
            Mesh{Engine::kZero3, 2, 2, 2}, Mesh{Engine::kDdp, 2, 2, 2, 2},
            Mesh{Engine::kHsdp, 4, 2, 1, 1, 2}}) {
        INFO(name(mesh.engine), " dp ", mesh.dp, " tp ", mesh.tp, " pp ", mesh.pp);
        const Outcome found = outcome_on(mesh, tied, numerics);
        CHECK(found.digest == expected.digest);
        CHECK(found.squares == expected.squares);
      }
    }
  }
}

TEST_CASE("the list of buffers of a config is that of its units") {
  const planner::Config config =
      config_of({Engine::kZero3, 2, 2, 2}, true, collectives::Numerics::kCanonical);
  // Stage 1 of 2: layers 2 and 3, the final norm, and the table's second copy: 13 slices of rows.
  std::int64_t gathered = 0;
  for (const planner::StateBuffer& buffer : planner::state_buffers(config, 1, 1, 0)) {
    if (buffer.tag == MemoryTag::kGatheredUnits) gathered += buffer.bytes * buffer.count;
  }
  const std::int64_t layer = 4 * 16                        // two norms
                             + (3 * 16 * 16 + 3 * 16) / 2  // qkv
                             + 16 * 16 / 2 + 16            // proj
                             + (24 * 16 + 24) / 2          // fc
                             + 16 * 24 / 2 + 16;           // proj
  const std::int64_t table = 13 * 8 / 2 * 16;
  CHECK(gathered == 4 * (2 * layer + 2 * 16 + table));
}
