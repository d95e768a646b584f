#include "engine/gemm/fixed/blocked_product.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace nqd::engine::fixed {
namespace {

// Sizes in floats, for a second-level cache of 1 MiB: a block of A and a panel of B stay there
// while they meet.
constexpr std::int64_t kABlock = 64 * 1024;
constexpr std::int64_t kBBlock = 288 * 1024;
// Unfinished chains and tree nodes of a product that takes several blocks of k.
constexpr std::int64_t kState = 192 * 1024;

// k a block: all of it where possible, since chains that wait between blocks cost memory traffic.
constexpr std::int64_t kOneBlock = 2048;
constexpr std::int64_t kDepth = 1536;
constexpr std::int64_t kStatePanels = 4;  // of columns

// Up to here, packing B takes longer than it saves.
constexpr std::int64_t kDirectRows = 256;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_down(std::int64_t a, std::int64_t unit) { return a / unit * unit; }

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// `items` in as few parts as a limit allows, in order, sizes that differ by at most one.
class Parts {
 public:
  Parts(std::int64_t items, std::int64_t limit) : items_(items), count_(divide_up(items, limit)) {}
  std::int64_t count() const { return count_; }
  Range part(std::int64_t i) const { return {items_ * i / count_, items_ * (i + 1) / count_}; }

 private:
  std::int64_t items_, count_;
};

// Element (row, column) of op(X), in bytes from its start.
std::int64_t offset_bytes(const FixedInput& x, std::int64_t row, std::int64_t column) {
  const std::int64_t elements =
      x.op == Transpose::kNo ? row * x.stride + column : column * x.stride + row;
  return elements * static_cast<std::int64_t>(size_bytes(x.type));
}

const void* element(const FixedInput& x, std::int64_t row, std::int64_t column) {
  return static_cast<const std::byte*>(x.data) + offset_bytes(x, row, column);
}

// Part of a row of C, as float32.
void load_row(const FixedOutput& c, std::int64_t row, const Range& columns, float* out) {
  const std::int64_t first = row * c.stride + columns.begin;
  for (std::int64_t j = 0; j < columns.size(); ++j) {
    if (c.type == DType::kBFloat16) {
      out[j] = to_float(static_cast<const BFloat16*>(c.data)[first + j]);
    } else if (c.type == DType::kFloat16) {
      out[j] = to_float(static_cast<const Float16*>(c.data)[first + j]);
    } else {
      out[j] = static_cast<const float*>(c.data)[first + j];
    }
  }
}

void store_row(const FixedOutput& c, std::int64_t row, const Range& columns, const float* in) {
  const std::int64_t first = row * c.stride + columns.begin;
  for (std::int64_t j = 0; j < columns.size(); ++j) {
    if (c.type == DType::kBFloat16) {
      static_cast<BFloat16*>(c.data)[first + j] = to_bfloat16(in[j]);
    } else if (c.type == DType::kFloat16) {
      static_cast<Float16*>(c.data)[first + j] = to_float16(in[j]);
    } else {
      static_cast<float*>(c.data)[first + j] = in[j];
    }
  }
}

// Where tiles read an operand: packed, or as it is stored.
struct Panel {
  const float* data;         // of the block's first k
  std::int64_t item_stride;  // from row to row of A; columns of B are contiguous
  std::int64_t k_stride;
};

class BlockedProduct {
 public:
  BlockedProduct(const KernelSet& kernels, const FixedProduct& product, float* scratch)
      : kernels_(kernels),
        p_(product),
        slices_(product.slices.count()),
        // Never 0, which divides.
        width_(std::max<std::int64_t>(1, is_sliced() ? product.slices.width : product.k)),
        levels_(std::bit_width(static_cast<std::uint64_t>(slices_ - 1))),
        panel_columns_(kernels.vectors * kernels.lanes),
        a_is_direct_(p_.a.type == DType::kFloat32 &&
                     (p_.a.op == Transpose::kNo || kernels.reads_transposed_a)),
        b_is_direct_(p_.b.type == DType::kFloat32 && p_.b.op == Transpose::kNo &&
                     p_.alpha == 1.0F && p_.m <= kDirectRows),
        a_block_(scratch),
        b_block_(scratch + kABlock),
        state_(b_block_ + kBBlock),
        edge_(state_ + kState) {
    choose_blocks();
  }

  void run() {
    for (std::int64_t i = 0; i < p_.m; i += state_rows_) {
      const Range rows{i, std::min(i + state_rows_, p_.m)};
      for (std::int64_t j = 0; j < p_.n; j += block_columns_) {
        const Range columns{j, std::min(j + block_columns_, p_.n)};
        // Once for k = 0 too: it has a result.
        for (std::int64_t k = 0; k == 0 || k < p_.k; k += depth_) {
          run_depth(rows, columns, {k, std::min(k + depth_, p_.k)});
        }
      }
    }
  }

