#include "planner/search/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "planner/mesh/layer_split.h"
#include "planner/rules/legality.h"

namespace nqd::planner::search {
namespace {

// The same cluster with as many devices: whole nodes, or part of one. A split of layers belongs to
// a mesh that is given up.
Config on_devices(Config config, std::int64_t devices) {
  config.parallel.pipeline_split.clear();
  ClusterSpec& cluster = config.cluster;
  cluster.gpus_per_node = std::min(cluster.gpus_per_node, devices);
  cluster.nodes = devices / cluster.gpus_per_node;
  return config;
}

// Ascending.
std::vector<std::int64_t> device_counts(const ClusterSpec& cluster, bool fewer) {
  if (!fewer) return {cluster.devices()};
  std::vector<std::int64_t> counts;
  for (std::int64_t gpus = 1; gpus < cluster.gpus_per_node; ++gpus) {
    if (rules::divides(gpus, cluster.gpus_per_node)) counts.push_back(gpus);
  }
  for (std::int64_t nodes = 1; nodes <= cluster.nodes; ++nodes) {
    if (rules::divides(nodes, cluster.nodes)) counts.push_back(nodes * cluster.gpus_per_node);
  }
  return counts;
}

// One size of the cluster, and its share of the work.
struct Part {
  Config config;
  Space space;
};

struct Job {
  const Part* part = nullptr;
  Mesh mesh;
};

// Runs the jobs on several threads. Each thread has models of its own, each job a result of its
// own, so that nothing depends on who did what.
class Crew {
 public:
  Crew(const std::vector<Job>& jobs, const MeshOptions& options, const std::vector<Score>& asked)
      : jobs_(jobs), options_(options), asked_(asked), results_(jobs.size()) {}

  Found run(int threads) {
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back([this] { work(); });
    work();
    for (std::thread& other : others) other.join();
    if (failure_) std::rethrow_exception(failure_);
    Found all;
    for (const Found& found : results_) all.merge(found, options_);
    return all;
  }

 private:
  void work() {
    try {
      search_jobs();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
  }

  void search_jobs() {
    const Part* part = nullptr;
    std::unique_ptr<MemoryModel> memory;
    std::unique_ptr<TimeModel> time;
    for (std::size_t i = next_++; i < jobs_.size(); i = next_++) {
      const Job& job = jobs_[i];
      if (job.part != part) {
        part = job.part;
        memory = std::make_unique<MemoryModel>(part->config);
        time = std::make_unique<TimeModel>(part->config);
      }
      results_[i] = MeshSearch(part->space, options_, asked_, *memory, *time).run(job.mesh);
    }
  }

  const std::vector<Job>& jobs_;
  const MeshOptions& options_;
  const std::vector<Score>& asked_;
  std::vector<Found> results_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

int thread_count(int asked, std::size_t jobs) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = asked > 0 ? asked : std::max(cores, 1);
  return static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(threads), jobs));
}

// No factoring holds what is fixed: that is one proposal, which the devices refuse.
Found without_a_mesh(const Fixed& fixed) {
  constexpr auto kRule = static_cast<std::size_t>(Rule::kDevices);
  Found found;
  found.considered = 1;
  found.rejected[kRule] = 1;
  Candidate example;
  example.dp = fixed.dp.value_or(1);
  example.tp = fixed.tp.value_or(1);
  example.pp = fixed.pp.value_or(1);
  example.cp = fixed.cp.value_or(1);
  found.examples[kRule] = example;
  return found;
}

}  // namespace

SearchResult search(const Config& config, const SearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  SearchResult result;
  result.limit_bytes = options.limit_bytes > 0 ? options.limit_bytes : config.cluster.memory_bytes;
  std::vector<Part> parts;
  for (const std::int64_t devices : device_counts(config.cluster, options.fewer_gpus)) {
    const Config part = on_devices(config, devices);
    parts.push_back({part, Space(facts_of(part), options.fixed)});
  }
  std::vector<Job> jobs;
  for (const Part& part : parts) {
    for (const Mesh& mesh : part.space.meshes()) jobs.push_back({&part, mesh});
  }
  result.objective = options.objective;
  MeshOptions mesh_options{options.objective, result.limit_bytes, options.one_a_mesh, options.keep,
                           options.prune};
  const int threads = thread_count(options.threads, jobs.size());
  if (jobs.empty()) {
    result.found = without_a_mesh(options.fixed);
  } else {
    result.found = Crew(jobs, mesh_options, options.asked).run(threads);
    if (result.found.fitting == 0 && options.prune) {
      mesh_options.prune = false;
      result.found = Crew(jobs, mesh_options, options.asked).run(threads);
    }
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  result.elapsed_s = elapsed.count();
  return result;
}

Config config_of(const Config& config, const Candidate& candidate) {
  const std::int64_t devices =
      std::int64_t{candidate.dp} * candidate.tp * candidate.pp * candidate.cp;
  Config planned = with_candidate(on_devices(config, devices), candidate);
  ParallelSpec& parallel = planned.parallel;
  if (parallel.engine != Engine::kHsdp) parallel.hsdp_shard = 0;
  if (planned.train.recompute != Recompute::kFull) planned.train.recompute_every = 1;
  const std::int64_t chunks = parallel.pp * parallel.vpp;
  const std::int64_t layers = planned.model.layers;
  const bool uneven = rules::layers_fill(layers, parallel.pp, parallel.vpp) &&
                      !rules::layers_even(layers, parallel.pp, parallel.vpp);
  if (is_transformer(planned.model) && uneven) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      parallel.pipeline_split.push_back(layers_of_chunk(layers, chunks, chunk));
    }
  }
  return planned;
}

}  // namespace nqd::planner::search
