#include "tests/cases/store_toy.h"

#include <bit>
#include <cmath>

#include "base/error.h"
#include "collectives/world.h"
#include "engine/philox.h"

namespace nqd::toy {

using collectives::Communicator;
using planner::Engine;
using planner::UnitRole;

planner::LocalUnit unit(UnitRole role, const std::string& name,
                        const std::vector<std::int64_t>& tensors) {
  planner::LocalUnit made;
  made.role = role;
  made.name = name;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    planner::LocalTensor tensor;
    tensor.full.name = role == UnitRole::kTied ? "token.0" : name + "." + std::to_string(i);
    tensor.full.shape = {tensors[i]};
    tensor.shape = {tensors[i]};
    tensor.offset = made.elements;
    if (tensors[i] > 0) tensor.pieces = {{0, 0, tensors[i]}};
    tensor.replicated = true;
    made.elements += tensors[i];
    made.tensors.push_back(tensor);
  }
  return made;
}

std::vector<planner::LocalUnit> units() {
  std::vector<planner::LocalUnit> all;
  all.push_back(unit(UnitRole::kTokenEmbedding, "token", {57}));
  all.push_back(unit(UnitRole::kPositionEmbedding, "position", {1}));
  all.push_back(unit(UnitRole::kLayer, "first", {101, 57, 0}));
  all.push_back(unit(UnitRole::kLayer, "empty", {0}));
  all.push_back(unit(UnitRole::kLayer, "long", {2503, 1, 7}));
  all.push_back(unit(UnitRole::kLayer, "last", {13}));
  all.push_back(unit(UnitRole::kHead, "head", {3, 101}));
  return all;
}

std::vector<planner::LocalUnit> tied_units() {
  std::vector<planner::LocalUnit> all = units();
  all.push_back(unit(UnitRole::kTied, "tied", {57}));
  all.back().holds_weights = false;
  return all;
}

std::string words(const Case& one) {
  return std::string(name(one.engine)) + " on " + std::to_string(one.dp) + " (" +
         std::to_string(one.hsdp_shard) + "), m = " + std::to_string(one.micro_batches) + ", " +
         std::string(name(one.numerics)) + ", " + std::string(name(one.weights));
}

planner::StateShape shape_of(const Case& one) {
  planner::StateShape shape;
  shape.engine = one.engine;
  shape.dp = one.dp;
  shape.hsdp_shard = one.hsdp_shard;
  shape.micro_batches = one.micro_batches;
  shape.numerics = one.numerics;
  shape.weights = one.weights;
  shape.moments = 1;
  shape.ema = true;
  shape.bucket_bytes = one.bucket_bytes;
  return shape;
}

std::vector<Case> all_cases(collectives::Numerics numerics) {
  std::vector<Case> cases;
  for (const int dp : {1, 2, 3, 4, 6, 8}) {
    for (int m = 1; m <= 4; ++m) {
      for (const Engine engine : {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3}) {
        cases.push_back({engine, dp, 1, m, numerics});
      }
      for (int shard = 2; shard < dp; ++shard) {
        if (dp % shard == 0) cases.push_back({Engine::kHsdp, dp, shard, m, numerics});
      }
    }
  }
  return cases;
}

void expect(bool holds, const Case& one, const std::string& what) {
  if (!holds) throw Error(ExitCode::kNo, "test", words(one) + ": " + what);
}

Groups::Groups(Communicator& world, const Case& one) {
  const int rank = world.rank();
  if (one.engine != Engine::kHsdp) {
    dp_ = world.split(0, rank, "dp");
    return;
  }
  dp_ = world.split(rank / one.hsdp_shard, rank, "dp_shard");
  replicas_ = world.split(rank % one.hsdp_shard, rank, "dp_replicate");
}

void run(const Case& one, const std::function<void(Communicator&)>& body, bool apart) {
  collectives::WorldOptions options;
  for (int rank = 0; apart && rank < one.dp; ++rank) {
    options.pretended_hosts.push_back("host" + std::to_string(rank));
  }
  collectives::run_threads(one.dp, options, body);
}

float leaf(const std::string& unit, std::int64_t element, std::int64_t index) {
  const auto low = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const engine::PhiloxCounter bits = engine::philox4x32_10(
      {low(element), low(index), static_cast<std::uint32_t>(engine::stream_of(unit)), 0}, {7, 0});
  const float mantissa = 1.0F + static_cast<float>(bits[0] >> 9) * 0x1p-23F;
  const float magnitude = std::ldexp(mantissa, static_cast<int>(bits[1] % 20) - 10);
  return bits[2] % 2 == 0 ? magnitude : -magnitude;
}

float tree_sum(const Leaf& leaves, const std::string& unit, std::int64_t element,
               std::int64_t first, std::int64_t count) {
  if (count == 1) return leaves(unit, element, first);
  const auto left =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count - 1)));
  return tree_sum(leaves, unit, element, first, left) +
         tree_sum(leaves, unit, element, first + left, count - left);
}

void run_gradients(engine::UnitStore& store, const Leaf& leaves) {
  const planner::StateShape& shape = store.shape();
  store.begin_step();
  for (std::int64_t i = 0; i < shape.micro_batches; ++i) {
    const std::int64_t index =
        planner::leaf_index(shape.gradient_shards(), shape.micro_batches, store.rank(), i);
    for (std::size_t unit = store.units().size(); unit-- > 0;) {
      float* const gradient = store.begin_gradient(static_cast<int>(unit));
      for (std::int64_t k = 0; k < store.units()[unit].elements; ++k) {
        gradient[k] += leaves(store.units()[unit].name, k, index);
      }
      store.end_gradient(static_cast<int>(unit));
    }
  }
  store.finish_step();
}

void for_each_gradient(
    engine::UnitStore& store,
    const std::function<void(const planner::LocalUnit&, std::int64_t, float)>& f) {
  store.for_each_shard([&](const engine::ShardRun& run) {
    for (std::size_t k = 0; k < run.gradient.size(); ++k) {
      f(store.units()[static_cast<std::size_t>(run.unit)],
        run.tensor->offset + run.local + static_cast<std::int64_t>(k), run.gradient[k]);
    }
  });
}

void fill(const planner::TensorSpec& tensor, std::int64_t begin, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = leaf("weight of " + tensor.name, begin + static_cast<std::int64_t>(i), 0);
  }
}

void update(engine::UnitStore& store) {
  store.for_each_shard([](const engine::ShardRun& run) {
    for (std::size_t k = 0; k < run.weights.size(); ++k) {
      run.weights[k] -= run.gradient[k] / 1024;
      run.moments.front()[k] += run.gradient[k];
    }
  });
  store.publish();
}

std::vector<float> all_weights(engine::UnitStore& store) {
  std::vector<float> all;
  for (std::size_t unit = 0; unit < store.units().size(); ++unit) {
    const std::byte* const data = store.acquire(static_cast<int>(unit));
    for (std::int64_t k = 0; k < store.units()[unit].elements; ++k) {
      switch (store.shape().weights) {
        case DType::kBFloat16:
          all.push_back(to_float(reinterpret_cast<const BFloat16*>(data)[k]));
          break;
        case DType::kFloat16:
          all.push_back(to_float(reinterpret_cast<const Float16*>(data)[k]));
          break;
        default:
          all.push_back(reinterpret_cast<const float*>(data)[k]);
      }
    }
    store.release(static_cast<int>(unit));
  }
  return all;
}

}  // namespace nqd::toy
