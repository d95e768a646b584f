#include <doctest/doctest.h>

#include "base/error.h"
#include "planner/search/fixed.h"

namespace nqd::planner::search {
namespace {

std::string refusal(const char* text) {
  Fixed fixed;
  try {
    read_fixed(text, fixed);
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::kUsage);
    CHECK(error.code() == "NQD1030");
    return error.what();
  }
  return "";
}

TEST_CASE("fixed axes are read and written") {
  Fixed fixed;
  read_fixed("tp=8,engine=zero1,schedule=zb-h1,sequence_parallel=true", fixed);
  read_fixed("pp=4", fixed);
  CHECK(text_of(fixed) == "tp=8,pp=4,engine=zero1,sequence_parallel=true,schedule=zb-h1");
  CHECK(held_keys(fixed).size() == 5);
  CHECK(text_of(without(fixed, "engine")) == "tp=8,pp=4,sequence_parallel=true,schedule=zb-h1");
  Candidate candidate;
  candidate.recompute = Recompute::kSelective;
  CHECK(value_of(candidate, "recompute") == "selective");
  CHECK(value_of(candidate, "tp") == "1");
  Fixed outer;
  read_fixed("tp=2,cp=2", outer);
  CHECK(text_of(combined(fixed, outer)) ==
        "tp=8,pp=4,cp=2,engine=zero1,sequence_parallel=true,schedule=zb-h1");
}

TEST_CASE("what is no axis or no value is refused with what is legal") {
  CHECK(refusal("fsdp=8").find("fsdp") != std::string::npos);
  CHECK(refusal("tp=0").find("a whole number from 1") != std::string::npos);
  CHECK(refusal("tp").find("a whole number from 1") != std::string::npos);
  CHECK(refusal("tp=2x").find("a whole number from 1") != std::string::npos);
  CHECK(refusal("engine=zero9").find("ddp, zero1, zero2, zero3, hsdp") != std::string::npos);
  CHECK(refusal("sequence_parallel=yes").find("true or false") != std::string::npos);
}

}  // namespace
}  // namespace nqd::planner::search
