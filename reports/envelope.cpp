#include "reports/envelope.h"

#include <gnu/libc-version.h>

#include <array>
#include <ctime>

#include "collectives/world.h"
#include "engine/gemm/gemm.h"

namespace nqd::reports {
namespace {

std::vector<std::pair<std::string, std::string>> build_libraries() {
  std::vector<std::pair<std::string, std::string>> libraries;
  libraries.emplace_back("libc", std::string("glibc ") + gnu_get_libc_version());
  const engine::GemmLibrary gemm = engine::gemm_library();
  libraries.emplace_back("gemm", gemm.name + " " + gemm.version + " (" + gemm.core + ")");
  for (const collectives::BackendStatus& backend : collectives::backend_status()) {
    if (backend.available && !backend.detail.empty()) {
      libraries.emplace_back(backend.name, backend.detail);
    }
  }
  return libraries;
}

}  // namespace

Envelope begin_envelope(std::string kind, std::vector<std::string> argv) {
  Envelope envelope;
  envelope.kind = std::move(kind);
  envelope.tool = build_info();
  envelope.argv = std::move(argv);
  envelope.libraries = build_libraries();
  envelope.environment = own_environment();
  envelope.host = read_host_info();
  envelope.started_at = now_utc();
  return envelope;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  ::gmtime_r(&now, &fields);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &fields);
  return {text.data(), length};
}

}  // namespace nqd::reports
