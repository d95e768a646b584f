#include "engine/parity/matrix.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/engine/parity/parity_configs.h"

using namespace nqd;
using engine::ParityCell;
using engine::ParityDepth;

namespace {

std::set<std::string> meshes(const std::vector<ParityCell>& cells, planner::Engine of) {
  std::set<std::string> found;
  for (const ParityCell& cell : cells) {
    if (cell.config.parallel.engine == of) found.insert(cell.mesh());
  }
  return found;
}

}  // namespace

TEST_CASE("the default matrix has every factorisation of 1, 2, 4 and 8 with every engine") {
  const auto cells = engine::parity_cells(gpt_tied(), ParityDepth::kDefault);
  for (const auto of : {planner::Engine::kDdp, planner::Engine::kZero1, planner::Engine::kZero2,
                        planner::Engine::kZero3}) {
    const std::set<std::string> found = meshes(cells, of);
    for (int ranks = 1; ranks <= 8; ranks *= 2) {
      for (int pp = 1; pp <= ranks; pp *= 2) {
        for (int tp = 1; tp * pp <= ranks; tp *= 2) {
          const int dp = ranks / (tp * pp);
          if (dp == 1 && of != planner::Engine::kDdp) continue;
          const std::string mesh =
              std::to_string(dp) + "x" + std::to_string(tp) + "x" + std::to_string(pp);
          CHECK_MESSAGE(found.count(mesh) == 1, mesh);
        }
      }
    }
  }
  CHECK(meshes(cells, planner::Engine::kHsdp).count("8x1x1/2") == 1);
}

TEST_CASE("the default matrix has every schedule, recomputation, precision and both numerics") {
  const auto cells = engine::parity_cells(gpt_tied(), ParityDepth::kDefault);
  std::set<std::string> schedules, recomputations, precisions, numerics;
  bool under_mpi = false;
  for (const ParityCell& cell : cells) {
    schedules.insert(cell.schedule());
    recomputations.insert(cell.recompute());
    precisions.insert(std::string(name(cell.config.train.precision)));
    numerics.insert(std::string(name(cell.config.numerics.mode)));
    under_mpi = under_mpi || cell.under_mpi;
  }
  CHECK(schedules == std::set<std::string>{"1f1b", "gpipe", "interleaved/2", "none", "zb-h1"});
  CHECK(recomputations == std::set<std::string>{"full", "full/2", "none", "selective"});
  CHECK(precisions == std::set<std::string>{"bfloat16", "float16", "float32"});
  CHECK(numerics == std::set<std::string>{"canonical", "fast"});
  CHECK(under_mpi);
}

TEST_CASE("the full matrix contains the default one's float32 cells on 1, 2, 4 and 8 threads") {
  std::set<std::string> full;
  const auto key = [](const ParityCell& cell) {
    return std::string(name(cell.config.parallel.engine)) + cell.mesh() + cell.schedule() +
           cell.recompute() + std::string(name(cell.config.train.precision)) +
           std::string(name(cell.config.numerics.mode));
  };
  for (const ParityCell& cell : engine::parity_cells(gpt_tied(), ParityDepth::kFull)) {
    full.insert(key(cell));
  }
  for (const ParityCell& cell : engine::parity_cells(gpt_tied(), ParityDepth::kDefault)) {
    const std::int64_t dp = cell.config.parallel.dp;
    if (cell.under_mpi || dp % 3 == 0) continue;
    CHECK_MESSAGE(full.count(key(cell)) == 1, key(cell));
  }
}

TEST_CASE("the default matrix goes on from every mesh of a ring on itself and on the next") {
  std::set<std::string> same, others;
  bool under_mpi = false;
  const auto of = [](const planner::Config& config) {
    const ParityCell cell{config};
    return std::string(planner::name(config.parallel.engine)) + " " + cell.mesh();
  };
  for (const ParityCell& cell : engine::parity_cells(gpt_tied(), ParityDepth::kDefault)) {
    if (!cell.saved_by) continue;
    CHECK(cell.config.train.steps == 4);
    CHECK(cell.saved_after() == 2);
    CHECK(cell.saved_by->train.steps == 4);
    under_mpi = under_mpi || cell.under_mpi;
    const std::string saver = of(*cell.saved_by), own = of(cell.config);
    if (saver == own) same.insert(own);
    if (saver != own) others.insert(saver + " to " + own);
  }
  for (const char* mesh : {"ddp 2x1x1", "zero1 3x1x1", "zero2 2x1x1", "zero3 4x1x1", "hsdp 4x1x1/2",
                           "ddp 1x2x1+sp", "ddp 1x1x4", "zero1 2x2x2", "ddp 1x1x1"}) {
    CHECK_MESSAGE(same.count(mesh) == 1, mesh);
  }
  for (const char* pair :
       {"ddp 2x1x1 to zero1 3x1x1", "zero2 2x1x1 to zero3 4x1x1", "zero3 4x1x1 to ddp 1x2x1+sp",
        "ddp 1x2x1+sp to ddp 1x1x4", "ddp 1x1x4 to hsdp 4x1x1/2", "ddp 1x1x1 to ddp 2x1x1"}) {
    CHECK_MESSAGE(others.count(pair) == 1, pair);
  }
  CHECK(under_mpi);
}

TEST_CASE("a config's own mesh goes on from itself, and nobody else saves") {
  planner::Config own = gpt_tied();
  own.train.steps = 10;
  own.checkpoint.every = 2;
  const auto cells = engine::parity_cells(own, ParityDepth::kOwnMesh);
  REQUIRE(cells.size() == 8);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    CHECK(cells[i].config.train.steps == 10);
    CHECK(cells[i].config.checkpoint.every == 0);
    CHECK(cells[i].resumed_from() == (i % 2 == 0 ? "" : "ddp 1x1x1 after step 5"));
  }
}

TEST_CASE("the reference is one rank with the cell's precision and numerics") {
  for (const ParityCell& cell : engine::parity_cells(gpt_tied(), ParityDepth::kDefault)) {
    const planner::Config reference = engine::reference_of(cell.config);
    CHECK(reference.parallel.ranks() == 1);
    CHECK(reference.parallel.engine == planner::Engine::kDdp);
    CHECK(reference.train.recompute == planner::Recompute::kNone);
    CHECK(reference.train.precision == cell.config.train.precision);
    CHECK(reference.numerics.mode == cell.config.numerics.mode);
    CHECK(reference.train.global_batch_size == cell.config.train.global_batch_size);
  }
}
