#include "planner/layout/rank_units.h"

#include <doctest/doctest.h>

#include <map>

#include "planner/mesh/stages.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

using collectives::Numerics;

Config gpt(std::int64_t tp, std::int64_t pp) {
  Config config;
  config.model = gpt_model(4, 16, 4, 101, 8);
  config.parallel.tp = tp;
  config.parallel.pp = pp;
  return config;
}

Config llama(std::int64_t tp, std::int64_t pp) {
  Config config = gpt(tp, pp);
  config.model.family = "llama";
  config.model.kv_heads = 2;
  config.model.ffn_hidden = 24;
  config.model.gated_mlp = true;
  config.model.bias = config.model.qkv_bias = false;
  config.model.norm = Norm::kRmsNorm;
  config.model.positions = Positions::kRotary;
  config.model.tied_head = false;
  return config;
}

std::vector<LocalUnit> all_units(const Config& config, std::int64_t tp_rank) {
  std::vector<LocalUnit> units;
  for (std::int64_t chunk = 0; chunk < std::int64_t(chunk_layers(config).size()); ++chunk) {
    for (LocalUnit& unit : chunk_units(config, chunk, tp_rank)) units.push_back(std::move(unit));
  }
  return units;
}

const LocalTensor& tensor(const std::vector<LocalUnit>& units, const std::string& name) {
  for (const LocalUnit& unit : units) {
    for (const LocalTensor& candidate : unit.tensors) {
      if (candidate.full.name == name) return candidate;
    }
  }
  FAIL("no tensor " << name);
  return units.front().tensors.front();
}

// Ascending runs inside both tensors, which do not overlap and are not longer than they must be.
void check_pieces(const LocalTensor& local) {
  std::int64_t full = 0;
  std::int64_t own = 0;
  for (const Piece& piece : local.pieces) {
    CHECK(piece.count > 0);
    CHECK(piece.full >= full);
    CHECK(piece.local >= own);
    full = piece.full + piece.count;
    own = piece.local + piece.count;
  }
  CHECK(full <= local.full.elements());
  CHECK(own <= local.elements());
}

// How often every element of the model is held, by tensor; the tied copy counted apart.
std::map<std::string, std::vector<int>> copies(const Config& config) {
  std::map<std::string, std::vector<int>> held;
  for (std::int64_t rank = 0; rank < config.parallel.tp; ++rank) {
    for (const LocalUnit& unit : all_units(config, rank)) {
      std::int64_t offset = 0;
      for (const LocalTensor& local : unit.tensors) {
        check_pieces(local);
        CHECK(local.offset == offset);
        offset += local.elements();
        std::vector<int>& count = held[(unit.name == "tied" ? "tied " : "") + local.full.name];
        count.resize(static_cast<std::size_t>(local.full.elements()));
        for (const Piece& piece : local.pieces) {
          for (std::int64_t i = 0; i < piece.count; ++i) ++count[std::size_t(piece.full + i)];
        }
      }
      CHECK(unit.elements == offset);
    }
  }
  return held;
}

TEST_CASE("tp ranks hold every element once, replicated tensors on each of them") {
  for (const Numerics mode : {Numerics::kCanonical, Numerics::kFast}) {
    for (const std::int64_t tp : {1, 2, 4}) {
      for (const std::int64_t pp : {1, 2, 4}) {
        for (Config config : {gpt(tp, pp), llama(std::min<std::int64_t>(tp, 2), pp)}) {
          config.numerics.mode = mode;
          const auto held = copies(config);
          for (const TensorSpec& full : parameters(config.model)) {
            CAPTURE(full.name);
            const int expected =
                full.split == TensorSplit::kReplicated ? int(config.parallel.tp) : 1;
            REQUIRE(held.count(full.name) == 1);
            CHECK(held.at(full.name) ==
                  std::vector<int>(static_cast<std::size_t>(full.elements()), expected));
          }
        }
      }
    }
  }
}

TEST_CASE("queries, keys and values are split each by heads") {
  const std::vector<LocalUnit> units = all_units(gpt(2, 1), 1);
  const LocalTensor& weight = tensor(units, "layers.0.attention.qkv.weight");
  CHECK(weight.shape == std::vector<std::int64_t>{24, 16});
  // Rows 8…15 of each block of 16 rows, 16 elements a row.
  CHECK(weight.pieces == std::vector<Piece>{{128, 0, 128}, {384, 128, 128}, {640, 256, 128}});
  const LocalTensor& bias = tensor(units, "layers.0.attention.qkv.bias");
  CHECK(bias.pieces == std::vector<Piece>{{8, 0, 8}, {24, 8, 8}, {40, 16, 8}});
  CHECK(bias.offset == weight.offset + 24 * 16);
}

