#include "tests/reports/check_equal.h"

#include <doctest/doctest.h>

namespace nqd::reports::testing {

void check_equal(const Envelope& a, const Envelope& b) {
  CHECK(a.kind == b.kind);
  CHECK(a.tool.version == b.tool.version);
  CHECK(a.tool.git_commit == b.tool.git_commit);
  CHECK(a.tool.build_type == b.tool.build_type);
  CHECK(a.tool.compiler == b.tool.compiler);
  CHECK(a.argv == b.argv);
  CHECK(a.config_path == b.config_path);
  CHECK(a.config_yaml == b.config_yaml);
  REQUIRE(a.resolved.size() == b.resolved.size());
  for (std::size_t i = 0; i < a.resolved.size(); ++i) {
    CHECK(a.resolved[i].path == b.resolved[i].path);
    CHECK(a.resolved[i].value == b.resolved[i].value);
    CHECK(a.resolved[i].origin == b.resolved[i].origin);
  }
  CHECK(a.world_size_asked == b.world_size_asked);
  CHECK(a.world_size_actual == b.world_size_actual);
  CHECK(a.backend == b.backend);
  REQUIRE(a.ranks.size() == b.ranks.size());
  for (std::size_t i = 0; i < a.ranks.size(); ++i) {
    CHECK(a.ranks[i].rank == b.ranks[i].rank);
    CHECK(a.ranks[i].host == b.ranks[i].host);
    CHECK(a.ranks[i].pid == b.ranks[i].pid);
    CHECK(a.ranks[i].device == b.ranks[i].device);
    CHECK(a.ranks[i].launcher == b.ranks[i].launcher);
  }
  CHECK(a.libraries == b.libraries);
  CHECK(a.environment == b.environment);
  CHECK(a.host.hostname == b.host.hostname);
  CHECK(a.host.kernel == b.host.kernel);
  CHECK(a.host.cpu_model == b.host.cpu_model);
  CHECK(a.host.online_cpus == b.host.online_cpus);
  CHECK(a.host.usable_cpus == b.host.usable_cpus);
  CHECK(a.host.memory_total_bytes == b.host.memory_total_bytes);
  CHECK(a.host.memory_available_bytes == b.host.memory_available_bytes);
  CHECK(a.host.cgroup_memory_bytes == b.host.cgroup_memory_bytes);
  CHECK(a.host.load_1min == b.host.load_1min);
  CHECK(a.started_at == b.started_at);
  CHECK(a.ended_at == b.ended_at);
}

void check_equal(const collectives::BenchRow& a, const collectives::BenchRow& b) {
  CHECK(a.collective == b.collective);
  CHECK(a.backend == b.backend);
  CHECK(a.transport == b.transport);
  CHECK(a.algorithm == b.algorithm);
  CHECK(a.requested_algorithm == b.requested_algorithm);
  CHECK(a.in_place == b.in_place);
  CHECK(a.registered == b.registered);
  CHECK(a.dtype == b.dtype);
  CHECK(a.op == b.op);
  CHECK(a.requested_bytes == b.requested_bytes);
  CHECK(a.effective_bytes == b.effective_bytes);
  CHECK(a.ranks == b.ranks);
  CHECK(a.samples_s == b.samples_s);
  CHECK(a.min_s == b.min_s);
  CHECK(a.p50_s == b.p50_s);
  CHECK(a.p95_s == b.p95_s);
  CHECK(a.p99_s == b.p99_s);
  CHECK(a.max_s == b.max_s);
  CHECK(a.algbw_gbps == b.algbw_gbps);
  CHECK(a.busbw_gbps == b.busbw_gbps);
  CHECK(a.wrong == b.wrong);
  CHECK(a.checked == b.checked);
  CHECK(a.bytes_sent_per_rank == b.bytes_sent_per_rank);
  CHECK(a.predicted_bytes_per_rank == b.predicted_bytes_per_rank);
}

void check_equal(const collectives::BenchOptions& a, const collectives::BenchOptions& b) {
  CHECK(a.collective == b.collective);
  CHECK(a.algorithms == b.algorithms);
  CHECK(a.dtype == b.dtype);
  CHECK(a.op == b.op);
  CHECK(a.begin_bytes == b.begin_bytes);
  CHECK(a.end_bytes == b.end_bytes);
  CHECK(a.factor == b.factor);
  CHECK(a.step_bytes == b.step_bytes);
  CHECK(a.warmup == b.warmup);
  CHECK(a.iterations == b.iterations);
  CHECK(a.check == b.check);
  CHECK(a.in_place == b.in_place);
}

void check_equal(const engine::AuditRow& a, const engine::AuditRow& b) {
  CHECK(a.category == b.category);
  CHECK(a.kind == b.kind);
  CHECK(a.unit == b.unit);
  CHECK(a.predicted == b.predicted);
  CHECK(a.measured == b.measured);
  CHECK(a.ratio == b.ratio);
  CHECK(a.exact == b.exact);
  CHECK(a.ok == b.ok);
  CHECK(a.note == b.note);
}

}  // namespace nqd::reports::testing
