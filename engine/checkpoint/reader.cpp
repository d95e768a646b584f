#include "engine/checkpoint/reader.h"

#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"
#include "engine/checkpoint/generations.h"

namespace nqd::engine {
namespace {

// Files that are open at a time, each with one block in memory.
constexpr std::size_t kMostOpen = 64;

std::string joined(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

[[noreturn]] void throw_damage(const std::filesystem::path& folder, const CheckpointDamage& found) {
  throw Error(ExitCode::kUsage, "NQD2082", (folder / found.file).string() + ": " + found.what,
              "resume from another generation (`nqd checkpoint list` shows them)");
}

[[noreturn]] void throw_missing(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2083", path.string() + " " + why,
              "bring the file back, or resume from another generation");
}

}  // namespace

CheckpointReader::CheckpointReader(const Storage& storage, std::filesystem::path folder)
    : storage_(storage), folder_(std::move(folder)) {
  const std::string text = read_manifest(storage_, folder_);
  manifest_sha256_ = sha256_hex(text);
  manifest_ = manifest_of(text, folder_);
  for (std::size_t file = 0; file < manifest_.files.size(); ++file) {
    for (const CheckpointPart& part : manifest_.files[file].parts) {
      places_[{part.quantity, part.tensor}].push_back({file, &part});
    }
  }
}

CheckpointReader::OpenFile& CheckpointReader::opened(std::size_t file) const {
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&](const OpenFile& o) { return o.file == file; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
    return open_.front();
  }
  const CheckpointFile& record = manifest_.files[file];
  const std::filesystem::path path = folder_ / record.name;
  if (!storage_.exists(path)) throw_missing(path, "is missing");
  OpenFile opening;
  opening.file = file;
  opening.input = storage_.open(path);
  if (opening.input->size() != record.bytes) {
    throw_missing(path, "has " + std::to_string(opening.input->size()) + " bytes in place of " +
                            std::to_string(record.bytes));
  }
  if (open_.size() == kMostOpen) open_.pop_back();
  open_.push_front(std::move(opening));
  return open_.front();
}

std::size_t CheckpointReader::size_of_block(std::size_t file, std::uint64_t block) const {
  return std::min(kCheckpointBlock, manifest_.files[file].bytes - block * kCheckpointBlock);
}

void CheckpointReader::read_block(const OpenFile& open, std::uint64_t block,
                                  std::span<std::byte> out) const {
  const std::uint64_t begin = block * kCheckpointBlock;
  open.input->read(begin, out);
  if (xxh3_64(out) != manifest_.files[open.file].blocks[block]) {
    throw_damage(folder_, damage(open.file, begin, begin + out.size()));
  }
}

void CheckpointReader::load_block(OpenFile& open, std::uint64_t block) const {
  if (open.block == block) return;
  open.block = ~std::uint64_t{0};
  open.bytes.resize(size_of_block(open.file, block));
  read_block(open, block, open.bytes);
  open.block = block;
}

void CheckpointReader::read_bytes(std::size_t file, std::uint64_t begin,
                                  std::span<std::byte> out) const {
  OpenFile& open = opened(file);
  while (!out.empty()) {
    const std::uint64_t block = begin / kCheckpointBlock;
    const std::uint64_t inside = begin % kCheckpointBlock;
    const std::size_t size = size_of_block(file, block);
    if (inside == 0 && out.size() >= size && open.block != block) {
      read_block(open, block, out.first(size));
      out = out.subspan(size);
      begin += size;
      continue;
    }
    load_block(open, block);
    const std::size_t count = std::min<std::uint64_t>(out.size(), open.bytes.size() - inside);
    std::memcpy(out.data(), open.bytes.data() + inside, count);
    out = out.subspan(count);
    begin += count;
  }
}

// `found` grows by the elements that the part had.
void CheckpointReader::read_part(const Place& place, std::int64_t begin, std::span<float> out,
                                 std::int64_t& found) const {
  const std::int64_t end = begin + static_cast<std::int64_t>(out.size());
  std::int64_t before = 0;  // elements of earlier extents
  for (const Extent& extent : place.part->extents) {
    // The first run that ends behind `begin`.
    const std::int64_t past = begin - extent.begin - extent.count;
    std::int64_t run = past < 0 ? 0 : past / extent.stride + 1;
    for (; run < extent.repeats && extent.begin + run * extent.stride < end; ++run) {
      const std::int64_t first = extent.begin + run * extent.stride;
      const std::int64_t from = std::max(first, begin);
      const std::int64_t to = std::min(first + extent.count, end);
      const std::int64_t element = before + run * extent.count + (from - first);
      const auto part =
          out.subspan(static_cast<std::size_t>(from - begin), static_cast<std::size_t>(to - from));
      read_bytes(place.file,
                 place.part->offset + static_cast<std::uint64_t>(element) * sizeof(float),
                 std::as_writable_bytes(part));
      found += to - from;
    }
    before += extent.elements();
  }
}

void CheckpointReader::read(Quantity quantity, const std::string& tensor, std::int64_t begin,
                            std::span<float> out) const {
  std::int64_t found = 0;
  const auto places = places_.find({quantity, tensor});
  if (places != places_.end()) {
    for (const Place& place : places->second) read_part(place, begin, out, found);
  }
  if (found == static_cast<std::int64_t>(out.size())) return;
  throw Error(ExitCode::kUsage, "NQD2080",
              folder_.string() + " holds " + std::to_string(found) + " of elements " +
                  std::to_string(begin) + " to " +
                  std::to_string(begin + static_cast<std::int64_t>(out.size())) + " of " + tensor +
                  " (" + std::string(name(quantity)) + ")",
              "resume from another generation (`nqd checkpoint list` shows them)");
}

CheckpointDamage CheckpointReader::damage(std::size_t file, std::uint64_t begin,
                                          std::uint64_t end) const {
  CheckpointDamage found{manifest_.files[file].name, begin, end, {}, ""};
  for (const CheckpointPart& part : manifest_.files[file].parts) {
    if (part.offset < end && begin < part.offset + part.bytes()) {
      found.tensors.push_back(std::string(name(part.quantity)) + " of " + part.tensor);
    }
  }
  found.what = "bytes " + std::to_string(begin) + " to " + std::to_string(end) +
               " are not as they were written" +
               (found.tensors.empty() ? " (the header)" : ": " + joined(found.tensors));
  return found;
}

std::vector<CheckpointDamage> CheckpointReader::verify_file(std::size_t file) const {
  std::vector<CheckpointDamage> all;
  const std::uint64_t blocks = manifest_.files[file].blocks.size();
  try {
    OpenFile& open = opened(file);
    for (std::uint64_t block = 0; block < blocks; ++block) {
      try {
        load_block(open, block);
      } catch (const Error& error) {
        if (error.code() != "NQD2082") throw;
        const std::uint64_t begin = block * kCheckpointBlock;
        all.push_back(damage(file, begin, begin + open.bytes.size()));
      }
    }
  } catch (const Error& error) {
    all.push_back({manifest_.files[file].name, 0, manifest_.files[file].bytes, {}, error.what()});
  }
  return all;
}

std::vector<CheckpointDamage> CheckpointReader::verify() const {
  std::vector<CheckpointDamage> all;
  for (std::size_t file = 0; file < manifest_.files.size(); ++file) {
    for (CheckpointDamage& found : verify_file(file)) all.push_back(std::move(found));
  }
  return all;
}

}  // namespace nqd::engine
