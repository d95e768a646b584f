#include "collectives/algorithms/tree.h"

#include <vector>

#include "collectives/algorithms/copy.h"
#include "collectives/algorithms/pieces.h"
#include "collectives/reduce.h"

namespace nqd::collectives {
namespace {

// The power of two that leads from `relative` to its parent; for the root, the first one >= n.
int parent_distance(int relative, int n) {
  int distance = 1;
  while (distance < n && (relative & distance) == 0) distance <<= 1;
  return distance;
}

// One rank's place in the binomial tree, and the pieces in which vectors pass through it.
class Tree {
 public:
  Tree(Transport& transport, int root, std::size_t bytes, DType type)
      : transport_(transport),
        n_(transport.size()),
        root_(root),
        relative_((transport.rank() - root + n_) % n_),
        distance_(parent_distance(relative_, n_)),
        element_(size_bytes(type)),
        count_(bytes / element_),
        pieces_(pieces_of(bytes)) {
    for (int child = 1; child < distance_ && relative_ + child < n_; child <<= 1) {
      children_.push_back(absolute(relative_ + child));
    }
  }

  bool is_root() const { return relative_ == 0; }
  int parent() const { return absolute(relative_ - distance_); }
  // Nearest first.
  const std::vector<int>& children() const { return children_; }
  std::size_t pieces() const { return pieces_; }
  std::size_t longest_piece() const { return chunk_of(count_, pieces_, 0).count * element_; }
  template <typename Byte>
  std::span<Byte> piece(std::span<Byte> vector, std::size_t index) const {
    const Chunk part = chunk_of(count_, pieces_, index);
    return vector.subspan(part.begin * element_, part.count * element_);
  }
  // A later piece of a vector is no new message.
  void send(std::span<const std::byte> piece, std::size_t index, int to) {
    if (index == 0) {
      transport_.send(piece, to);
    } else {
      transport_.send_more(piece, to);
    }
  }

 private:
  int absolute(int relative) const { return (relative + root_) % n_; }

  Transport& transport_;
  int n_;
  int root_;
  int relative_;
  int distance_;
  std::size_t element_;
  std::size_t count_;
  std::size_t pieces_;
  std::vector<int> children_;
};

// The reducing half as one rank does it: adds what its children sum to its own contribution, piece
// by piece, and passes pieces on to the parent.
class ReduceUp {
 public:
  // The sum stays in `sum`, where that is not empty.
  ReduceUp(Transport& transport, Tree& tree, Scratch& scratch, std::span<const std::byte> in,
           std::span<std::byte> sum, DType type, ReduceOp op)
      : transport_(transport), tree_(tree), in_(in), sum_(sum), type_(type), op_(op) {
    // A vector of one piece comes from one child after another, into one buffer.
    if (tree.children().empty()) return;
    const bool one = tree.pieces() == 1;
    const std::size_t longest = tree.longest_piece();
    const std::size_t buffers = one ? 1 : 2 * tree.children().size();
    const std::size_t sums = !sum.empty() ? 0 : one ? 1 : 2;
    const auto all = scratch.take((buffers + sums) * longest);
    received_ = all.first(buffers * longest);
    partial_sums_ = all.subspan(buffers * longest);
  }

  void run() {
    if (tree_.children().empty()) return pass_on_own();
    if (tree_.pieces() == 1) return run_one_piece();
    // In turn t piece t arrives, t−1 is added and t−2 leaves.
    const std::size_t children = tree_.children().size();
    for (std::size_t t = 0; t < tree_.pieces() + (tree_.is_root() ? 1 : 2); ++t) {
      for (std::size_t c = 0; t < tree_.pieces() && c < children; ++c) receive(t, c);
      if (!tree_.is_root() && t >= 2) tree_.send(sum_of(t - 2), t - 2, tree_.parent());
      for (std::size_t c = 0; t >= 1 && t <= tree_.pieces() && c < children; ++c) add(t - 1, c);
      transport_.wait();
    }
  }

