// The candidates that a search proposes: every way to factor the devices into dp·tp·pp·cp, and for
// each mesh every ep, micro-batch, engine, schedule with its virtual stages, recomputation and
// sequence parallelism that could mean something. What breaks a rule is counted, not left out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/search/fixed.h"
#include "planner/search/rule.h"

namespace nqd::planner::search {

struct Mesh {
  std::int32_t dp = 1;
  std::int32_t tp = 1;
  std::int32_t pp = 1;
  std::int32_t cp = 1;
};

// A schedule with its virtual stages.
struct Variant {
  Schedule schedule = Schedule::k1F1B;
  std::int32_t vpp = 1;
};

class Space {
 public:
  Space(const Facts& facts, const Fixed& fixed);

  const Facts& facts() const { return facts_; }
  // All factorings, legal or not, by tp, pp, cp.
  const std::vector<Mesh>& meshes() const { return meshes_; }
  // Axes inside a mesh; each has at least one value.
  const std::vector<std::int32_t>& expert_ranks() const { return expert_ranks_; }
  // Ascending. A dp that does not divide the global batch is proposed with 1 alone.
  std::vector<std::int32_t> micro_batch_sizes(const Mesh& mesh) const;
  std::vector<Variant> variants(const Mesh& mesh) const;
  const std::vector<Engine>& engines() const { return engines_; }
  const std::vector<Recompute>& recomputes() const { return recomputes_; }
  std::vector<bool> sequence_parallel(const Mesh& mesh) const;

  // Candidates of one mesh.
  std::int64_t size(const Mesh& mesh) const;

 private:
  void add_meshes();

  Facts facts_;
  Fixed fixed_;
  std::vector<Mesh> meshes_;
  std::vector<std::int32_t> expert_ranks_;
  std::vector<Engine> engines_;
  std::vector<Recompute> recomputes_;
};

}  // namespace nqd::planner::search
