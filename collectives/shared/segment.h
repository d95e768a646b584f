// Memory that processes of one host share: an anonymous memory file, which no name in the file
// system keeps alive, so that nothing stays behind, even after SIGKILL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace nqd::collectives {

class Segment {
 public:
  // How another process of this host finds the segment.
  struct Address {
    std::int64_t pid = 0;
    std::int32_t descriptor = -1;
    std::uint64_t bytes = 0;
    std::uint64_t nonce = 0;
  };

  // A zero-filled segment of `bytes` bytes, aligned to a page (a huge page where the system grants
  // one to memory files). Where the system has no memory files it is this process's alone, and
  // nobody can attach. Throws std::bad_alloc.
  static std::unique_ptr<Segment> create(std::size_t bytes);
  // The segment of another process. Null when it cannot be reached (another PID namespace, say), is
  // not the one that `address` describes, or was freed.
  static std::unique_ptr<Segment> attach(const Address& address);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return static_cast<std::size_t>(address_.bytes); }
  // Descriptor -1: nobody can attach (any more).
  const Address& address() const { return address_; }
  // From here on nobody can attach; the memory lives as long as its mappings.
  void close_descriptor();

 private:
  Segment(const Address& address, std::byte* data, std::size_t mapped_bytes)
      : address_(address), data_(data), mapped_bytes_(mapped_bytes) {}

  Address address_;
  std::byte* data_;
  std::size_t mapped_bytes_;
};

}  // namespace nqd::collectives
