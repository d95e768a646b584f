#include "collectives/nccl/log_capture.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "collectives/bench/machine_record.h"

namespace nqd::collectives {
namespace {

// As NCCL expands it: %h is the host name up to its first dot, %p the process, %% a percent sign.
std::string expanded(const std::string& pattern) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string name = host.data();
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      text += pattern[i];
      continue;
    }
    const char letter = pattern[++i];
    if (letter == 'h') {
      text += name.substr(0, name.find('.'));
    } else if (letter == 'p') {
      text += std::to_string(::getpid());
    } else {
      text += letter == '%' ? "%" : std::string{'%', letter};
    }
  }
  return text;
}

void set_default(const char* name, const std::string& value) {
  constexpr int kKeep = 0;
  ::setenv(name, value.c_str(), kKeep);
}

}  // namespace

NcclLogCapture::NcclLogCapture() {
  own_ = std::getenv("NCCL_DEBUG_FILE") == nullptr;
  const auto file =
      std::filesystem::temp_directory_path() / ("nqd-nccl." + std::to_string(::getpid()) + ".log");
  set_default("NCCL_DEBUG_FILE", file.string());
  set_default("NCCL_DEBUG", "INFO");
  set_default("NCCL_DEBUG_SUBSYS", "INIT,NET,P2P,SHM,ENV,GRAPH");
  path_ = expanded(std::getenv("NCCL_DEBUG_FILE"));
}

NcclLogCapture::~NcclLogCapture() {
  std::error_code ignored;
  if (own_) std::filesystem::remove(path_, ignored);
}

std::string NcclLogCapture::read() const {
  std::error_code error;
  if (!std::filesystem::exists(path_, error)) return {};
  try {
    return read_file(path_);
  } catch (const Error&) {
    return {};
  }
}

std::vector<std::string> gather_nccl_logs(Communicator& world, const NcclLogCapture& capture) {
  const std::string process = world.host(world.rank()) + ":" + std::to_string(::getpid());
  const std::vector<std::string> processes = gather_texts(world, process);
  bool first = true;
  for (int rank = 0; rank < world.rank(); ++rank) {
    first = first && processes[static_cast<std::size_t>(rank)] != process;
  }
  return gather_texts(world, first ? capture.read() : "");
}

}  // namespace nqd::collectives
