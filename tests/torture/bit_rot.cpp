#include "tests/torture/bit_rot.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "base/error.h"
#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/reader.h"

namespace nqd::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPage = 4096;

std::string bytes_at(const fs::path& path, std::uint64_t offset, std::uint64_t count) {
  std::string bytes(count, '\0');
  std::ifstream(path, std::ios::binary)
      .seekg(static_cast<std::streamoff>(offset))
      .read(bytes.data(), static_cast<std::streamsize>(count));
  return bytes;
}

void overwrite(const fs::path& path, std::uint64_t offset, const std::string& bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class BitRot {
 public:
  explicit BitRot(const BitRotOptions& options)
      : options_(options), random_(options.seed), start_(std::chrono::steady_clock::now()) {
    const auto found = engine::find_generation(engine::disk(), options.root);
    if (!found || !found->warning.empty() ||
        !engine::CheckpointReader(engine::disk(), found->folder).verify().empty()) {
      throw Error(ExitCode::kUsage, "", options.root + " has no whole generation");
    }
    generation_ = found->folder;
    files_.push_back(fs::path(options.root) / engine::kLatest);
    for (const auto& entry : fs::directory_iterator(generation_)) files_.push_back(entry.path());
    std::sort(files_.begin(), files_.end());
    for (const fs::path& file : files_) result_.files.push_back(file.filename().string());
  }

  BitRotResult run() {
    // The ends of every file first: what is special about a format is there.
    for (const fs::path& file : files_) {
      flip(file, 0);
      flip(file, fs::file_size(file) - 1);
    }
    while (result_.flips < options_.flips && !is_late()) {
      const fs::path& file = any_file();
      flip(file, random_() % fs::file_size(file));
      // Pages between the flips, so that a short time has both.
      if (result_.pages * options_.flips < options_.pages * result_.flips) spoil_page(any_file());
    }
    return result_;
  }

 private:
  bool is_late() const {
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - start_;
    return gone.count() > options_.seconds;
  }

  // Small files as often as large ones.
  const fs::path& any_file() { return files_[random_() % files_.size()]; }

  void flip(const fs::path& file, std::uint64_t offset) {
    std::string byte = bytes_at(file, offset, 1);
    byte[0] = static_cast<char>(byte[0] ^ static_cast<char>(1U << (random_() % 8)));
    damage(file, offset, byte);
    ++result_.flips;
  }

  void spoil_page(const fs::path& file) {
    const std::uint64_t size = fs::file_size(file);
    const std::uint64_t begin = random_() % size / kPage * kPage;
    std::string page = bytes_at(file, begin, std::min(kPage, size - begin));
    const std::string before = page;
    const bool zero = random_() % 2 == 0;
    for (char& byte : page) byte = zero ? '\0' : static_cast<char>(random_());
    if (page == before) return;
    damage(file, begin, page);
    ++result_.pages;
  }

  void damage(const fs::path& file, std::uint64_t offset, const std::string& bytes) {
    const std::string before = bytes_at(file, offset, bytes.size());
    overwrite(file, offset, bytes);
    const std::string wrong = what_is_wrong(file, before, bytes, offset);
    overwrite(file, offset, before);
    if (wrong.empty()) return;
    result_.missed.push_back(file.filename().string() + " byte " + std::to_string(offset) + ": " +
                             wrong);
  }

  // Empty when the damage was found and named.
  std::string what_is_wrong(const fs::path& file, const std::string& before,
                            const std::string& bytes, std::uint64_t offset) const {
    const std::string name = file.filename().string();
    const bool is_shard = file.extension() == ".safetensors";
    try {
      const auto found = engine::find_generation(engine::disk(), options_.root);
      if (!is_shard) {
        if (found && found->warning.find(name) != std::string::npos) return {};
        return found ? "not named: \"" + found->warning + "\"" : "taken for a folder without saves";
      }
      const engine::CheckpointReader reader(engine::disk(), found->folder);
      std::uint64_t first = offset;
      while (before[first - offset] == bytes[first - offset]) ++first;
      for (const engine::CheckpointDamage& one : reader.verify()) {
        if (one.file == name && one.begin <= first && first < one.end) return {};
      }
      return "not found by verify";
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.find(name) != std::string::npos ? "" : "not named: \"" + text + "\"";
    }
  }

  const BitRotOptions& options_;
  std::mt19937_64 random_;
  const std::chrono::steady_clock::time_point start_;
  fs::path generation_;
  std::vector<fs::path> files_;
  BitRotResult result_;
};

}  // namespace

BitRotResult rot(const BitRotOptions& options) { return BitRot(options).run(); }

}  // namespace nqd::testing
