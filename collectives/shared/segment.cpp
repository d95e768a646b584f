#include "collectives/shared/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <random>
#include <string>
#include <utility>

namespace nqd::collectives {
namespace {

// The nonce stands behind the data: the data begins on a page.
constexpr std::size_t kTrailer = sizeof(std::uint64_t);
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::uint64_t new_nonce() {
  std::random_device entropy;
  return (std::uint64_t{entropy()} << 32) | entropy();
}

// Descriptor -1 maps fresh memory.
std::byte* map(int descriptor, std::size_t bytes) {
  const int flags = MAP_SHARED | (descriptor < 0 ? MAP_ANONYMOUS : 0);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  // Refused where the system keeps huge pages from memory files; the segment works all the same.
  if (bytes >= kHugePage) ::madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

std::size_t trailer_place(std::size_t bytes) {
  return (bytes + kTrailer - 1) / kTrailer * kTrailer;
}

}  // namespace

std::unique_ptr<Segment> Segment::create(std::size_t bytes) {
  const std::size_t mapped = trailer_place(bytes) + kTrailer;
  int descriptor = ::memfd_create("nqd", MFD_CLOEXEC);
  if (descriptor >= 0 && ::ftruncate(descriptor, static_cast<off_t>(mapped)) != 0) {
    ::close(std::exchange(descriptor, -1));
  }
  std::byte* const data = map(descriptor, mapped);
  if (data == nullptr) {
    if (descriptor >= 0) ::close(descriptor);
    throw std::bad_alloc();
  }
  const Address address{::getpid(), descriptor, bytes, new_nonce()};
  *reinterpret_cast<std::uint64_t*>(data + trailer_place(bytes)) = address.nonce;
  return std::unique_ptr<Segment>(new Segment(address, data, mapped));
}

std::unique_ptr<Segment> Segment::attach(const Address& address) {
  if (address.descriptor < 0) return nullptr;
  const std::string path =
      "/proc/" + std::to_string(address.pid) + "/fd/" + std::to_string(address.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  const std::size_t place = trailer_place(static_cast<std::size_t>(address.bytes));
  const std::size_t mapped = place + kTrailer;
  // In another PID namespace the path may name a foreign file: look before mapping.
  std::uint64_t nonce = 0;
  const bool ours =
      ::lseek(descriptor, 0, SEEK_END) == static_cast<off_t>(mapped) &&
      ::pread(descriptor, &nonce, sizeof nonce, static_cast<off_t>(place)) == sizeof nonce &&
      nonce == address.nonce;
  std::byte* const data = ours ? map(descriptor, mapped) : nullptr;
  ::close(descriptor);
  if (data == nullptr) return nullptr;
  Address mine = address;
  mine.descriptor = -1;
  return std::unique_ptr<Segment>(new Segment(mine, data, mapped));
}

Segment::~Segment() {
  close_descriptor();
  ::munmap(data_, mapped_bytes_);
}

void Segment::close_descriptor() {
  if (address_.descriptor >= 0) ::close(address_.descriptor);
  address_.descriptor = -1;
}

}  // namespace nqd::collectives
