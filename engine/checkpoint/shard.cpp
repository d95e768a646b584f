#include "engine/checkpoint/shard.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"
#include "engine/io/safetensors.h"

namespace nqd::engine {
namespace {

using Clock = std::chrono::steady_clock;

// Cuts what is written into blocks, each with its checksum, no faster than allowed.
class BlockWriter {
 public:
  BlockWriter(StorageFile& file, const ShardOptions& options)
      : file_(file), options_(options), start_(Clock::now()) {
    block_.reserve(kCheckpointBlock);
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kCheckpointBlock - block_.size());
      block_.insert(block_.end(), bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      if (block_.size() == kCheckpointBlock) flush();
    }
  }

  void finish() {
    if (!block_.empty()) flush();
  }
  std::uint64_t written() const { return written_; }
  std::vector<std::uint64_t> take_sums() { return std::move(sums_); }

 private:
  void flush() {
    check_cancelled();
    sums_.push_back(xxh3_64(block_));
    file_.write(block_);
    written_ += block_.size();
    block_.clear();
    if (options_.bytes_per_s > 0) wait_for_turn();
  }

  void check_cancelled() const {
    if (!options_.is_cancelled || !options_.is_cancelled()) return;
    throw Error(ExitCode::kFault, "NQD4021", "a save was given up before it was complete",
                "the generations before it are whole");
  }

  // At a low rate a block is due long after somebody began to wait for it.
  void wait_for_turn() const {
    constexpr std::chrono::milliseconds kSlice(20);
    const std::chrono::duration<double> seconds(static_cast<double>(written_) /
                                                options_.bytes_per_s);
    const Clock::time_point due = start_ + std::chrono::duration_cast<Clock::duration>(seconds);
    while (Clock::now() < due && !(options_.is_urgent && options_.is_urgent())) {
      check_cancelled();
      std::this_thread::sleep_until(std::min(due, Clock::now() + kSlice));
    }
  }

  StorageFile& file_;
  const ShardOptions& options_;
  const Clock::time_point start_;
  std::vector<std::byte> block_;
  std::vector<std::uint64_t> sums_;
  std::uint64_t written_ = 0;
};

std::string header_of(std::span<const ShardPart> parts) {
  std::vector<std::pair<std::string, std::int64_t>> tensors;
  for (const ShardPart& part : parts) {
    tensors.emplace_back(std::string(name(part.quantity)) + "/" + part.tensor,
                         elements_of(part.extents));
  }
  return safetensors_header(tensors);
}

[[noreturn]] void refuse_copy(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kFault, "NQD4022", path.string() + " was not copied: " + why,
              "`nqd checkpoint verify` shows all damage; the copies before it are whole");
}

// A file that cannot be read is a copy that failed.
template <typename Read>
auto read_or_refuse(const std::filesystem::path& path, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    refuse_copy(path, error.what());
  }
}

}  // namespace

std::string shard_name(int rank) {
  char text[40];
  std::snprintf(text, sizeof text, "rank-%05d.safetensors", rank);
  return text;
}

CheckpointFile write_shard(Storage& storage, const std::filesystem::path& folder,
                           const std::string& name, std::span<const ShardPart> parts,
                           const ShardSource& source, const ShardOptions& options) {
  CheckpointFile record;
  record.name = name;
  {
    const std::unique_ptr<StorageFile> file = storage.create(folder / name);
    BlockWriter out(*file, options);
    const std::string header = header_of(parts);
    out.write(std::as_bytes(std::span(header)));
    std::uint64_t offset = header.size();
    for (const ShardPart& part : parts) {
      record.parts.push_back({part.tensor, part.quantity, offset, part.extents});
      source(part, [&](std::span<const float> values) { out.write(std::as_bytes(values)); });
      offset += record.parts.back().bytes();
    }
    out.finish();
    record.bytes = out.written();
    record.blocks = out.take_sums();
    file->sync();
  }
  storage.sync_folder(folder);
  read_back(storage, folder, record);
  return record;
}

CheckpointFile write_shard(Storage& storage, const std::filesystem::path& folder,
                           const std::string& name, std::span<const ShardPart> parts,
                           const ShardOptions& options) {
  const ShardSource own = [](const ShardPart& part, const auto& put) {
    for (const std::span<const float> values : part.values) put(values);
  };
  return write_shard(storage, folder, name, parts, own, options);
}

void copy_shard(Storage& storage, const std::filesystem::path& from,
                const std::filesystem::path& to, const CheckpointFile& file,
                const ShardOptions& options) {
  const std::filesystem::path path = from / file.name;
  const std::unique_ptr<StorageInput> input =
      read_or_refuse(path, [&] { return storage.open(path); });
  if (input->size() != file.bytes) {
    refuse_copy(path, "it has " + std::to_string(input->size()) + " bytes in place of " +
                          std::to_string(file.bytes));
  }
  {
    const std::unique_ptr<StorageFile> copy = storage.create(to / file.name);
    BlockWriter out(*copy, options);
    std::vector<std::byte> block(kCheckpointBlock);
    for (std::size_t i = 0; i < file.blocks.size(); ++i) {
      const std::uint64_t begin = i * kCheckpointBlock;
      const auto part = std::span(block).first(std::min(kCheckpointBlock, file.bytes - begin));
      read_or_refuse(path, [&] { input->read(begin, part); });
      if (xxh3_64(part) != file.blocks[i]) {
        refuse_copy(path, "its bytes " + std::to_string(begin) + " to " +
                              std::to_string(begin + part.size()) +
                              " are not as they were written");
      }
      out.write(part);
    }
    out.finish();
    copy->sync();
  }
  storage.sync_folder(to);
  read_back(storage, to, file);
}

void read_back(const Storage& storage, const std::filesystem::path& folder,
               const CheckpointFile& file) {
  const std::filesystem::path path = folder / file.name;
  const auto refuse = [&](const std::string& what) {
    throw Error(ExitCode::kFault, "NQD4020", path.string() + " reads back " + what,
                "the disk or the way to it is failing: save elsewhere (checkpoint.path)");
  };
  const std::unique_ptr<StorageInput> input = storage.open(path);
  if (input->size() != file.bytes) {
    refuse("with " + std::to_string(input->size()) + " bytes in place of " +
           std::to_string(file.bytes));
  }
  input->drop_cache();
  std::vector<std::byte> block(kCheckpointBlock);
  for (std::size_t i = 0; i < file.blocks.size(); ++i) {
    const std::uint64_t begin = i * kCheckpointBlock;
    const auto part = std::span(block).first(std::min(kCheckpointBlock, file.bytes - begin));
    input->read(begin, part);
    if (xxh3_64(part) == file.blocks[i]) continue;
    refuse("other bytes than were written, between " + std::to_string(begin) + " and " +
           std::to_string(begin + part.size()));
  }
}

}  // namespace nqd::engine
