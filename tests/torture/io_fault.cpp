// A library to preload into nqd: counts the file operations on paths below one folder, and does
// something bad at one of them. Environment:
//
//   NQD_IO_FAULT_BELOW   the folder, as an absolute path; without it nothing is counted
//   NQD_IO_FAULT_AT      which operation of the process, from 1; 0 or unset: none
//   NQD_IO_FAULT_ACTION  kill: SIGKILL to the process before the operation
//                        kill-all: to all processes whose ids are in NQD_IO_FAULT_PIDS
//                        torn: half of what is to be written, then kill
//                        torn-all: the same, then kill-all
//                        error E: this operation fails with that errno, as "error 28"
//                        errors E: this and all later ones that change the disk
//                        sleep MICROSECONDS: before every operation
//   NQD_IO_FAULT_RANK    only in this rank of an Open MPI job
//   NQD_IO_FAULT_TRACE   a file that gets a line for every operation that has returned
//                        ("op K NAME RESULT ERRNO PATH"), and for the start and the end of a
//                        process ("start PID RANK TIME", "exit PID RANK TIME CODE PEAK",
//                        "kill PID RANK TIME"); TIME is that of CLOCK_MONOTONIC, in seconds, PEAK
//                        the largest resident set in KiB
//   NQD_IO_FAULT_PIDS    a folder that gets a file a process, named by its id
//   NQD_IO_FAULT_CLOCK   seconds that are added to the time of day from operation
//                        NQD_IO_FAULT_CLOCK_FROM on
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

