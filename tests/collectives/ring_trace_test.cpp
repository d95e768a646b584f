// The ring's steps as one rank sees them, against the golden trace.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "collectives/algorithms/ring.h"
#include "collectives/algorithms/tree.h"
#include "collectives/world.h"

namespace nqd::collectives {
namespace {

// One rank of a ring of 4 on eight floats, rank r filled with r+1. It notes which elements leave,
// and plays the left neighbour: in reduce-scatter step s, rank r−1 passes on a chunk that holds the
// inputs of ranks r−1, …, r−1−s.
class TracingTransport final : public Transport {
 public:
  TracingTransport(int rank, std::span<const float> vector)
      : Transport("world"), rank_(rank), vector_(vector) {}

  int rank() const override { return rank_; }
  int size() const override { return 4; }
  std::string_view backend() const override { return "trace"; }
  int world_rank(int rank) const override { return rank; }
  const std::string& host(int) const override { return host_; }
  std::vector<std::byte> gather_control(std::span<const std::byte>) override { return {}; }
  std::unique_ptr<Transport> subgroup(const std::vector<int>&, const std::string&) override {
    return nullptr;
  }

  std::vector<std::size_t> sent_chunks;
  std::vector<float> sent_values;

 private:
  void do_check() override {}
  void do_publish() override {}
  void do_send(std::span<const std::byte> data, int to, int) override {
    CHECK(to == (rank_ + 1) % 4);
    REQUIRE(data.size() == 2 * sizeof(float));
    const auto* first = reinterpret_cast<const float*>(data.data());
    sent_chunks.push_back(static_cast<std::size_t>(first - vector_.data()) / 2);
    sent_values.push_back(*first);
  }
  void do_receive(std::span<std::byte> data, int from, int) override {
    CHECK(from == (rank_ + 3) % 4);
    float value = 0;
    const int step = static_cast<int>(stage().step);
    for (int i = 0; step < 3 && i <= step; ++i) value += static_cast<float>((from - i + 4) % 4 + 1);
    if (step >= 3) value = 10;
    for (std::size_t at = 0; at < data.size(); at += sizeof value) {
      std::memcpy(data.data() + at, &value, sizeof value);
    }
  }
  void do_wait() override {}

  int rank_;
  std::span<const float> vector_;
  std::string host_ = "here";
};

TEST_CASE("golden trace of the ring all_reduce, N = 4, eight elements") {
  for (int rank = 0; rank < 4; ++rank) {
    std::array<float, 8> vector;
    vector.fill(static_cast<float>(rank + 1));
    const auto bytes = std::as_writable_bytes(std::span(vector));
    TracingTransport transport(rank, vector);
    Scratch scratch;
    transport.begin(Collective::kAllReduce);
    ring_all_reduce(transport, scratch, bytes, bytes, DType::kFloat32, ReduceOp::kSum);
    const auto r = static_cast<std::size_t>(rank);
    // Reduce-scatter sends r, r−1, r−2; what is owned then, (r+1) mod 4, leaves first in the
    // all-gather, complete.
    CHECK(transport.sent_chunks ==
          std::vector<std::size_t>{r, (r + 3) % 4, (r + 2) % 4, (r + 1) % 4, r, (r + 3) % 4});
    CHECK(transport.sent_values[0] == static_cast<float>(rank + 1));
    CHECK(transport.sent_values[3] == 10);
    for (const float value : vector) CHECK(value == 10);
    const TrafficCount count = transport.traffic().at({"world", Collective::kAllReduce});
    CHECK(count.bytes_sent == 12 * sizeof(float));
    CHECK(count.messages == 6);
  }
}

TEST_CASE("a ring all_reduce holds one receive buffer: the longest chunk seen") {
  run_threads(3, {}, [](Communicator& world) {
    MemoryLedger ledger;
    world.set_ledger(&ledger);
    const auto reduce = [&](std::size_t count) {
      std::vector<float> data(count, 1.0f);
      const auto bytes = writable_bytes_of(std::span(data));
      world.all_reduce(bytes, bytes, DType::kFloat32, ReduceOp::kSum, Algorithm::kRing);
      return ledger.current_bytes(MemoryTag::kCommunication);
    };
    CHECK(reduce(100) == chunk_of(100, 3, 0).count * 4);
    CHECK(reduce(1000) == chunk_of(1000, 3, 0).count * 4);
    CHECK(reduce(10) == chunk_of(1000, 3, 0).count * 4);
    // Growing never holds two buffers.
    CHECK(ledger.peak_bytes(MemoryTag::kCommunication) == chunk_of(1000, 3, 0).count * 4);
    world.set_ledger(nullptr);
    CHECK(ledger.current_bytes(MemoryTag::kCommunication) == 0);
  });
}

}  // namespace
}  // namespace nqd::collectives
