#include "planner/import/megatron_layout.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace nqd::planner {
namespace {

constexpr std::size_t kMaxBytes = 65536;

// The n of `*n` at the front of `text`, which loses it; nothing when there is none or it is absurd.
std::optional<std::size_t> take_times(std::string_view& text) {
  if (!text.starts_with('*')) return std::nullopt;
  std::size_t times = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + 1, end, times);
  if (error != std::errc{} || times > kMaxBytes) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return times;
}

bool append(std::string& text, std::string_view piece, std::size_t times) {
  if (piece.size() * times + text.size() > kMaxBytes) return false;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return true;
}

// Every `(…)*n` written out; commas are left away.
std::optional<std::string> without_groups(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const char first = text.front();
    std::string_view piece = text.substr(0, 1);
    std::size_t times = first == ',' ? 0 : 1;
    text.remove_prefix(1);
    if (first == '(') {
      const std::size_t close = text.find(')');
      if (close == std::string_view::npos) return std::nullopt;
      piece = text.substr(0, close);
      text.remove_prefix(close + 1);
      const std::optional<std::size_t> repeated = take_times(text);
      if (!repeated) return std::nullopt;
      times = *repeated;
    }
    if (!append(all, piece, times)) return std::nullopt;
  }
  std::erase(all, ',');
  return all;
}

// Every `x*n` written out.
std::optional<std::string> without_factors(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, 1);
    text.remove_prefix(1);
    const std::size_t times = text.starts_with('*') ? take_times(text).value_or(kMaxBytes + 1) : 1;
    if (!append(all, piece, times)) return std::nullopt;
  }
  return all;
}

// How many of `kind` stand at the front of `text`, which loses them.
std::int64_t take_all(std::string_view& text, char kind) {
  const std::size_t count = std::min(text.find_first_not_of(kind), text.size());
  text.remove_prefix(count);
  return static_cast<std::int64_t>(count);
}

std::optional<LayoutStage> parse_stage(std::string_view text) {
  LayoutStage stage;
  const std::int64_t embeddings = take_all(text, 'E');
  stage.layers = take_all(text, 't');
  stage.mtp_layers = take_all(text, 'm');
  const std::int64_t losses = take_all(text, 'L');
  if (!text.empty() || embeddings > 1 || losses > 1) return std::nullopt;
  stage.embedding = embeddings == 1;
  stage.loss = losses == 1;
  return stage;
}

std::string repeated(char kind, std::int64_t count) {
  if (count == 0) return {};
  return std::string(1, kind) + (count == 1 ? "" : "*" + std::to_string(count));
}

}  // namespace

std::optional<std::vector<LayoutStage>> parse_pipeline_layout(std::string_view text) {
  const std::optional<std::string> flat = without_groups(text);
  const std::optional<std::string> all = flat ? without_factors(*flat) : std::nullopt;
  if (!all) return std::nullopt;
  std::vector<LayoutStage> stages;
  std::string_view rest = *all;
  while (true) {
    const std::size_t bar = rest.find('|');
    const std::optional<LayoutStage> stage = parse_stage(rest.substr(0, bar));
    if (!stage) return std::nullopt;
    stages.push_back(*stage);
    if (bar == std::string_view::npos) return stages;
    rest.remove_prefix(bar + 1);
  }
}

std::string pipeline_layout(const std::vector<std::int64_t>& layers, std::int64_t mtp_layers) {
  std::string text = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) text += '|';
    text += repeated('t', layers[i]);
  }
  return text + repeated('m', mtp_layers) + "L";
}

}  // namespace nqd::planner
