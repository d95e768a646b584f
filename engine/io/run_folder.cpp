#include "engine/io/run_folder.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"

namespace nqd::engine {
namespace {

[[noreturn]] void throw_full(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kFault, "NQD4003", "writing " + path.string() + " failed: " + why,
              "free space on that file system");
}

// The metrics that a run which goes on after `step` keeps: up to the last line of that step, which
// a run that was rolled back has made more than once.
std::string lines_until(const std::string& text, std::int64_t step) {
  struct Line {
    std::string text;
    std::int64_t step = 0;
  };
  std::vector<Line> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("step"))
      lines.push_back({line, json.value("step", std::int64_t{0})});
  }
  const auto end = std::find_if(lines.rbegin(), lines.rend(),
                                [&](const Line& line) { return line.step == step; });
  if (end != lines.rend()) {
    lines.erase(end.base(), lines.end());
  } else {
    std::erase_if(lines, [&](const Line& line) { return line.step > step; });
  }
  std::string kept;
  for (const Line& line : lines) kept += line.text + "\n";
  return kept;
}

}  // namespace

void remove_unfinished_evidence(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("evidence.json.tmp.")) {
      std::filesystem::remove(entry.path(), error);
    }
  }
}

RunFolder::RunFolder(std::filesystem::path folder, std::uint64_t needed_bytes)
    : folder_(std::move(folder)),
      lock_(folder_ / ".lock", "--output-dir", FolderLock::AtEnd::kStays) {
  check_space(needed_bytes);
  remove_unfinished_evidence(folder_);
}

RunFolder::~RunFolder() {
  if (metrics_ >= 0) ::close(metrics_);
}

void RunFolder::check_space(std::uint64_t needed_bytes) const {
  struct statvfs info {};
  if (::statvfs(folder_.c_str(), &info) != 0) return;  // the writes themselves will tell
  const auto free_bytes = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  if (free_bytes >= static_cast<double>(needed_bytes)) return;
  throw Error(ExitCode::kFault, "NQD4003",
              folder_.string() + " has " + format_bytes_binary(free_bytes) +
                  " free; this run writes about " +
                  format_bytes_binary(static_cast<double>(needed_bytes)),
              "free space on that file system, or give another --output-dir");
}

void RunFolder::keep_previous(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  if (!std::filesystem::exists(from, error)) return;
  std::filesystem::rename(from, to, error);
  if (error) throw_full(from, error.message());
}

void RunFolder::open_metrics() {
  metrics_ = ::open(metrics_path().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (metrics_ < 0) throw_full(metrics_path(), std::strerror(errno));
}

void RunFolder::begin_results() {
  keep_previous(metrics_path(), folder_ / "metrics.previous.jsonl");
  keep_previous(evidence_path(), folder_ / "evidence.previous.json");
  open_metrics();
}

void RunFolder::continue_after(std::int64_t step) {
  if (metrics_ >= 0) return;
  keep_previous(evidence_path(), folder_ / "evidence.previous.json");
  std::error_code error;
  if (std::filesystem::exists(metrics_path(), error)) {
    write_file(metrics_path(), lines_until(read_file(metrics_path()), step));
  }
  open_metrics();
  append_metrics("{\"resumed_after\": " + std::to_string(step) + "}");
}

void RunFolder::append_metrics(std::string_view line) {
  if (metrics_ < 0) begin_results();
  std::string text(line);
  text += '\n';
  const ssize_t put = ::write(metrics_, text.data(), text.size());
  if (put == static_cast<ssize_t>(text.size())) return;
  throw_full(metrics_path(), put < 0 ? std::strerror(errno) : "the file system is full");
}

}  // namespace nqd::engine
