#include <string>

#include "reports/envelope.h"
#include "reports/git_commit.h"  // written by the build

namespace nqd::reports {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." +
         std::to_string(__clang_patchlevel__);
#else
  return "gcc " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." +
         std::to_string(__GNUC_PATCHLEVEL__);
#endif
}

}  // namespace

BuildInfo build_info() { return {NQD_VERSION, NQD_GIT_COMMIT, NQD_BUILD_TYPE, compiler()}; }

}  // namespace nqd::reports