 private:
  bool is_sliced() const { return p_.slices.total > 1; }
  bool c_holds_chains() const { return !is_sliced() && p_.c.type == DType::kFloat32; }
  std::int64_t tile_floats() const { return kernels_.rows * panel_columns_; }

  void choose_blocks() {
    const std::int64_t k = std::max<std::int64_t>(1, p_.k);
    depth_ = divide_up(k, divide_up(k, k <= kOneBlock ? kOneBlock : kDepth));
    block_rows_ = round_down(kABlock / depth_, kernels_.rows);
    block_columns_ = round_down(kBBlock / depth_, panel_columns_);
    state_rows_ = std::max<std::int64_t>(1, p_.m);
    if (depth_ < k && !c_holds_chains()) {
      tile_state_ = (levels_ + 1) * tile_floats();
      block_columns_ = std::min(block_columns_, kStatePanels * panel_columns_);
      state_rows_ = kState / tile_state_ / kStatePanels * kernels_.rows;
    }
  }

  Parts column_panels(const Range& columns) const {
    return {divide_up(columns.size(), kernels_.lanes), kernels_.vectors};
  }

  // One block of k for an area of C that the state, and the block of B, have room for.
  void run_depth(const Range& rows, const Range& columns, const Range& depth) {
    pack_b(columns, depth);
    for (std::int64_t i = rows.begin; i < rows.end; i += block_rows_) {
      const Range block{i, std::min(i + block_rows_, rows.end)};
      if (!a_is_direct_) pack_a(block, depth);
      run_block(block, columns, depth, (i - rows.begin) / kernels_.rows);
    }
  }

  // `first_panel`: of the block, counted in rows of tiles from the start of the state.
  void run_block(const Range& rows, const Range& columns, const Range& depth,
                 std::int64_t first_panel) {
    const Parts across = column_panels(columns);
    for (std::int64_t jp = 0; jp < across.count(); ++jp) {
      const Range vectors = across.part(jp);
      const Range tile_columns{columns.begin + vectors.begin * kernels_.lanes,
                               std::min(columns.begin + vectors.end * kernels_.lanes, columns.end)};
      const Panel b = panel_b(columns, tile_columns, depth);
      float* state = state_ + (first_panel * kStatePanels + jp) * tile_state_;
      for (std::int64_t row = rows.begin; row < rows.end; row += kernels_.rows) {
        run_tile(panel_a(rows.begin, row, depth), b, {row, std::min(row + kernels_.rows, rows.end)},
                 tile_columns, depth, state);
        state += kStatePanels * tile_state_;
      }
    }
  }

  void pack_b(const Range& columns, const Range& depth) const {
    const Parts across = column_panels(columns);
    for (std::int64_t jp = 0; jp < across.count(); ++jp) {
      const Range vectors = across.part(jp);
      const std::int64_t first = vectors.begin * kernels_.lanes;
      const std::int64_t width = vectors.size() * kernels_.lanes;
      const std::int64_t count = std::min(width, columns.size() - first);
      if (b_is_direct_ && count == width) continue;
      kernels_.pack({element(p_.b, depth.begin, columns.begin + first), p_.b.type, p_.b.stride,
                     p_.b.op == Transpose::kYes, depth.size(), count, width, p_.alpha,
                     b_block_ + first * depth.size()});
    }
  }

  // Columns of a tile, of the block `columns`.
  Panel panel_b(const Range& columns, const Range& tile, const Range& depth) const {
    const std::int64_t width = divide_up(tile.size(), kernels_.lanes) * kernels_.lanes;
    if (b_is_direct_ && tile.size() == width) {
      return {static_cast<const float*>(element(p_.b, depth.begin, tile.begin)), 1, p_.b.stride};
    }
    return {b_block_ + (tile.begin - columns.begin) * depth.size(), 1, width};
  }

  void pack_a(const Range& rows, const Range& depth) const {
    kernels_.pack({element(p_.a, rows.begin, depth.begin), p_.a.type, p_.a.stride,
                   p_.a.op == Transpose::kNo, depth.size(), rows.size(), kernels_.rows, 1.0F,
                   a_block_});
  }

  // Rows from `row` of the block that starts at `first`.
  Panel panel_a(std::int64_t first, std::int64_t row, const Range& depth) const {
    if (!a_is_direct_) return {a_block_ + (row - first) * depth.size(), 1, kernels_.rows};
    const bool transposed = p_.a.op == Transpose::kYes;
    return {static_cast<const float*>(element(p_.a, row, depth.begin)),
            transposed ? 1 : p_.a.stride, transposed ? p_.a.stride : 1};
  }

