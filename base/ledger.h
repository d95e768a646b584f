// Measured memory: every buffer that nqd's engine or collectives allocate is counted here, by tag,
// at the moment it is allocated and freed. Nothing reads a plan: the audit compares the two.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

namespace nqd {

enum class MemoryTag : std::uint8_t {
  kWeights,
  kGradients,
  kMaster,
  kMoments,
  kEma,
  kGatheredUnits,
  kActivations,
  kActivationGradients,
  kLogits,
  kWorkspace,
  kCommunication,  // buckets and collective scratch
  kData,           // token batches
  kCheckpoint,     // the copy of the state that a save writes
  // Planned only: no buffer of nqd's has these tags.
  kAllocatorReserve,  // what a caching allocator holds without using it
  kDeviceContext,     // of the driver and the communication library
  kCount,
};

// The field name used in evidence: "weights", "gradients", …
std::string_view name(MemoryTag tag);
// Weights, gradients, master, moments and EMA live from start to end.
constexpr bool is_persistent(MemoryTag tag) { return tag <= MemoryTag::kEma; }

// One per rank. Thread-safe: the communication worker of a rank allocates too.
class MemoryLedger {
 public:
  void add(MemoryTag tag, std::size_t bytes);
  void remove(MemoryTag tag, std::size_t bytes);

  std::uint64_t current_bytes(MemoryTag tag) const;
  std::uint64_t peak_bytes(MemoryTag tag) const;
  std::uint64_t current_total_bytes() const;
  std::uint64_t peak_total_bytes() const;  // the peak of the sum, not the sum of peaks

 private:
  static constexpr std::size_t kTags = static_cast<std::size_t>(MemoryTag::kCount);
  mutable std::mutex mutex_;
  std::array<std::uint64_t, kTags> current_{};
  std::array<std::uint64_t, kTags> peak_{};
  std::uint64_t total_ = 0;
  std::uint64_t peak_total_ = 0;
};

// A zero-filled, 64-byte-aligned block counted in a ledger from construction to destruction. The
// ledger is told the bytes asked for (`size`), and must outlive the buffer; a null ledger counts
// nothing. Move-only. Throws std::bad_alloc.
class Buffer {
 public:
  Buffer() = default;
  Buffer(MemoryLedger* ledger, MemoryTag tag, std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  void release();
  MemoryLedger* ledger_ = nullptr;
  MemoryTag tag_ = MemoryTag::kWorkspace;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace nqd
