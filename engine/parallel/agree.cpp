#include "engine/parallel/agree.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace nqd::engine {
namespace {

// Fixed size, so that one all_gather carries it.
struct Report {
  std::int32_t failed = 0;
  std::int32_t exit_code = 0;
  std::array<char, 16> code{};
  std::array<char, 768> message{};
  std::array<char, 256> hint{};
};

template <std::size_t N>
void copy_text(std::array<char, N>& to, const std::string& from) {
  std::memcpy(to.data(), from.data(), std::min(from.size(), N - 1));
}

Report describe(const Error& error) {
  Report report;
  report.failed = 1;
  report.exit_code = static_cast<std::int32_t>(error.exit_code());
  copy_text(report.code, error.code());
  copy_text(report.message, error.what());
  copy_text(report.hint, error.hint());
  return report;
}

}  // namespace

void attempt_together(collectives::Communicator& world, const std::function<void()>& attempt) {
  std::optional<Error> own;
  Report mine;
  try {
    attempt();
  } catch (const Error& error) {
    own = error;
    mine = describe(error);
  }
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<Report> all(ranks);
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                   DType::kUInt8);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (all[rank].failed == 0) continue;
    const bool is_mine = rank == static_cast<std::size_t>(world.rank());
    Error error = is_mine && own
                      ? *own
                      : Error(static_cast<ExitCode>(all[rank].exit_code), all[rank].code.data(),
                              all[rank].message.data(), all[rank].hint.data());
    error.set_quiet(!is_mine);
    throw error;
  }
}

}  // namespace nqd::engine
