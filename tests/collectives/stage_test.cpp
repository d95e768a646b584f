#include "collectives/stage.h"

#include <doctest/doctest.h>

#include "collectives/communicator.h"

namespace nqd::collectives {
namespace {

PeerStatus peer(int rank, Stage stage, double silent_s = 0) {
  return {rank, "h" + std::to_string(rank), std::move(stage), true, silent_s, false};
}

const Stage kMine{"dp", Collective::kAllReduce, 41, 3, true};

TEST_CASE("a rank whose heartbeat stands still is named first") {
  const Fault fault =
      timeout_fault(kMine, 60,
                    {peer(0, kMine), peer(2, {"dp", Collective::kAllReduce, 40, 0, false}),
                     peer(3, {"dp", Collective::kAllReduce, 41, 1, true}, 12.34)},
                    {0});
  CHECK(fault.ranks == std::vector<int>{3, 2, 0});
  CHECK(fault.host == "h3");
  CHECK(fault.message ==
        "all_reduce #41 of group dp, step 3 waited 60.0 s for rank 3 on host h3: no heartbeat for "
        "12.3 s, in all_reduce #41 of group dp, step 1; rank 2 on host h2: last stage all_reduce "
        "#40 of group dp; rank 0 on host h0: in all_reduce #41 of group dp, step 3");
  CHECK_THROWS_AS(fault.raise(), TimeoutError);
}

TEST_CASE("a rank in another group has not arrived; a peer that arrived is not at fault") {
  const Fault fault = timeout_fault(
      kMine, 1, {peer(1, {"tp", Collective::kAllReduce, 99, 0, true}), peer(2, kMine)}, {});
  CHECK(fault.ranks == std::vector<int>{1});
}

TEST_CASE("a receive waits for its one peer, not for the group") {
  const Stage receive{"pp", Collective::kSendRecv, 5, 0, true};
  const Fault fault = timeout_fault(receive, 1, {peer(0, {}), peer(1, {})}, {1});
  CHECK(fault.ranks == std::vector<int>{1});
  CHECK(
      fault.message ==
      "send_recv #5 of group pp waited 1.0 s for rank 1 on host h1: last stage no collective yet");
}

TEST_CASE("a rank of another host is named without a stage") {
  PeerStatus far = peer(7, {});
  far.stage_known = false;
  const Fault fault = timeout_fault(kMine, 2, {far}, {7});
  CHECK(fault.message.find("rank 7 on host h7: no answer") != std::string::npos);
}

TEST_CASE("a silent rank of a host that is heard is named before its neighbours") {
  const auto far = [](int rank, double silent_s) {
    PeerStatus status = peer(rank, {}, silent_s);
    status.stage_known = false;
    status.host_silent_s = 0.4;
    return status;
  };
  // A rank speaks once a second: what is 1.5 s old is no silence.
  const Fault fault = timeout_fault(kMine, 9, {far(6, 1.5), far(7, 3.2)}, {6});
  CHECK(fault.ranks == std::vector<int>{7, 6});
  CHECK(
      fault.message ==
      "all_reduce #41 of group dp, step 3 waited 9.0 s for rank 7 on host h7: no answer, no sign "
      "of life for 3.2 s, though its host is heard; rank 6 on host h6: no answer, though its host "
      "is heard");
}

TEST_CASE("ranks of a host that fell silent, last heard a second apart, are not told apart") {
  PeerStatus first = peer(6, {}, 2.6);
  first.stage_known = false;
  first.host_silent_s = 1.9;  // the other one's
  PeerStatus alone = first;
  alone.host_silent_s = 0.9;
  CHECK(timeout_fault(kMine, 2, {first}, {6})
            .message.ends_with(
                "rank 6 on host h6: no answer, and its host has not been heard for 1.9 s"));
  CHECK(
      timeout_fault(kMine, 2, {alone}, {6})
          .message.ends_with(
              "rank 6 on host h6: no answer, no sign of life for 2.6 s, though its host is heard"));
}

TEST_CASE("a lost peer raises PeerLostError that names it") {
  const Fault fault{Fault::Kind::kPeerLost, {3}, "h3", "rank 3 is gone"};
  try {
    fault.raise();
  } catch (const PeerLostError& error) {
    CHECK(error.lost_rank() == 3);
    CHECK(error.host() == "h3");
    CHECK(error.code() == "NQD4001");
    CHECK(error.exit_code() == ExitCode::kFault);
    return;
  }
  FAIL("nothing was thrown");
}

}  // namespace
}  // namespace nqd::collectives