 private:
  void pass_on_own() {
    for (std::size_t p = 0; p < tree_.pieces(); ++p) {
      tree_.send(tree_.piece(in_, p), p, tree_.parent());
    }
    transport_.wait();
  }
  void run_one_piece() {
    for (std::size_t c = 0; c < tree_.children().size(); ++c) {
      receive(0, c);
      transport_.wait();
      add(0, c);
    }
    if (tree_.is_root()) return;
    tree_.send(sum_of(0), 0, tree_.parent());
    transport_.wait();
  }
  std::span<std::byte> buffer(std::size_t piece, std::size_t child) const {
    const std::size_t place = tree_.pieces() == 1 ? 0 : piece % 2 * tree_.children().size() + child;
    return received_.subspan(place * tree_.longest_piece(), tree_.piece(in_, piece).size());
  }
  std::span<std::byte> sum_of(std::size_t piece) const {
    if (!sum_.empty()) return tree_.piece(sum_, piece);
    return partial_sums_.subspan(piece % 2 * tree_.longest_piece(), tree_.piece(in_, piece).size());
  }
  void receive(std::size_t piece, std::size_t child) {
    transport_.receive(buffer(piece, child), tree_.children()[child]);
  }
  void add(std::size_t piece, std::size_t child) {
    const std::span<const std::byte> partial =
        child == 0 ? tree_.piece(in_, piece) : std::span<const std::byte>(sum_of(piece));
    reduce(sum_of(piece), buffer(piece, child), partial, type_, op_);
  }

  Transport& transport_;
  Tree& tree_;
  std::span<const std::byte> in_;
  std::span<std::byte> sum_;
  DType type_;
  ReduceOp op_;
  std::span<std::byte> received_;
  std::span<std::byte> partial_sums_;
};

// The other half: piece t arrives from the parent while piece t−1 leaves to the children.
void broadcast_down(Transport& transport, Tree& tree, std::span<std::byte> data) {
  const std::size_t behind = tree.is_root() ? 0 : 1;
  const std::size_t turns = tree.pieces() + (tree.children().empty() ? 0 : behind);
  for (std::size_t t = 0; t < turns; ++t) {
    if (!tree.is_root() && t < tree.pieces()) {
      transport.receive(tree.piece(data, t), tree.parent());
    }
    // Farthest child first: it has the deepest subtree below it.
    for (std::size_t c = tree.children().size(); t >= behind && c-- > 0;) {
      tree.send(tree.piece(data, t - behind), t - behind, tree.children()[c]);
    }
    transport.wait();
  }
}

}  // namespace

void tree_broadcast(Transport& transport, std::span<std::byte> data, int root) {
  if (data.empty() || transport.size() == 1) return;
  Tree tree(transport, root, data.size(), DType::kUInt8);
  broadcast_down(transport, tree, data);
}

void tree_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                 std::span<std::byte> out, DType type, ReduceOp op, int root) {
  if (in.empty()) return;
  Tree tree(transport, root, in.size(), type);
  if (transport.size() == 1) return copy(out, in);
  const auto sum = tree.is_root() ? out : std::span<std::byte>{};
  ReduceUp(transport, tree, scratch, in, sum, type, op).run();
  if (tree.is_root() && op == ReduceOp::kAvg) divide_by(out, type, transport.size());
}

void tree_all_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                     std::span<std::byte> out, DType type, ReduceOp op) {
  if (in.empty()) return;
  if (transport.size() == 1) return copy(out, in);
  Tree tree(transport, 0, in.size(), type);
  ReduceUp(transport, tree, scratch, in, out, type, op).run();
  if (tree.is_root() && op == ReduceOp::kAvg) divide_by(out, type, transport.size());
  broadcast_down(transport, tree, out);
}

void dissemination_barrier(Transport& transport) {
  const int n = transport.size();
  const int rank = transport.rank();
  for (int distance = 1; distance < n; distance <<= 1) {
    transport.receive({}, (rank - distance + n) % n);
    transport.send({}, (rank + distance) % n);
    transport.wait();
  }
}

}  // namespace nqd::collectives
