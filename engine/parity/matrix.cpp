#include "engine/parity/matrix.h"

#include <algorithm>
#include <array>

#include "base/diagnostic.h"
#include "planner/planner.h"

namespace nqd::engine {
namespace {

using planner::Config;
using planner::Engine;
using planner::Precision;
using planner::Recompute;
using planner::Schedule;

struct Mesh {
  std::int64_t dp = 1, tp = 1, pp = 1;
  std::int64_t ranks() const { return dp * tp * pp; }
};

constexpr std::array<std::int64_t, 4> kRanks = {1, 2, 4, 8};
constexpr std::int64_t kInterleaved = 2;  // virtual stages

std::vector<Mesh> meshes() {
  std::vector<Mesh> all;
  for (const std::int64_t ranks : kRanks) {
    for (std::int64_t pp = 1; pp <= ranks; pp *= 2) {
      for (std::int64_t tp = 1; tp * pp <= ranks; tp *= 2) {
        all.push_back({ranks / (tp * pp), tp, pp});
      }
    }
  }
  return all;
}

// How a run is cut.
struct Cut {
  Mesh mesh;
  Engine engine = Engine::kDdp;
  Schedule schedule = Schedule::k1F1B;
  bool sequence_parallel = false;
};

// Every engine and every direction, neighbours on other numbers of ranks or cut another way.
std::vector<Cut> ring() {
  return {{{2, 1, 1}, Engine::kDdp},
          {{3, 1, 1}, Engine::kZero1},
          {{2, 1, 1}, Engine::kZero2},
          {{4, 1, 1}, Engine::kZero3},
          {{1, 2, 1}, Engine::kDdp, Schedule::k1F1B, true},
          {{1, 1, 4}, Engine::kDdp, Schedule::kGPipe},
          {{4, 1, 1}, Engine::kHsdp},
          {{1, 1, 2}, Engine::kDdp, Schedule::kInterleaved},
          {{2, 2, 2}, Engine::kZero1, Schedule::kZbH1},
          {{1, 1, 1}, Engine::kDdp}};
}

// One of each kind, and all together.
std::vector<Mesh> some_meshes() { return {{2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 2, 2}}; }

struct Recomputation {
  Recompute kind = Recompute::kNone;
  std::int64_t every = 1;
};
constexpr std::array<Recomputation, 4> kRecomputations = {{{Recompute::kNone, 1},
                                                           {Recompute::kSelective, 1},
                                                           {Recompute::kFull, 1},
                                                           {Recompute::kFull, 2}}};

class Matrix {
 public:
  explicit Matrix(const Config& base) : base_(base) {}

  void add(const Cut& cut, Recomputation recomputation, Precision precision,
           collectives::Numerics numerics, bool under_mpi = false) {
    ParityCell cell{config_of(cut, precision, numerics), under_mpi};
    cell.config.train.recompute = recomputation.kind;
    cell.config.train.recompute_every = recomputation.every;
    cell.broken_rule = broken_rule_of(cell.config);
    cells_.push_back(std::move(cell));
  }

  // A run that goes on with what another one saved.
  void add_resumed(const Cut& saver, const Cut& cut, Precision precision,
                   collectives::Numerics numerics, bool under_mpi = false) {
    ParityCell cell{config_of(cut, precision, numerics), under_mpi};
    Config first = config_of(saver, precision, numerics);
    for (Config* config : {&cell.config, &first}) even_steps(*config);
    cell.broken_rule = broken_rule_of(first);
    if (cell.broken_rule.empty()) cell.broken_rule = broken_rule_of(cell.config);
    cell.saved_by = std::move(first);
    cells_.push_back(std::move(cell));
  }
  void add_resumed(const Cut& saver, const Cut& cut, bool under_mpi = false) {
    add_resumed(saver, cut, base_.train.precision, collectives::Numerics::kCanonical, under_mpi);
  }

  static void even_steps(Config& config) { config.train.steps += config.train.steps % 2; }

  // The mesh by default, with two threads a rank.
  void add_threaded(const Mesh& mesh, Engine engine) {
    add_plain(mesh, engine);
    cells_.back().config.train.threads = 2;
  }

  void add_plain(const Mesh& mesh, Engine engine, Schedule schedule = Schedule::k1F1B,
                 bool sequence_parallel = false, bool under_mpi = false) {
    add({mesh, engine, schedule, sequence_parallel}, {}, base_.train.precision,
        collectives::Numerics::kCanonical, under_mpi);
  }

