// One collective with its result, its traffic and what must stay as it was.
#include "tests/cases/rank_cases.h"

namespace nqd::collectives {

std::string label(std::string_view call, DType type, ReduceOp op, std::size_t count) {
  return std::string(call) + " " + std::string(name(type)) + " " + std::string(name(op)) + " of " +
         std::to_string(count);
}

void Cases::check_values(const Values& got, ReduceOp op, std::size_t offset,
                         const std::string& what) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.count(); ++i) {
    wrong += got.get(i) != expected_value(op, n_, offset + i, got.type());
  }
  check(wrong == 0, what + ": " + std::to_string(wrong) + " wrong elements");
}

void Cases::check_traffic(Communicator& group, Collective collective, Algorithm algorithm,
                          std::size_t count, DType type, std::uint64_t calls,
                          const std::string& what) {
  const RankTraffic one = rank_traffic(host_map_of(group), collective, algorithm,
                                       unsigned(group.rank()), count, size_bytes(type));
  const Traffic traffic = group.traffic();
  const auto found = traffic.find({group.group(), collective});
  const TrafficCount counted = found == traffic.end() ? TrafficCount{} : found->second;
  check(traffic.size() == 1 && counted.calls == calls && counted.messages == calls * one.messages &&
            counted.bytes_sent == calls * one.bytes_sent,
        what + ": counted " + std::to_string(counted.messages) + " messages, " +
            std::to_string(counted.bytes_sent) + " bytes; cost.h says " +
            std::to_string(calls * one.messages) + ", " + std::to_string(calls * one.bytes_sent));
  group.reset_traffic();
}

void Cases::one_all_reduce(DType type, ReduceOp op, std::size_t count, Algorithm algorithm,
                           bool in_place, Memory memory) {
  const std::string what = std::string(name(algorithm)) + " " +
                           label(in_place ? "in-place all_reduce" : "all_reduce", type, op, count);
  Values in(type, count, memory);
  Values out(type, count, memory);
  fill_input(in, op, rank());
  Values& result = in_place ? in : out;
  world_.all_reduce(in.bytes(), result.bytes(), type, op, algorithm);
  check_values(result, op, 0, what);
  check_traffic(world_, Collective::kAllReduce, algorithm, count, type, 1, what);
  if (in_place) return;
  Values unchanged(type, count);
  fill_input(unchanged, op, rank());
  check(in == unchanged, what + ": input changed");
}

void Cases::one_all_gather(DType type, std::size_t count, Algorithm algorithm, Memory memory) {
  const Chunk mine = chunk_of(count, n_, rank());
  Values in(type, mine.count, memory);
  for (std::size_t i = 0; i < mine.count; ++i) in.set(i, double((mine.begin + i) % 251));
  Values out(type, count, memory);
  world_.all_gather(in.bytes(), out.bytes(), type, algorithm);
  bool right = true;
  for (std::size_t i = 0; i < count; ++i) right = right && out.get(i) == double(i % 251);
  const std::string what =
      std::string(name(algorithm)) + " " + label("all_gather", type, ReduceOp::kSum, count);
  check(right, what);
  check_traffic(world_, Collective::kAllGather, algorithm, count, type, 1, what);
}

void Cases::one_reduce_scatter(DType type, ReduceOp op, std::size_t count, Algorithm algorithm,
                               Memory memory) {
  const Chunk mine = chunk_of(count, n_, rank());
  Values in(type, count, memory);
  fill_input(in, op, rank());
  Values out(type, mine.count, memory);
  world_.reduce_scatter(in.bytes(), out.bytes(), type, op, algorithm);
  const std::string what =
      std::string(name(algorithm)) + " " + label("reduce_scatter", type, op, count);
  check_values(out, op, mine.begin, what);
  check_traffic(world_, Collective::kReduceScatter, algorithm, count, type, 1, what);
}

void Cases::one_broadcast(std::size_t count, int root, Algorithm algorithm, Memory memory) {
  Values data(DType::kInt32, count, memory);
  fill_input(data, ReduceOp::kSum, rank());
  world_.broadcast(data.bytes(), root, algorithm);
  Values expected(DType::kInt32, count);
  fill_input(expected, ReduceOp::kSum, unsigned(root));
  const std::string what = label("broadcast", DType::kInt32, ReduceOp::kSum, count);
  check(data == expected, what + " from " + std::to_string(root));
  // cost.h describes root 0; another root turns the tree.
  if (root == 0) {
    check_traffic(world_, Collective::kBroadcast, algorithm, count, DType::kInt32, 1, what);
  }
  world_.reset_traffic();
}

void Cases::one_reduce(DType type, ReduceOp op, std::size_t count, int root, Algorithm algorithm,
                       Memory memory) {
  Values in(type, count, memory);
  Values out(type, count, memory);
  fill_input(in, op, rank());
  const bool is_root = world_.rank() == root;
  world_.reduce(in.bytes(), is_root ? out.bytes() : std::span<std::byte>{}, type, op, root,
                algorithm);
  const std::string what = std::string(name(algorithm)) + " " + label("reduce", type, op, count) +
                           " to " + std::to_string(root);
  if (is_root) check_values(out, op, 0, what);
  // cost.h describes root 0.
  if (root == 0) check_traffic(world_, Collective::kReduce, algorithm, count, type, 1, what);
  world_.reset_traffic();
}

void Cases::one_gather_and_scatter(DType type, std::size_t count, int root, Algorithm algorithm,
                                   Memory memory) {
  const Chunk mine = chunk_of(count, n_, rank());
  const bool is_root = world_.rank() == root;
  Values part(type, mine.count, memory);
  for (std::size_t i = 0; i < mine.count; ++i) part.set(i, double((mine.begin + i) % 251));
  Values full(type, is_root ? count : 0, memory);
  world_.gather(part.bytes(), full.bytes(), type, root, algorithm);
  const std::string what = std::string(name(algorithm)) + " " +
                           label("gather", type, ReduceOp::kSum, count) + " to " +
                           std::to_string(root);
  bool right = true;
  for (std::size_t i = 0; i < full.count(); ++i) right = right && full.get(i) == double(i % 251);
  check(right, what);
  if (root == 0) check_traffic(world_, Collective::kGather, algorithm, count, type, 1, what);
  Values back(type, mine.count, memory);
  world_.reset_traffic();
  world_.scatter(full.bytes(), back.bytes(), type, root, algorithm);
  check(back == part, "scatter after " + what);
  if (root == 0) check_traffic(world_, Collective::kScatter, algorithm, count, type, 1, what);
  world_.reset_traffic();
}

void Cases::one_all_to_all(DType type, std::size_t count, Algorithm algorithm, Memory memory) {
  const Chunk mine = chunk_of(count, n_, rank());
  Values in(type, count, memory);
  Values out(type, n_ * mine.count, memory);
  for (std::size_t i = 0; i < count; ++i) in.set(i, double((i + 31 * rank()) % 251));
  world_.all_to_all(in.bytes(), out.bytes(), type, algorithm);
  bool right = true;
  for (std::size_t from = 0; from < n_; ++from) {
    for (std::size_t i = 0; i < mine.count; ++i) {
      right = right && out.get(from * mine.count + i) == double((mine.begin + i + 31 * from) % 251);
    }
  }
  const std::string what =
      std::string(name(algorithm)) + " " + label("all_to_all", type, ReduceOp::kSum, count);
  check(right, what);
  check_traffic(world_, Collective::kAllToAll, algorithm, count, type, 1, what);
}

}  // namespace nqd::collectives
