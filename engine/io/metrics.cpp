#include "engine/io/metrics.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace nqd::engine {
namespace {

// Lines are a few hundred bytes; evaluations stand between steps.
constexpr std::streamoff kTail = 4096;

std::string tail_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  const std::streamoff count = std::min(size, kTail);
  std::string text(static_cast<std::size_t>(std::max<std::streamoff>(count, 0)), '\0');
  file.seekg(size - count);
  file.read(text.data(), count);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

std::optional<std::int64_t> last_step(const std::filesystem::path& metrics) {
  const std::string text = tail_of(metrics);
  std::size_t end = text.rfind('\n');
  while (end != std::string::npos && end > 0) {
    const std::size_t before = text.rfind('\n', end - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    const auto json =
        nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                              text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (json.is_object() && json.contains("loss") && json.contains("step")) {
      return json["step"].get<std::int64_t>();
    }
    end = before;
  }
  return std::nullopt;
}

std::optional<std::int64_t> resumed_after(const std::filesystem::path& metrics) {
  std::ifstream lines(metrics);
  std::optional<std::int64_t> found;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("{\"resumed_after\"")) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object()) found = json.value("resumed_after", std::int64_t{0});
  }
  return found;
}

}  // namespace nqd::engine