  static std::vector<Engine> engines(const Mesh& mesh) {
    if (mesh.dp == 1) return {Engine::kDdp};
    std::vector<Engine> all = {Engine::kDdp, Engine::kZero1, Engine::kZero2, Engine::kZero3};
    if (mesh.dp >= 4) all.push_back(Engine::kHsdp);
    return all;
  }
  std::vector<Schedule> schedules(const Mesh& mesh) const {
    if (mesh.pp == 1) return {Schedule::k1F1B};
    std::vector<Schedule> all = {Schedule::kGPipe, Schedule::k1F1B, Schedule::kZbH1};
    if (kInterleaved * mesh.pp <= base_.model.layers) all.push_back(Schedule::kInterleaved);
    return all;
  }
  static std::vector<bool> sequence_parallel(const Mesh& mesh) {
    return mesh.tp == 1 ? std::vector<bool>{false} : std::vector<bool>{false, true};
  }

  std::vector<ParityCell> take() { return std::move(cells_); }

 private:
  Config config_of(const Cut& cut, Precision precision, collectives::Numerics numerics) const {
    Config config = base_;
    config.cluster.nodes = 1;
    config.cluster.gpus_per_node = cut.mesh.ranks();
    config.parallel.engine = cut.engine;
    config.parallel.dp = cut.mesh.dp;
    config.parallel.tp = cut.mesh.tp;
    config.parallel.pp = cut.mesh.pp;
    config.parallel.vpp = cut.schedule == Schedule::kInterleaved ? kInterleaved : 1;
    config.parallel.world_size = cut.mesh.ranks();
    config.parallel.hsdp_shard = cut.engine == Engine::kHsdp ? 2 : 0;
    config.parallel.schedule = cut.schedule;
    config.parallel.sequence_parallel = cut.sequence_parallel;
    config.train.recompute = Recompute::kNone;
    config.train.recompute_every = 1;
    config.train.precision = precision;
    config.numerics.mode = numerics;
    return config;
  }

  static std::string broken_rule_of(const Config& config) {
    for (const Diagnostic& diagnostic : planner::check_mesh(config)) {
      if (diagnostic.severity == Severity::kError) {
        return diagnostic.code + ": " + diagnostic.message;
      }
    }
    return "";
  }

  const Config& base_;
  std::vector<ParityCell> cells_;
};

void add_quick(Matrix& matrix) {
  matrix.add_plain({2, 1, 1}, Engine::kDdp);
  matrix.add_plain({3, 1, 1}, Engine::kZero3);
  matrix.add_plain({2, 1, 1}, Engine::kZero1);
  matrix.add_plain({4, 1, 1}, Engine::kHsdp);
  matrix.add_plain({1, 2, 1}, Engine::kDdp, Schedule::k1F1B, true);
  matrix.add_plain({1, 1, 2}, Engine::kDdp, Schedule::kInterleaved);
  matrix.add_plain({2, 2, 2}, Engine::kZero2, Schedule::kZbH1);
  matrix.add_threaded({1, 2, 1}, Engine::kDdp);
  matrix.add_plain({2, 1, 1}, Engine::kZero3, Schedule::k1F1B, false, true);
  const Cut zero1{{2, 1, 1}, Engine::kZero1};
  const Cut ddp{{2, 1, 1}, Engine::kDdp};
  const Cut tensor{{1, 2, 1}, Engine::kDdp, Schedule::k1F1B, true};
  matrix.add_resumed(zero1, zero1);
  matrix.add_resumed({{3, 1, 1}, Engine::kZero3}, tensor);
  matrix.add_resumed({{2, 2, 2}, Engine::kZero2, Schedule::kZbH1}, ddp);
  matrix.add_resumed(ddp, {{2, 1, 1}, Engine::kZero3}, true);
}

// From every mesh of the ring on its own and on the next; with the other precisions and numerics on
// some, and under mpirun.
void add_resumed(Matrix& matrix, const Config& base) {
  const std::vector<Cut> cuts = ring();
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    matrix.add_resumed(cuts[i], cuts[i]);
    matrix.add_resumed(cuts[i], cuts[(i + 1) % cuts.size()]);
  }
  const Cut zero3{{2, 1, 1}, Engine::kZero3};
  const Cut tensor{{1, 2, 1}, Engine::kDdp, Schedule::k1F1B, true};
  for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
    matrix.add_resumed(zero3, tensor, precision, collectives::Numerics::kCanonical);
  }
  for (const Cut& cut : {zero3, tensor}) {
    matrix.add_resumed(zero3, cut, base.train.precision, collectives::Numerics::kFast);
  }
  matrix.add_resumed(zero3, zero3, true);
  matrix.add_resumed(zero3, tensor, true);
}