// The function that this library stands before.
template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(name) static const auto call_real = real<decltype(::name)>(#name)

enum class Action { kNone, kKill, kKillAll, kTorn, kTornAll, kError, kErrors, kSleep };

constexpr std::size_t kDescriptors = 1 << 16;

struct Fault {
  bool ready = false;
  std::string below;
  std::string pids;
  std::string rank;
  Action action = Action::kNone;
  long value = 0;  // an errno, or microseconds
  long at = 0;
  int trace = -1;
  long clock_shift_s = 0;
  long clock_from = 0;
};

Fault g_fault;
std::atomic<long> g_count{0};
std::array<std::atomic<bool>, kDescriptors> g_watched{};

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

double now_s() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void note(const char* format, ...) {
  if (g_fault.trace < 0) return;
  REAL(write);
  const int error = errno;
  std::array<char, 1024> line{};
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  // One write a line: several processes append to the file.
  [[maybe_unused]] const ssize_t put = call_real(
      g_fault.trace, line.data(), std::min(line.size() - 1, static_cast<std::size_t>(length)));
  errno = error;
}

long peak_resident_kib() {
  std::FILE* const status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return 0;
  std::array<char, 256> line{};
  long kib = 0;
  while (std::fgets(line.data(), line.size(), status) != nullptr) {
    if (std::strncmp(line.data(), "VmHWM:", 6) == 0) kib = std::atol(line.data() + 6);
  }
  std::fclose(status);
  return kib;
}

void note_exit(int code) {
  note("exit %d %s %.6f %d %ld\n", ::getpid(), g_fault.rank.c_str(), now_s(), code,
       peak_resident_kib());
}

[[noreturn]] void die() {
  note("kill %d %s %.6f\n", ::getpid(), g_fault.rank.c_str(), now_s());
  while (true) ::kill(::getpid(), SIGKILL);
}

[[noreturn]] void kill_all() {
  if (DIR* const folder = real<decltype(::opendir)>("opendir")(g_fault.pids.c_str())) {
    while (const dirent* const entry = ::readdir(folder)) {
      const int pid = std::atoi(entry->d_name);
      if (pid > 0 && pid != ::getpid()) ::kill(pid, SIGKILL);
    }
  }
  die();
}

bool is_watched(const char* path) {
  if (!g_fault.ready || g_fault.below.empty() || path == nullptr) return false;
  const std::size_t length = g_fault.below.size();
  return std::strncmp(path, g_fault.below.c_str(), length) == 0 &&
         (path[length] == '\0' || path[length] == '/');
}

bool is_watched(int descriptor) {
  return g_fault.ready && descriptor >= 0 && static_cast<std::size_t>(descriptor) < kDescriptors &&
         g_watched[static_cast<std::size_t>(descriptor)];
}

void watch(int descriptor, bool watched) {
  if (descriptor < 0 || static_cast<std::size_t>(descriptor) >= kDescriptors) return;
  g_watched[static_cast<std::size_t>(descriptor)] = watched;
}

// Whether operation `count`, which changes the disk or not, is to fail.
bool fails(long count, bool changes) {
  if (g_fault.action == Action::kError) return count == g_fault.at;
  return g_fault.action == Action::kErrors && changes && count >= g_fault.at;
}

// Counts an operation on `path`, does what is to be done at it, and runs `call`, which returns
// `failure` and sets errno when it fails. `tear` does half of it.
template <typename Result, typename Call, typename Tear>
Result guarded(const char* name, const char* path, bool changes, Result failure, const Call& call,
               const Tear& tear) {
  const long count = ++g_count;
  const bool here = count == g_fault.at;
  if (here && g_fault.action == Action::kKill) die();
  if (here && g_fault.action == Action::kKillAll) kill_all();
  if (here && (g_fault.action == Action::kTorn || g_fault.action == Action::kTornAll)) {
    tear();
    g_fault.action == Action::kTorn ? die() : kill_all();
  }
  if (g_fault.action == Action::kSleep) ::usleep(static_cast<useconds_t>(g_fault.value));
  const bool failing = g_fault.at > 0 && fails(count, changes);
  if (failing) errno = static_cast<int>(g_fault.value);
  const Result result = failing ? failure : call();
  note("op %ld %s %s %d %s\n", count, name, result == failure ? "failed" : "done",
       result == failure ? errno : 0, path);
  return result;
}

template <typename Result, typename Call>
Result guarded(const char* name, const char* path, bool changes, Result failure, const Call& call) {
  return guarded(name, path, changes, failure, call, [] {});
}

void read_action(const std::string& text) {
  const std::size_t space = text.find(' ');
  const std::string word = text.substr(0, space);
  if (space != std::string::npos) g_fault.value = std::atol(text.c_str() + space);
  g_fault.action = word == "kill"       ? Action::kKill
                   : word == "kill-all" ? Action::kKillAll
                   : word == "torn"     ? Action::kTorn
                   : word == "torn-all" ? Action::kTornAll
                   : word == "error"    ? Action::kError
                   : word == "errors"   ? Action::kErrors
                   : word == "sleep"    ? Action::kSleep
                                        : Action::kNone;
}

bool begin() {
  const std::string only = variable("NQD_IO_FAULT_RANK");
  g_fault.rank = variable("OMPI_COMM_WORLD_RANK");
  if (g_fault.rank.empty()) g_fault.rank = "-";
  g_fault.below = variable("NQD_IO_FAULT_BELOW");
  g_fault.pids = variable("NQD_IO_FAULT_PIDS");
  if (only.empty() || only == g_fault.rank) {
    read_action(variable("NQD_IO_FAULT_ACTION"));
    g_fault.at = std::atol(variable("NQD_IO_FAULT_AT"));
  }
  g_fault.clock_shift_s = std::atol(variable("NQD_IO_FAULT_CLOCK"));
  g_fault.clock_from = std::atol(variable("NQD_IO_FAULT_CLOCK_FROM"));
  const std::string trace = variable("NQD_IO_FAULT_TRACE");
  if (!trace.empty()) {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    g_fault.trace = real<decltype(::open)>("open")(trace.c_str(), kFlags, 0644);
    note("start %d %s %.6f\n", ::getpid(), g_fault.rank.c_str(), now_s());
    ::on_exit([](int code, void*) { note_exit(code); }, nullptr);
  }
  if (!g_fault.pids.empty()) {
    const std::string own = g_fault.pids + "/" + std::to_string(::getpid());
    const int file = real<decltype(::open)>("open")(own.c_str(), O_WRONLY | O_CREAT, 0644);
    if (file >= 0) real<decltype(::close)>("close")(file);
  }
  g_fault.ready = true;
  return true;
}

// Behind the definition of all that it sets.
[[maybe_unused]] const bool g_begun = begin();

int open_watched(const char* name, const char* path, int flags, mode_t mode, int folder) {
  static const auto call_real = real<int(int, const char*, int, ...)>("openat");
  if (!is_watched(path)) {
    const int plain = call_real(folder, path, flags, mode);
    watch(plain, false);
    return plain;
  }
  const bool changes = (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) != 0;
  const int opened =
      guarded(name, path, changes, -1, [&] { return call_real(folder, path, flags, mode); });
  watch(opened, opened >= 0);
  return opened;
}

mode_t mode_of(int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(arguments, mode_t) : 0;
}

long shift_s() { return g_count >= g_fault.clock_from ? g_fault.clock_shift_s : 0; }

}  // namespace

