// Files on the disk of this machine, past its cache where that is possible, of every length.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/error.h"
#include "engine/checkpoint/disk_files.h"
#include "tests/temporary_folder.h"

using namespace nqd;
using engine::PageBuffer;

namespace {

constexpr std::size_t kMebibyte = PageBuffer::kBytes;

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937_64 random(count);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// In pieces of `piece` bytes.
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                std::size_t piece) {
  engine::DiskFile file(path);
  while (!bytes.empty()) {
    const std::size_t count = std::min(piece, bytes.size());
    file.write(bytes.first(count));
    bytes = bytes.subspan(count);
  }
  file.sync();
}

}  // namespace

TEST_CASE("files of every length read back, from memory and from the disk") {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "file";
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kMebibyte - 1, kMebibyte,
                                 kMebibyte + 1, 3 * kMebibyte + 4097}) {
    const std::vector<std::byte> bytes = random_bytes(size);
    for (const std::size_t piece : {std::size_t{4099}, kMebibyte, 5 * kMebibyte}) {
      write_file(path, bytes, piece);
      const engine::DiskInput input(path);
      REQUIRE(input.size() == size);
      for (const bool from_disk : {false, true}) {
        if (from_disk) input.drop_cache();
        std::vector<std::byte> read(size);
        input.read(0, read);
        CHECK(read == bytes);
        // A part that begins and ends at no page.
        const std::size_t begin = size / 3;
        read.assign(size / 2, std::byte{0});
        input.read(begin, read);
        CHECK(std::equal(read.begin(), read.end(),
                         bytes.begin() + static_cast<std::ptrdiff_t>(begin)));
      }
    }
  }
}

TEST_CASE("a file that has become shorter is an error, also past the cache") {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "file";
  write_file(path, random_bytes(2 * kMebibyte), kMebibyte);
  const engine::DiskInput input(path);
  std::filesystem::resize_file(path, kMebibyte);
  std::vector<std::byte> read(2 * kMebibyte);
  CHECK_THROWS_AS(input.read(0, read), Error);
  input.drop_cache();
  CHECK_THROWS_AS(input.read(0, read), Error);
}