void add_kinds(Matrix& matrix, const Config& base) {
  for (const Mesh& mesh : some_meshes()) {
    for (const Engine engine : {Engine::kDdp, Engine::kZero3}) {
      if (engine != Engine::kDdp && mesh.dp == 1) continue;
      for (const Recomputation& recomputation : kRecomputations) {
        if (recomputation.kind == Recompute::kNone) continue;
        matrix.add({mesh, engine}, recomputation, base.train.precision,
                   collectives::Numerics::kCanonical);
      }
    }
    for (const Engine engine : Matrix::engines(mesh)) {
      for (const Precision precision : {Precision::kBFloat16, Precision::kFloat16}) {
        matrix.add({mesh, engine}, {}, precision, collectives::Numerics::kCanonical);
      }
      matrix.add({mesh, engine, Schedule::k1F1B, mesh.tp > 1}, {}, base.train.precision,
                 collectives::Numerics::kFast);
    }
  }
}

// What a sharded engine shares with the rest of a run: schedules, precisions, recomputation.
void add_combinations(Matrix& matrix, const Config& base) {
  const auto canonical = collectives::Numerics::kCanonical;
  const auto fast = collectives::Numerics::kFast;
  const Recomputation full{Recompute::kFull, 1};
  const Precision own = base.train.precision;
  for (const Engine engine : {Engine::kZero1, Engine::kZero2, Engine::kZero3, Engine::kHsdp}) {
    const Mesh flat = engine == Engine::kHsdp ? Mesh{4, 1, 1} : Mesh{2, 1, 1};
    const Mesh staged = engine == Engine::kHsdp ? Mesh{4, 1, 2} : Mesh{2, 1, 2};
    const Mesh sliced = engine == Engine::kHsdp ? Mesh{4, 2, 1} : Mesh{2, 2, 1};
    matrix.add({flat, engine}, full, own, canonical);
    matrix.add({flat, engine}, full, Precision::kBFloat16, canonical);
    for (const Schedule schedule : matrix.schedules(staged)) {
      matrix.add({staged, engine, schedule}, {}, own, canonical);
    }
    matrix.add({staged, engine, Schedule::kZbH1}, full, Precision::kBFloat16, canonical);
    matrix.add({sliced, engine, Schedule::k1F1B, true}, {}, own, canonical);
    matrix.add({sliced, engine, Schedule::k1F1B, true}, full, Precision::kFloat16, canonical);
    matrix.add({sliced, engine, Schedule::k1F1B, true}, {}, own, fast);
  }
  matrix.add({{4, 1, 1}, Engine::kHsdp}, {}, Precision::kFloat16, canonical);
  matrix.add({{4, 1, 1}, Engine::kHsdp}, {}, own, fast);
  matrix.add({{4, 1, 1}, Engine::kHsdp}, full, Precision::kBFloat16, canonical, true);
  matrix.add({{1, 1, 2}, Engine::kDdp, Schedule::kZbH1}, {}, own, fast, true);
}

void add_default(Matrix& matrix, const Config& base) {
  for (const Mesh& mesh : meshes()) {
    for (const Engine engine : Matrix::engines(mesh)) matrix.add_plain(mesh, engine);
    for (const Schedule schedule : matrix.schedules(mesh)) {
      if (schedule != Schedule::k1F1B) matrix.add_plain(mesh, Engine::kDdp, schedule);
    }
    if (mesh.tp > 1) {
      for (const Engine engine : {Engine::kDdp, Engine::kZero3}) {
        if (engine == Engine::kDdp || mesh.dp > 1) {
          matrix.add_plain(mesh, engine, Schedule::k1F1B, true);
        }
      }
    }
  }
  for (const Mesh& mesh : {Mesh{3, 1, 1}, Mesh{6, 1, 1}}) {
    for (const Engine engine : Matrix::engines(mesh)) matrix.add_plain(mesh, engine);
  }
  matrix.add_threaded({1, 1, 1}, Engine::kDdp);
  for (const Mesh& mesh : some_meshes()) {
    matrix.add_threaded(mesh, mesh.dp > 1 ? Engine::kZero3 : Engine::kDdp);
  }
  add_kinds(matrix, base);
  add_combinations(matrix, base);
  for (const Mesh& mesh : some_meshes()) {
    const Engine engine = mesh.dp > 1 ? Engine::kZero3 : Engine::kDdp;
    matrix.add_plain(mesh, engine, Schedule::k1F1B, mesh.tp > 1, true);
  }
  add_resumed(matrix, base);
}

