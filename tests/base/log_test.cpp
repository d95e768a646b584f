#include "base/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "base/file.h"
#include "tests/temporary_folder.h"

namespace nqd {
namespace {

// What `action` writes to stderr.
template <typename Action>
std::string captured(Action action) {
  const testing::TemporaryFolder folder;
  const int saved = ::dup(STDERR_FILENO);
  const int file = ::open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  REQUIRE(::dup2(file, STDERR_FILENO) == STDERR_FILENO);
  action();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::close(file);
  return read_file(folder / "log");
}

TEST_CASE("one line a message, with level and the prefix of the thread") {
  const std::string text = captured([] {
    log::info("ready");
    log::warn("slow");
    log::set_thread_prefix("rank 1");
    log::error("lost");
    std::thread([] { log::info("other thread"); }).join();
    log::set_thread_prefix("");
    log::info("plain");
    CHECK_FALSE(log::is_terminal());
  });
  CHECK(text ==
        "nqd: ready\n"
        "nqd: warning: slow\n"
        "nqd [rank 1]: error: lost\n"
        "nqd: other thread\n"
        "nqd: plain\n");
}

}  // namespace
}  // namespace nqd
