// The texts of tests/fixtures/nccl.
#pragma once

#include <filesystem>
#include <string>

#include "base/file.h"

namespace nqd::test {

inline std::filesystem::path nccl_fixture(const std::string& name) {
  return std::filesystem::path(NQD_SOURCE_DIR) / "tests/fixtures/nccl" / name;
}
inline std::string nccl_text(const std::string& name) { return read_file(nccl_fixture(name)); }

}  // namespace nqd::test
