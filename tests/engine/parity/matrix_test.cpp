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
