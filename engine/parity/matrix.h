// The cells of a parity matrix: one training run each, of one config on other meshes, engines,
// schedules and precisions, to be compared with the same run on a single rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/spec.h"

namespace nqd::engine {

struct ParityCell {
  planner::Config config;
  bool under_mpi = false;  // processes under mpirun instead of threads
  // The rule of the mesh that the cell breaks, "NQD1203: …": it cannot run. Empty: it can.
  std::string broken_rule{};
  // The same run, cut as another mesh or as its own: it makes the first half of the steps, saves
  // and stops, and this one goes on. None: the run makes all steps itself.
  std::optional<planner::Config> saved_by = std::nullopt;
  std::int64_t saved_after() const { return config.train.steps / 2; }
  // "zero3 2x1x1 after step 2", of a pipeline "ddp 1x1x2 gpipe after step 2"; "" for all steps.
  std::string resumed_from() const;
  // "2x1x4": dp, tp, pp; "2x2x1+sp" with sequence parallelism, "4x1x1/2" with shard groups of two.
  std::string mesh() const;
  // "none", "selective", "full", "full/2".
  std::string recompute() const;
  // Of a pipeline, "interleaved/2" with virtual stages; "none" without one.
  std::string schedule() const;
};

enum class ParityDepth { kQuick, kDefault, kFull, kOwnMesh };

// Cells on 1, 2, 4 and 8 ranks, in a fixed order. `base` is a single-rank config whose global batch
// every mesh divides (own: any). Cells that break a rule of the mesh are among them, with the rule.
//   quick    a few meshes a kind of parallelism, and of going on from a save, one of each under
//            mpirun: seconds
//   default  every factorisation of 1, 2, 4, 8 over dp, tp and pp with every engine; every
//            schedule (interleaved where there are layers for it); sequence parallelism;
//            recomputation, 16-bit precisions and fast numerics on some of each, also together;
//            two threads a rank on a few; going on from a save on the same mesh and, around a ring
//            of ten meshes, on the next one
//   full     the product of all of these, and every pair of the ring
//   own      the mesh of the config itself, in canonical and in fast numerics, on threads and under
//            mpirun, each as one run and as one that goes on from a save
// A run that goes on makes an even number of steps, one more than the config's where that is odd.
// No cell saves for any other reason: `checkpoint` of the base is left out.
std::vector<ParityCell> parity_cells(const planner::Config& base, ParityDepth depth);

// The run that a cell is compared with: one rank of one thread, ddp, nothing recomputed, of the
// cell's precision and numerics.
planner::Config reference_of(const planner::Config& cell);

}  // namespace nqd::engine