  // All chains of a tile that have a part in this block of k.
  void run_tile(const Panel& a, const Panel& b, const Range& rows, const Range& columns,
                const Range& depth, float* state) {
    const std::int64_t vectors = divide_up(columns.size(), kernels_.lanes);
    const TileFunction function =
        kernels_.tile(!a_is_direct_, static_cast<int>(rows.size()), static_cast<int>(vectors));
    Tile tile{};
    std::array<Addend, kMaxAddends> addends;
    tile.a_row = a.item_stride;
    tile.a_k = a.k_stride;
    tile.b_k = b.k_stride;
    tile.addends = addends.data();
    std::int64_t k = depth.begin;
    for (std::int64_t slice = k / width_; slice < slices_; ++slice) {
      const std::int64_t slice_end = std::min((slice + 1) * width_, p_.k);
      const bool starts = k == std::min(slice * width_, p_.k);
      const std::int64_t end = std::min(slice_end, depth.end);
      tile.a = a.data + (k - depth.begin) * tile.a_k;
      tile.b = b.data + (k - depth.begin) * tile.b_k;
      tile.k = end - k;
      k = end;
      const bool finishes = k == slice_end;
      run_chain(function, tile, addends.data(), rows, columns, state, slice, starts, finishes);
      // The last block also does the slices after the end of k, which are empty.
      if (k == depth.end && (depth.end < p_.k || !finishes)) return;
    }
  }

  struct Place {
    float* data;
    std::int64_t stride;
  };
  // A tile of C, or of the buffer in its stead where a tile would not fit it.
  Place place_in_c(const Range& rows, const Range& columns) const {
    if (p_.c.type != DType::kFloat32 || columns.size() % kernels_.lanes != 0) {
      return {edge_, panel_columns_};
    }
    return {static_cast<float*>(p_.c.data) + rows.begin * p_.c.stride + columns.begin, p_.c.stride};
  }

  // One part of a chain. Nodes of the tree that wait for their right neighbour lie in the state by
  // level, as in a binary counter: those that slice s meets are the ones that end its number. An
  // unfinished chain lies above them, unless C holds it.
  void run_chain(TileFunction function, Tile& tile, Addend* addends, const Range& rows,
                 const Range& columns, float* state, std::int64_t slice, bool starts,
                 bool finishes) {
    const auto node = [&](int level) {
      return Place{state + level * tile_floats(), panel_columns_};
    };
    const bool is_last = finishes && slice == slices_ - 1;
    const Place c = place_in_c(rows, columns);
    const Place chain = c_holds_chains() ? c : node(levels_);
    const bool continues_c = starts && !is_sliced() && p_.accumulate;
    const bool adds_c = is_last && is_sliced() && p_.accumulate;
    const Place start = continues_c ? c : starts ? Place{nullptr, 0} : chain;

    const auto number = static_cast<std::uint32_t>(slice);
    const std::uint32_t met = !finishes ? 0 : is_last ? number : number & ~(number + 1);
    tile.addend_count = 0;
    for (std::uint32_t left = met; left != 0; left &= left - 1) {
      const Place place = node(std::countr_zero(left));
      addends[tile.addend_count++] = {place.data, place.stride};
    }
    if (adds_c) addends[tile.addend_count++] = {c.data, c.stride};
    const Place out = is_last ? c : finishes ? node(std::popcount(met)) : chain;

    const bool through_edge = c.data == edge_;
    if (through_edge && (adds_c || start.data == edge_)) {
      for (std::int64_t i = 0; i < rows.size(); ++i) {
        load_row(p_.c, rows.begin + i, columns, edge_ + i * panel_columns_);
      }
    }
    tile.start = start.data;
    tile.start_stride = start.stride;
    tile.out = out.data;
    tile.out_stride = out.stride;
    function(tile);
    if (out.data != edge_) return;
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      store_row(p_.c, rows.begin + i, columns, edge_ + i * panel_columns_);
    }
  }

  const KernelSet& kernels_;
  const FixedProduct& p_;
  std::int64_t slices_, width_;
  int levels_;
  std::int64_t panel_columns_;
  bool a_is_direct_, b_is_direct_;
  float* a_block_;
  float* b_block_;
  float* state_;
  float* edge_;
  std::int64_t depth_ = 0, block_rows_ = 0, block_columns_ = 0, state_rows_ = 0, tile_state_ = 0;
};

}  // namespace

std::int64_t scratch_floats() { return kABlock + kBBlock + kState + kMaxTileFloats; }

void blocked_product(const KernelSet& kernels, const FixedProduct& product, float* scratch) {
  BlockedProduct(kernels, product, scratch).run();
}

}  // namespace nqd::engine::fixed
