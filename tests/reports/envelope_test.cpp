#include "reports/envelope.h"

#include <doctest/doctest.h>

#include <cctype>

namespace nqd::reports {

TEST_CASE("only listed variables are kept, and no secret") {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  CHECK(allowed_environment({"OMP_NUM_THREADS=2", "HOME=/root", "NQD_X=a=b", "NCCL_DEBUG=INFO",
                             "CUDA_VISIBLE_DEVICES=0", "OPENBLAS_CORETYPE=Zen", "SLURM_JOB_ID=7",
                             "SLURM_JOB_USER=me", "OMPI_COMM_WORLD_SIZE=2", "NQD_API_TOKEN=x",
                             "CUDA_SECRET=x", "NCCL_PASSWORD=x", "OMP_KEY=x", "AWS_KEY=x",
                             "OMPI_MCA_orte_hnp_uri=1.tcp://10.0.0.1", "OMPI_MCA_pml=ob1",
                             "NO_EQUALS", "OMP_=empty name is still a prefix"}) ==
        Pairs{{"CUDA_VISIBLE_DEVICES", "0"},
              {"NCCL_DEBUG", "INFO"},
              {"NQD_X", "a=b"},
              {"OMPI_COMM_WORLD_SIZE", "2"},
              {"OMPI_MCA_pml", "ob1"},
              {"OMP_", "empty name is still a prefix"},
              {"OMP_NUM_THREADS", "2"},
              {"OPENBLAS_CORETYPE", "Zen"},
              {"SLURM_JOB_ID", "7"}});
}

TEST_CASE("times are UTC, ISO 8601, and do not run backwards") {
  const std::string first = now_utc();
  REQUIRE(first.size() == 20);
  CHECK(first[4] == '-');
  CHECK(first[10] == 'T');
  CHECK(first[19] == 'Z');
  CHECK(first >= "2024-01-01T00:00:00Z");
  CHECK(now_utc() >= first);
}

TEST_CASE("the build knows itself") {
  const BuildInfo build = build_info();
  CHECK(build.version.find('.') != std::string::npos);
  CHECK((build.compiler.starts_with("gcc ") || build.compiler.starts_with("clang ")));
  CHECK_FALSE(build.build_type.empty());
  if (build.git_commit != "unknown") {
    const std::string hash = build.git_commit.substr(0, build.git_commit.find('-'));
    CHECK(hash.size() == 40);
    for (const char digit : hash) CHECK(std::isxdigit(static_cast<unsigned char>(digit)));
  }
}

TEST_CASE("an envelope begins with what is known at the start") {
  const Envelope envelope = begin_envelope("bench", {"nqd", "bench"});
  CHECK(envelope.kind == "bench");
  CHECK(envelope.argv == std::vector<std::string>{"nqd", "bench"});
  CHECK(envelope.tool.version == build_info().version);
  CHECK(envelope.host.online_cpus >= envelope.host.usable_cpus);
  CHECK(envelope.host.usable_cpus >= 1);
  CHECK_FALSE(envelope.host.hostname.empty());
  CHECK_FALSE(envelope.started_at.empty());
  CHECK(envelope.ended_at.empty());
  REQUIRE(envelope.libraries.size() >= 2);
  CHECK(envelope.libraries[0].first == "libc");
  CHECK(envelope.libraries[1].first == "gemm");
}

}  // namespace nqd::reports
