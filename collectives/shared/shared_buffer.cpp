#include "collectives/shared/shared_buffer.h"

#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

namespace nqd::collectives {
namespace {

// The shared buffers of this process by their first byte.
struct Registry {
  std::mutex mutex;
  std::map<const std::byte*, const Segment*> segments;
  std::map<std::pair<std::int64_t, std::uint64_t>, std::weak_ptr<Segment>> attached;  // pid, nonce
  std::atomic<std::uint32_t> freed{0};
};

// Never destroyed: buffers with static lifetime may outlive any static object.
Registry& registry() {
  static auto* const instance = new Registry();
  return *instance;
}

}  // namespace

SharedBuffer::SharedBuffer(MemoryLedger* ledger, MemoryTag tag, std::size_t bytes)
    : ledger_(ledger), tag_(tag), segment_(Segment::create(bytes)) {
  {
    const std::lock_guard lock(registry().mutex);
    registry().segments[segment_->data()] = segment_.get();
  }
  if (ledger_ != nullptr) ledger_->add(tag_, bytes);
}

SharedBuffer::~SharedBuffer() { release(); }

SharedBuffer::SharedBuffer(SharedBuffer&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      tag_(other.tag_),
      segment_(std::move(other.segment_)) {}

SharedBuffer& SharedBuffer::operator=(SharedBuffer&& other) noexcept {
  if (this != &other) {
    release();
    ledger_ = std::exchange(other.ledger_, nullptr);
    tag_ = other.tag_;
    segment_ = std::move(other.segment_);
  }
  return *this;
}

void SharedBuffer::release() {
  if (!segment_) return;
  {
    const std::lock_guard lock(registry().mutex);
    registry().segments.erase(segment_->data());
  }
  ++registry().freed;
  if (ledger_ != nullptr) ledger_->remove(tag_, segment_->size());
  segment_.reset();
}

std::int64_t own_process() {
  // A call of the kernel each time would be a third of a small collective.
  static const std::int64_t pid = ::getpid();
  return pid;
}

BufferPlace place_of(const std::byte* data, std::size_t bytes) {
  BufferPlace place;
  place.segment.pid = own_process();
  place.address = reinterpret_cast<std::uintptr_t>(data);
  place.bytes = bytes;
  const std::lock_guard lock(registry().mutex);
  const auto after = registry().segments.upper_bound(data);
  if (after == registry().segments.begin()) return place;
  const Segment& segment = *std::prev(after)->second;
  const auto offset = static_cast<std::size_t>(data - segment.data());
  if (offset > segment.size() || bytes > segment.size() - offset) return place;
  place.segment = segment.address();
  place.offset = offset;
  return place;
}

std::uint32_t freed_shared_buffers() { return registry().freed; }

std::shared_ptr<Segment> attach_shared(const Segment::Address& address) {
  const std::lock_guard lock(registry().mutex);
  std::weak_ptr<Segment>& known = registry().attached[{address.pid, address.nonce}];
  if (auto segment = known.lock()) return segment;
  std::shared_ptr<Segment> segment = Segment::attach(address);
  known = segment;
  std::erase_if(registry().attached, [](const auto& entry) { return entry.second.expired(); });
  return segment;
}

}  // namespace nqd::collectives
