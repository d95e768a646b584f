// Memory for the buffers of collectives ("registered"): the other ranks of this host read and write
// it in place, so that a large all_reduce touches memory the least possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/ledger.h"
#include "collectives/shared/segment.h"

namespace nqd::collectives {

// A zero-filled, page-aligned block counted in a ledger from construction to destruction; a null
// ledger counts nothing. Move-only. Not collective: a rank makes and frees it when it likes, but no
// collective may be at work on it then. Throws std::bad_alloc.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  SharedBuffer(MemoryLedger* ledger, MemoryTag tag, std::size_t bytes);
  ~SharedBuffer();
  SharedBuffer(SharedBuffer&& other) noexcept;
  SharedBuffer& operator=(SharedBuffer&& other) noexcept;

  std::byte* data() { return segment_ ? segment_->data() : nullptr; }
  const std::byte* data() const { return segment_ ? segment_->data() : nullptr; }
  std::size_t size() const { return segment_ ? segment_->size() : 0; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data());
  }

 private:
  void release();

  MemoryLedger* ledger_ = nullptr;
  MemoryTag tag_ = MemoryTag::kWorkspace;
  std::unique_ptr<Segment> segment_;
};

// A span as a peer finds it: in a shared buffer (segment.descriptor >= 0), or in this process
// alone.
struct BufferPlace {
  Segment::Address segment;
  std::uint64_t offset = 0;  // in the segment
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

// The identity of this process, which must not fork and go on with collectives.
std::int64_t own_process();

// Where `data` lies. A span that reaches beyond its shared buffer counts as private.
BufferPlace place_of(const std::byte* data, std::size_t bytes);

// Shared buffers that this process has freed so far: a change tells peers to drop their mappings.
std::uint32_t freed_shared_buffers();

// A mapping of a peer's segment, one for all groups of this process. Null as Segment::attach.
std::shared_ptr<Segment> attach_shared(const Segment::Address& address);

}  // namespace nqd::collectives
