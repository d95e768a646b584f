#include "collectives/shared/peer_memory.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace nqd::collectives {
namespace {

TEST_CASE("who is missing is known as it is now, not as it was when the check began") {
  // A rank that arrives, and ends, between the two must not be taken for lost.
  const std::shared_ptr<Segment> control = Segment::create(PeerMemory::control_bytes(2));
  PeerMemory::Options late;
  late.size = 2;
  late.one_process = true;
  late.check = [](double) {};
  PeerMemory late_rank(control, late);

  std::atomic<bool> asked = false;
  std::atomic<bool> arrived = false;
  std::vector<int> before;
  std::vector<int> after;
  PeerMemory* waiting = nullptr;
  PeerMemory::Options early = late;
  early.rank = 1;
  early.check = [&](double) {
    if (asked) return;
    before = waiting->missing();
    asked = true;
    while (!arrived) std::this_thread::yield();
    after = waiting->missing();
  };
  PeerMemory early_rank(control, early);
  waiting = &early_rank;
  std::jthread other([&] {
    while (!asked) std::this_thread::yield();
    late_rank.sync();
    arrived = true;
  });
  early_rank.sync();
  CHECK(before == std::vector<int>{0});
  CHECK(after.empty());
}

}  // namespace
}  // namespace nqd::collectives
