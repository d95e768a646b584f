// Files of this machine, past the page cache where the file system allows that: gigabytes of a save
// then cost training beside it neither processor time nor memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <span>

#include "engine/checkpoint/storage.h"

namespace nqd::engine {

// The errors of Storage.
[[noreturn]] void throw_unwritten(const std::filesystem::path& path, int error);
[[noreturn]] void throw_unread(const std::filesystem::path& path, int error);

// 1 MiB at an address that suits the disk.
class PageBuffer {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  static constexpr std::size_t kAlignment = 4096;

  PageBuffer() : data_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBytes))) {
    if (!data_) throw std::bad_alloc();
  }
  std::byte* data() { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

class DiskFile final : public StorageFile {
 public:
  explicit DiskFile(std::filesystem::path path);
  ~DiskFile() override;
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  void write(std::span<const std::byte> bytes) override;
  void sync() override;

 private:
  void flush();
  void put(std::span<const std::byte> bytes);
  void start_writing_out();

  std::filesystem::path path_;
  int descriptor_ = -1;
  PageBuffer buffer_;
  std::size_t used_ = 0;  // of it
  bool direct_ = false;   // what is written now
  bool refused_ = false;  // the file system cannot
  std::uint64_t written_ = 0;
  std::uint64_t started_ = 0;  // of it, what is on its way to the disk
};

class DiskInput final : public StorageInput {
 public:
  explicit DiskInput(std::filesystem::path path);
  ~DiskInput() override;
  DiskInput(const DiskInput&) = delete;
  DiskInput& operator=(const DiskInput&) = delete;

  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, std::span<std::byte> out) const override;
  void drop_cache() const override;

 private:
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> out) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  mutable std::unique_ptr<PageBuffer> direct_;  // what is read past the cache goes through it
};

}  // namespace nqd::engine