TEST_CASE("grouped keys and values, and the halves of a gated MLP, are split each by itself") {
  const std::vector<LocalUnit> units = all_units(llama(2, 1), 1);
  CHECK(tensor(units, "layers.3.attention.q.weight").pieces == std::vector<Piece>{{128, 0, 128}});
  // Two kv heads of 4: rows 4…7 of 8 keys, then of 8 values.
  CHECK(tensor(units, "layers.3.attention.kv.weight").pieces ==
        std::vector<Piece>{{64, 0, 64}, {192, 64, 64}});
  const LocalTensor& fc = tensor(units, "layers.3.mlp.fc.weight");
  CHECK(fc.shape == std::vector<std::int64_t>{24, 16});
  CHECK(fc.pieces == std::vector<Piece>{{192, 0, 192}, {576, 192, 192}});
}

TEST_CASE("a row-parallel weight is split by columns and its bias is whole") {
  const std::vector<LocalUnit> units = all_units(gpt(4, 1), 2);
  const LocalTensor& weight = tensor(units, "layers.1.attention.proj.weight");
  CHECK(weight.shape == std::vector<std::int64_t>{16, 4});
  REQUIRE(weight.pieces.size() == 16);
  CHECK(weight.pieces[0] == Piece{8, 0, 4});
  CHECK(weight.pieces[15] == Piece{15 * 16 + 8, 60, 4});
  CHECK_FALSE(weight.replicated);
  CHECK(tensor(units, "layers.1.attention.proj.bias").replicated);
}

TEST_CASE("the vocabulary is padded to slices, in fast numerics to ranks") {
  Config config = gpt(2, 1);  // 101 rows: 8 slices of 13, four a rank
  const std::vector<LocalUnit> canonical = all_units(config, 1);
  const LocalTensor& table = tensor(canonical, "embedding.token");
  CHECK(table.shape == std::vector<std::int64_t>{52, 16});
  CHECK(table.pieces == std::vector<Piece>{{52 * 16, 0, 49 * 16}});
  config.numerics.mode = Numerics::kFast;
  CHECK(vocabulary_rows(config) == 51);
  config.parallel.tp = 1;
  CHECK(vocabulary_rows(config) == 101);
  config.numerics.mode = Numerics::kCanonical;
  CHECK(vocabulary_rows(config) == 101);

  // Ten rows in slices of two: the last three of eight ranks hold padding alone.
  config.model = gpt_model(1, 16, 8, 10, 8);
  config.parallel.tp = 8;
  CHECK(tensor(all_units(config, 4), "embedding.token").pieces ==
        std::vector<Piece>{{8 * 16, 0, 2 * 16}});
  CHECK(tensor(all_units(config, 5), "embedding.token").pieces.empty());
  CHECK(tensor(all_units(config, 5), "embedding.token").elements() == 2 * 16);
}

std::string last_unit(const Config& config) { return all_units(config, 0).back().name; }

TEST_CASE("a tied head is a unit: of gradients beside the embedding, of weights elsewhere") {
  Config config = gpt(1, 1);
  CHECK_FALSE(all_units(config, 0).back().holds_weights);
  CHECK(last_unit(config) == "tied");
  config.parallel.pp = 2;
  CHECK(all_units(config, 0).back().holds_weights);
  CHECK(all_units(config, 0).back().elements == 101 * 16);

  config.numerics.mode = Numerics::kFast;
  CHECK(last_unit(config) == "tied");
  config.parallel.pp = 1;
  CHECK(last_unit(config) == "head");
  // Both ends of a V are on the first stage.
  config.parallel.pp = 2;
  config.parallel.schedule = Schedule::kZbV;
  CHECK(last_unit(config) == "head");
  config.numerics.mode = Numerics::kCanonical;
  CHECK_FALSE(all_units(config, 0).back().holds_weights);
  CHECK(last_unit(llama(1, 1)) == "head");
}

TEST_CASE("units of the chunks of an interleaved pipeline, in forward order") {
  Config config = gpt(2, 2);
  config.parallel.schedule = Schedule::kInterleaved;
  config.parallel.vpp = 2;
  const auto names = [&](std::int64_t chunk) {
    std::string text;
    for (const LocalUnit& unit : chunk_units(config, chunk, 0)) text += unit.name + " ";
    return text;
  };
  CHECK(names(0) == "embedding.token embedding.position layers.0 ");
  CHECK(names(1) == "layers.1 ");
  CHECK(names(2) == "layers.2 ");
  CHECK(names(3) == "layers.3 head tied ");
}

}  // namespace
}  // namespace nqd::planner
