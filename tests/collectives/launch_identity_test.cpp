#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "collectives/world.h"
#include "tests/temporary_folder.h"

namespace nqd::collectives {
namespace {

// The environment with exactly these launcher variables, restored at the end.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& wanted) {
    for (const char* name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
          "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
          "MPI_LOCALNRANKS", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
          "TORCHELASTIC_RUN_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
          "SLURM_STEP_ID", "SLURM_STEP_NUM_NODES"}) {
      if (const char* old = std::getenv(name)) saved_[name] = old;
      ::unsetenv(name);
      names_.push_back(name);
    }
    for (const auto& [name, value] : wanted) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : saved_) ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::string> saved_;
};

TEST_CASE("no launcher is a world of one") {
  const Environment environment({});
  const LaunchIdentity identity = read_launch_identity();
  CHECK(identity.launcher == "none");
  CHECK(identity.world_size == 1);
  CHECK(identity.rank_source.empty());
}

TEST_CASE("each launcher alone") {
  {
    const Environment environment({{"OMPI_COMM_WORLD_RANK", "3"},
                                   {"OMPI_COMM_WORLD_SIZE", "8"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
    const LaunchIdentity identity = read_launch_identity();
    CHECK(identity.launcher == "openmpi");
    CHECK(identity.rank == 3);
    CHECK(identity.world_size == 8);
    CHECK(identity.local_rank == 1);
    CHECK(identity.several_hosts);
    CHECK(identity.rank_source == "OMPI_COMM_WORLD_RANK");
  }
  {
    const Environment environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
    CHECK(read_launch_identity().launcher == "mpich");
  }
  {
    const Environment environment(
        {{"RANK", "5"}, {"WORLD_SIZE", "6"}, {"TORCHELASTIC_RUN_ID", "job"}});
    CHECK(read_launch_identity().launcher == "torchrun");
  }
  {
    const Environment environment(
        {{"SLURM_PROCID", "4"}, {"SLURM_STEP_NUM_TASKS", "16"}, {"SLURM_STEP_ID", "0"}});
    CHECK(read_launch_identity().launcher == "slurm");
    CHECK(read_launch_identity().world_size == 16);
  }
}

TEST_CASE("what only looks like a launcher is none") {
  // A batch script; a pod-level RANK; a rank outside its world; a word for a number.
  const std::map<std::string, std::string> cases[] = {
      {{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967291"}},
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}},
      {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
      {{"PMI_RANK", "one"}, {"PMI_SIZE", "2"}}};
  for (const auto& variables : cases) {
    const Environment environment(variables);
    CHECK(read_launch_identity().launcher == "none");
  }
}

TEST_CASE("mpirun inside a Slurm step wins; two launchers of one level must agree") {
  std::map<std::string, std::string> both = {{"SLURM_PROCID", "0"},
                                             {"SLURM_STEP_NUM_TASKS", "2"},
                                             {"SLURM_STEP_ID", "0"},
                                             {"OMPI_COMM_WORLD_RANK", "1"},
                                             {"OMPI_COMM_WORLD_SIZE", "4"}};
  {
    const Environment environment(both);
    CHECK(read_launch_identity().launcher == "openmpi");
    CHECK(read_launch_identity().rank == 1);
  }
  both["PMI_RANK"] = "1";
  both["PMI_SIZE"] = "4";
  {
    const Environment environment(both);
    CHECK(read_launch_identity().launcher == "openmpi");
  }
  both["PMI_RANK"] = "2";
  {
    const Environment environment(both);
    try {
      read_launch_identity();
      FAIL("the launchers disagree");
    } catch (const Error& error) {
      CHECK(error.code() == "NQD3004");
      CHECK(error.exit_code() == ExitCode::kEnvironment);
      CHECK(std::string(error.what()).find("PMI_RANK") != std::string::npos);
    }
  }
}

TEST_CASE("a world of one thread by default, of N on request, of none never") {
  const Environment environment({});
  int ranks = 0;
  run_world({}, [&](Communicator& world) { ranks = world.size(); });
  CHECK(ranks == 1);
  run_world({.ranks = 3}, [&](Communicator& world) {
    if (world.rank() == 0) ranks = world.size();
  });
  CHECK(ranks == 3);
  CHECK_THROWS_AS(run_world({.ranks = 0}, [](Communicator&) {}), Error);
}

TEST_CASE("RANK and WORLD_SIZE alone count where a rendezvous is asked for") {
  const Environment environment({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}});
  CHECK(read_launch_identity().launcher == "none");
  const LaunchIdentity identity = read_launch_identity(true);
  CHECK(identity.launcher == "env");
  CHECK(identity.rank == 2);
  CHECK(identity.world_size == 4);
  CHECK(identity.local_rank == 1);
  ::setenv("TORCHELASTIC_RUN_ID", "job", 1);
  CHECK(read_launch_identity(true).launcher == "torchrun");
}

TEST_CASE("a rendezvous in the shell of a Slurm step of one takes the script's ranks") {
  const Environment environment({{"SLURM_PROCID", "0"},
                                 {"SLURM_STEP_NUM_TASKS", "1"},
                                 {"SLURM_STEP_ID", "0"},
                                 {"RANK", "1"},
                                 {"WORLD_SIZE", "2"}});
  CHECK(read_launch_identity().launcher == "slurm");
  CHECK(read_launch_identity(true).launcher == "env");
  CHECK(read_launch_identity(true).rank == 1);
  ::setenv("SLURM_STEP_NUM_TASKS", "2", 1);
  CHECK(read_launch_identity(true).launcher == "slurm");
}

TEST_CASE("a launcher may say that its ranks are on several hosts") {
  std::map<std::string, std::string> words = {{"RANK", "0"}, {"WORLD_SIZE", "4"}};
  const auto several = [&] {
    const Environment environment(words);
    return read_launch_identity(true).several_hosts;
  };
  CHECK(!several());
  words["LOCAL_WORLD_SIZE"] = "4";
  CHECK(!several());
  words["LOCAL_WORLD_SIZE"] = "2";
  CHECK(several());
  words = {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_ID", "0"}};
  words["SLURM_STEP_NUM_NODES"] = "1";
  CHECK(!several());
  words["SLURM_STEP_NUM_NODES"] = "2";
  CHECK(several());
}

WorldOptions meeting_at(const std::string& rendezvous, const std::string& backend = "auto") {
  WorldOptions options;
  options.backend = backend;
  options.rendezvous = rendezvous;
  return options;
}

TEST_CASE("a rendezvous that cannot be is refused before anybody waits") {
  const auto code_of = [](const WorldOptions& options) {
    try {
      run_world(options, [](Communicator&) {});
    } catch (const Error& error) {
      return error.code() + " " + std::to_string(static_cast<int>(error.exit_code()));
    }
    return std::string("it ran");
  };
  const testing::TemporaryFolder folder;
  const std::string nowhere = "file:" + (folder / "nowhere").string();
  {
    const Environment environment({});
    CHECK(code_of(meeting_at(nowhere)) == "NQD3007 3");
  }
  const Environment environment({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  CHECK(code_of(meeting_at("tcp://host:29500")) == "NQD3007 2");
  CHECK(code_of(meeting_at("file:")) == "NQD3007 2");
  CHECK(code_of(meeting_at(nowhere, "mpi")) == "NQD3007 3");
  WorldOptions three = meeting_at(nowhere);
  three.ranks = 3;
  CHECK(code_of(three) == "NQD3001 3");
}

TEST_CASE("a world of one needs nobody to meet") {
  const Environment environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  const testing::TemporaryFolder folder;
  int ranks = 0;
  run_world(meeting_at("file:" + (folder / "nobody").string()),
            [&](Communicator& world) { ranks = world.size(); });
  CHECK(ranks == 1);
}

TEST_CASE("ranks of torchrun cannot reach each other without a file") {
  const Environment environment(
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "job"}});
  try {
    run_world({}, [](Communicator&) {});
    FAIL("it ran");
  } catch (const Error& error) {
    CHECK(error.code() == "NQD3003");
  }
}

}  // namespace
}  // namespace nqd::collectives
