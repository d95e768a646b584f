#include "engine/cuda/pool.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace nqd::engine::cuda {
namespace {

constexpr std::size_t kSmallest = 512;
constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr std::size_t kLargeStep = std::size_t{2} << 20;

std::string text(std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

}  // namespace

DevicePool::DevicePool(MemorySource& source, MemoryLedger* ledger,
                       std::function<std::string()> plan)
    : source_(source), ledger_(ledger), plan_(std::move(plan)) {}

DevicePool::~DevicePool() { trim_locked(); }

std::size_t DevicePool::block_bytes(std::size_t bytes) {
  const std::size_t step = bytes < kLarge ? kSmallest : kLargeStep;
  return (bytes + step - 1) / step * step;
}

DeviceBuffer DevicePool::allocate(MemoryTag tag, std::size_t bytes) {
  if (bytes == 0) return {};
  Block block;
  {
    const std::lock_guard lock(mutex_);
    block = take(block_bytes(bytes));
    if (block.data == nullptr) fail(tag, bytes);
  }
  if (ledger_ != nullptr) ledger_->add(tag, bytes);
  return {this, tag, bytes, block};
}

DevicePool::Block DevicePool::take(std::size_t needed) {
  if (const Block kept = take_kept(needed); kept.data != nullptr) return kept;
  std::byte* data = source_.allocate(needed);
  if (data == nullptr && !kept_.empty()) {
    // What is kept is in pieces of other sizes: given back, it may serve as one.
    source_.settle();
    trim_locked();
    data = source_.allocate(needed);
  }
  if (data == nullptr) return {};
  reserved_ += needed;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return {data, needed};
}

DevicePool::Block DevicePool::take_kept(std::size_t needed) {
  // An eighth more is the most that a block may waste: the smallest that fits, if it is that close.
  const auto found = kept_.lower_bound(needed);
  if (found == kept_.end() || found->first > needed + needed / 8) return {};
  const Block block{found->second, found->first};
  kept_.erase(found);
  kept_bytes_ -= block.bytes;
  return block;
}

void DevicePool::trim() {
  const std::lock_guard lock(mutex_);
  trim_locked();
}

void DevicePool::trim_locked() {
  for (const auto& [bytes, data] : kept_) source_.release(data);
  reserved_ -= kept_bytes_;
  kept_.clear();
  kept_bytes_ = 0;
}

void DevicePool::give_back(MemoryTag tag, std::size_t bytes, const Block& block) {
  if (ledger_ != nullptr) ledger_->remove(tag, bytes);
  const std::lock_guard lock(mutex_);
  kept_.emplace(block.bytes, block.data);
  kept_bytes_ += block.bytes;
}

std::size_t DevicePool::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

std::size_t DevicePool::peak_reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_reserved_;
}

void DevicePool::fail(MemoryTag tag, std::size_t bytes) const {
  std::string message = "no device memory for " + text(bytes) + " of " + std::string(name(tag)) +
                        ": " + text(source_.free_bytes()) + " of " + text(source_.total_bytes()) +
                        " are free, this rank has " + text(reserved_);
  if (ledger_ != nullptr) {
    message += " (" + text(ledger_->current_total_bytes()) + " in use)";
  }
  const std::string plan = plan_ ? plan_() : std::string();
  if (!plan.empty()) message += "; " + plan;
  throw Error(ExitCode::kFault, "NQD4062", message,
              "see who else uses the device (nvidia-smi), or take a smaller micro_batch, "
              "activation recomputation or a higher zero stage: `nqd mesh-plan` shows the bytes");
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      tag_(other.tag_),
      size_(std::exchange(other.size_, 0)),
      block_(std::exchange(other.block_, {})) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::exchange(other.pool_, nullptr);
  tag_ = other.tag_;
  size_ = std::exchange(other.size_, 0);
  block_ = std::exchange(other.block_, {});
  return *this;
}

void DeviceBuffer::release() {
  if (pool_ != nullptr) pool_->give_back(tag_, size_, block_);
  pool_ = nullptr;
}

}  // namespace nqd::engine::cuda