constexpr std::array kPrecisions = {Precision::kFloat32, Precision::kBFloat16, Precision::kFloat16};

void add_full(Matrix& matrix) {
  for (const Mesh& mesh : meshes()) {
    for (const Engine engine : Matrix::engines(mesh)) {
      for (const Schedule schedule : matrix.schedules(mesh)) {
        for (const bool sequence_parallel : Matrix::sequence_parallel(mesh)) {
          for (const Recomputation& recomputation : kRecomputations) {
            for (const Precision precision : kPrecisions) {
              for (const auto numerics :
                   {collectives::Numerics::kCanonical, collectives::Numerics::kFast}) {
                matrix.add({mesh, engine, schedule, sequence_parallel}, recomputation, precision,
                           numerics);
              }
            }
          }
        }
      }
    }
  }
  for (const Cut& saver : ring()) {
    for (const Cut& cut : ring()) {
      for (const Precision precision : kPrecisions) {
        matrix.add_resumed(saver, cut, precision, collectives::Numerics::kCanonical);
      }
    }
  }
}

std::vector<ParityCell> own_mesh(const Config& base) {
  std::vector<ParityCell> cells;
  for (const bool under_mpi : {false, true}) {
    for (const auto numerics : {collectives::Numerics::kCanonical, collectives::Numerics::kFast}) {
      ParityCell cell{base, under_mpi};
      cell.config.numerics.mode = numerics;
      cells.push_back(cell);
      Matrix::even_steps(cell.config);
      cell.saved_by = cell.config;
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

}  // namespace

std::string ParityCell::resumed_from() const {
  if (!saved_by) return "";
  const ParityCell saver{*saved_by};
  const std::string pipeline = saver.config.parallel.pp > 1 ? " " + saver.schedule() : "";
  return std::string(name(saver.config.parallel.engine)) + " " + saver.mesh() + pipeline +
         " after step " + std::to_string(saved_after());
}

std::string ParityCell::mesh() const {
  const planner::ParallelSpec& mesh = config.parallel;
  std::string text =
      std::to_string(mesh.dp) + "x" + std::to_string(mesh.tp) + "x" + std::to_string(mesh.pp);
  if (mesh.engine == Engine::kHsdp) text += "/" + std::to_string(mesh.hsdp_shard);
  if (mesh.sequence_parallel) text += "+sp";
  return text;
}

std::string ParityCell::recompute() const {
  std::string text(name(config.train.recompute));
  if (config.train.recompute_every > 1) text += "/" + std::to_string(config.train.recompute_every);
  return text;
}

std::string ParityCell::schedule() const {
  if (config.parallel.pp == 1) return "none";
  std::string text(name(config.parallel.schedule));
  if (config.parallel.vpp > 1) text += "/" + std::to_string(config.parallel.vpp);
  return text;
}

std::vector<ParityCell> parity_cells(const Config& given, ParityDepth depth) {
  Config base = given;
  base.checkpoint = {};
  Matrix matrix(base);
  switch (depth) {
    case ParityDepth::kQuick:
      add_quick(matrix);
      break;
    case ParityDepth::kDefault:
      add_default(matrix, base);
      break;
    case ParityDepth::kFull:
      add_full(matrix);
      break;
    case ParityDepth::kOwnMesh:
      return own_mesh(base);
  }
  return matrix.take();
}

Config reference_of(const Config& cell) {
  Config config = cell;
  config.cluster.nodes = 1;
  config.cluster.gpus_per_node = 1;
  config.parallel = {};
  config.parallel.world_size = 1;
  config.train.recompute = Recompute::kNone;
  config.train.recompute_every = 1;
  config.train.threads = 1;
  return config;
}

}  // namespace nqd::engine