extern "C" {

#define OPEN(name)                                            \
  int name(const char* path, int flags, ...) {                \
    va_list arguments;                                        \
    va_start(arguments, flags);                               \
    const mode_t mode = mode_of(flags, arguments);            \
    va_end(arguments);                                        \
    return open_watched("open", path, flags, mode, AT_FDCWD); \
  }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                       \
  int name(int folder, const char* path, int flags, ...) {  \
    va_list arguments;                                      \
    va_start(arguments, flags);                             \
    const mode_t mode = mode_of(flags, arguments);          \
    va_end(arguments);                                      \
    return open_watched("open", path, flags, mode, folder); \
  }
OPEN_AT(openat)
OPEN_AT(openat64)

int creat(const char* path, mode_t mode) {
  return open_watched("open", path, O_CREAT | O_WRONLY | O_TRUNC, mode, AT_FDCWD);
}

int close(int descriptor) {
  REAL(close);
  if (!is_watched(descriptor)) return call_real(descriptor);
  watch(descriptor, false);
  // A descriptor is gone whatever close returns.
  return guarded("close", "", false, -1, [&] { return call_real(descriptor); });
}

// The C library closes these descriptors by itself, and another file may get their numbers.
int closedir(DIR* folder) {
  REAL(closedir);
  watch(::dirfd(folder), false);
  return call_real(folder);
}

int fclose(std::FILE* file) {
  REAL(fclose);
  watch(::fileno(file), false);
  return call_real(file);
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  REAL(write);
  if (!is_watched(descriptor)) return call_real(descriptor, bytes, count);
  return guarded(
      "write", "", true, ssize_t{-1}, [&] { return call_real(descriptor, bytes, count); },
      [&] { [[maybe_unused]] const ssize_t put = call_real(descriptor, bytes, count / 2); });
}

#define PWRITE(name)                                                                            \
  ssize_t name(int descriptor, const void* bytes, size_t count, off_t offset) {                 \
    REAL(name);                                                                                 \
    if (!is_watched(descriptor)) return call_real(descriptor, bytes, count, offset);            \
    return guarded(                                                                             \
        "write", "", true, ssize_t{-1},                                                         \
        [&] { return call_real(descriptor, bytes, count, offset); },                            \
        [&] {                                                                                   \
          [[maybe_unused]] const ssize_t put = call_real(descriptor, bytes, count / 2, offset); \
        });                                                                                     \
  }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t writev(int descriptor, const iovec* parts, int count) {
  REAL(writev);
  if (!is_watched(descriptor)) return call_real(descriptor, parts, count);
  return guarded(
      "write", "", true, ssize_t{-1}, [&] { return call_real(descriptor, parts, count); },
      [&] { [[maybe_unused]] const ssize_t put = call_real(descriptor, parts, count / 2); });
}

ssize_t read(int descriptor, void* bytes, size_t count) {
  REAL(read);
  if (!is_watched(descriptor)) return call_real(descriptor, bytes, count);
  return guarded("read", "", false, ssize_t{-1},
                 [&] { return call_real(descriptor, bytes, count); });
}

#define PREAD(name)                                                                  \
  ssize_t name(int descriptor, void* bytes, size_t count, off_t offset) {            \
    REAL(name);                                                                      \
    if (!is_watched(descriptor)) return call_real(descriptor, bytes, count, offset); \
    return guarded("read", "", false, ssize_t{-1},                                   \
                   [&] { return call_real(descriptor, bytes, count, offset); });     \
  }
PREAD(pread)
PREAD(pread64)

#define SYNC(name)                                                                \
  int name(int descriptor) {                                                      \
    REAL(name);                                                                   \
    if (!is_watched(descriptor)) return call_real(descriptor);                    \
    return guarded("fsync", "", true, -1, [&] { return call_real(descriptor); }); \
  }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char* from, const char* to) noexcept {
  REAL(rename);
  if (!is_watched(to)) return call_real(from, to);
  return guarded("rename", to, true, -1, [&] { return call_real(from, to); });
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  REAL(renameat);
  if (!is_watched(to)) return call_real(from_folder, from, to_folder, to);
  return guarded("rename", to, true, -1,
                 [&] { return call_real(from_folder, from, to_folder, to); });
}

#define OF_PATH(name)                                                       \
  int name(const char* path) noexcept {                                     \
    REAL(name);                                                             \
    if (!is_watched(path)) return call_real(path);                          \
    return guarded(#name, path, true, -1, [&] { return call_real(path); }); \
  }
OF_PATH(unlink)
OF_PATH(rmdir)
OF_PATH(remove)

int unlinkat(int folder, const char* path, int flags) noexcept {
  REAL(unlinkat);
  if (!is_watched(path)) return call_real(folder, path, flags);
  return guarded("unlink", path, true, -1, [&] { return call_real(folder, path, flags); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  REAL(mkdir);
  if (!is_watched(path)) return call_real(path, mode);
  return guarded("mkdir", path, true, -1, [&] { return call_real(path, mode); });
}

DIR* opendir(const char* path) {
  REAL(opendir);
  if (!is_watched(path)) return call_real(path);
  return guarded<DIR*>("opendir", path, false, nullptr, [&] { return call_real(path); });
}

int stat(const char* path, struct stat* info) noexcept {
  static const auto call_real = real<int(const char*, struct stat*)>("stat");
  if (!is_watched(path)) return call_real(path, info);
  return guarded("stat", path, false, -1, [&] { return call_real(path, info); });
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  REAL(clock_gettime);
  const int result = call_real(clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += shift_s();
  return result;
}

time_t time(time_t* out) noexcept {
  REAL(time);
  const time_t now = call_real(nullptr) + shift_s();
  if (out != nullptr) *out = now;
  return now;
}

int gettimeofday(timeval* time, void* zone) noexcept {
  REAL(gettimeofday);
  const int result = call_real(time, zone);
  if (result == 0) time->tv_sec += shift_s();
  return result;
}

void _exit(int code) {
  note_exit(code);
  REAL(_exit);
  call_real(code);
  die();
}

void _Exit(int code) noexcept {
  note_exit(code);
  REAL(_Exit);
  call_real(code);
  die();
}

}  // extern "C"
