#include "collectives/file_meeting.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "collectives/meeting_place.h"

namespace nqd::collectives {
namespace {

constexpr std::chrono::milliseconds kLookEvery{20};

// In front of a part in PATH.RANK (one number), and of all parts in PATH (one number a rank).
struct Header {
  std::array<char, 8> kind{};
  std::array<char, 8> holds{};
  std::array<char, 64> run{};  // SHA-256, so that no part of a long name is lost
  std::uint64_t ranks = 0;
  std::uint64_t part_bytes = 0;
};

template <std::size_t N>
void put(std::array<char, N>& field, std::string_view text) {
  std::memcpy(field.data(), text.data(), std::min(text.size(), N));
}

Header header_of(const FileMeeting& meeting, std::string_view holds, std::size_t part_bytes) {
  Header header;
  put(header.kind, kMeetingKind);
  put(header.holds, holds);
  put(header.run, sha256_hex(meeting.run));
  header.ranks = static_cast<std::uint64_t>(meeting.ranks);
  header.part_bytes = part_bytes;
  return header;
}

template <typename T>
std::string_view text_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// What follows the header in the file; nothing when there is no file, or one of something else.
std::optional<std::string> read_body(const std::filesystem::path& path, const Header& expected) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error&) {
    // Gone or replaced since it was seen.
    return std::nullopt;
  }
  if (text.size() < sizeof expected || !text.starts_with(text_of(expected))) return std::nullopt;
  return text.substr(sizeof expected);
}

class Meeting {
 public:
  Meeting(const FileMeeting& meeting, std::span<const std::byte> mine)
      : meeting_(meeting),
        mine_(reinterpret_cast<const char*>(mine.data()), mine.size()),
        request_(header_of(meeting, "part", mine.size())),
        answer_(header_of(meeting, "all", mine.size())) {}

  std::vector<std::byte> host();
  std::vector<std::byte> visit();
  // Removes what this rank has left, unless another process has replaced it.
  void leave() const;

 private:
  std::filesystem::path path_of(int rank) const {
    return meeting_.path.string() + "." + std::to_string(rank);
  }
  void pause(const std::vector<int>& missing);
  std::vector<std::byte> parts_of(std::string_view bodies, std::size_t skipped) const;
  // Reads all requests into bodies_; the ranks that have left none.
  std::vector<int> collect();
  std::vector<int> waiting() const;
  void answer() const;

  const FileMeeting& meeting_;
  const std::string_view mine_;
  const Header request_;
  const Header answer_;
  std::vector<std::string> bodies_;  // number and part of every rank
  std::string body_;                 // a visitor's own
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void Meeting::pause(const std::vector<int>& missing) {
  if (meeting_.check_stop) meeting_.check_stop();
  if (std::chrono::steady_clock::now() - start_ < meeting_.deadline) {
    std::this_thread::sleep_for(kLookEvery);
    return;
  }
  std::string names;
  for (const int rank : missing) names += (names.empty() ? "" : ", ") + std::to_string(rank);
  const bool stale = std::filesystem::exists(meeting_.path) && meeting_.rank != 0;
  throw Error(ExitCode::kFault, "NQD4002",
              "rank " + std::to_string(meeting_.rank) + " waited " +
                  std::to_string(meeting_.deadline.count()) + " ms at " + meeting_.path.string() +
                  " for rank " + names +
                  (stale ? "; the file there is not an answer to it but of another run" : ""),
              "look at the output of the ranks that did not come: all need the same --rendezvous, "
              "WORLD_SIZE and variables of their launcher; where they start late, give a longer "
              "--deadline");
}

std::vector<int> Meeting::collect() {
  std::vector<int> missing;
  for (int rank = 1; rank < meeting_.ranks; ++rank) {
    const auto body = read_body(path_of(rank), request_);
    const bool whole = body && body->size() == sizeof(std::uint64_t) + mine_.size();
    if (whole) {
      bodies_[static_cast<std::size_t>(rank)] = *body;
    } else if (bodies_[static_cast<std::size_t>(rank)].empty()) {
      missing.push_back(rank);
    }
  }
  return missing;
}

// Ranks that have not taken their answer: they remove their request when they have.
std::vector<int> Meeting::waiting() const {
  std::vector<int> ranks;
  for (int rank = 1; rank < meeting_.ranks; ++rank) {
    // One of another run is a rank's that has gone on to its next meeting, or of the past.
    if (read_body(path_of(rank), request_)) ranks.push_back(rank);
  }
  return ranks;
}

void Meeting::answer() const {
  std::string text(text_of(answer_));
  for (const std::string& body : bodies_) text += body;
  write_file(meeting_.path, text);
}

std::vector<std::byte> Meeting::parts_of(std::string_view bodies, std::size_t skipped) const {
  std::vector<std::byte> parts(static_cast<std::size_t>(meeting_.ranks) * mine_.size());
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(meeting_.ranks); ++rank) {
    std::memcpy(parts.data() + rank * mine_.size(),
                bodies.data() + rank * (skipped + mine_.size()) + skipped, mine_.size());
  }
  return parts;
}

std::vector<std::byte> Meeting::host() {
  bodies_.resize(static_cast<std::size_t>(meeting_.ranks));
  bodies_[0] = std::string(sizeof(std::uint64_t), '\0') + std::string(mine_);
  check_meeting_file(meeting_.path);
  std::error_code ignored;
  std::filesystem::remove(meeting_.path, ignored);
  for (std::vector<int> missing; !(missing = collect()).empty();) pause(missing);
  std::vector<std::string> answered;
  for (std::vector<int> left; !(left = waiting()).empty();) {
    collect();
    // A request of an earlier run was answered, and now its rank has left its own.
    if (bodies_ != answered) answer();
    answered = bodies_;
    pause(left);
  }
  std::filesystem::remove(meeting_.path, ignored);
  std::string all;
  for (const std::string& body : bodies_) all += body;
  return parts_of(all, sizeof(std::uint64_t));
}

std::vector<std::byte> Meeting::visit() {
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  body_ = std::string(text_of(number)) + std::string(mine_);
  check_meeting_file(meeting_.path);
  check_meeting_file(path_of(meeting_.rank));
  write_file(path_of(meeting_.rank), std::string(text_of(request_)) + body_);
  for (;;) {
    const auto all = read_body(meeting_.path, answer_);
    const std::size_t place = static_cast<std::size_t>(meeting_.rank) * body_.size();
    const std::size_t expected = static_cast<std::size_t>(meeting_.ranks) * body_.size();
    if (all && all->size() == expected && all->compare(place, body_.size(), body_) == 0) {
      std::filesystem::remove(path_of(meeting_.rank));
      return parts_of(*all, sizeof number);
    }
    pause({0});
  }
}

void Meeting::leave() const {
  const bool visitor = meeting_.rank != 0;
  const std::filesystem::path mine = visitor ? path_of(meeting_.rank) : meeting_.path;
  const auto left = read_body(mine, visitor ? request_ : answer_);
  std::error_code ignored;
  if (left && (!visitor || *left == body_)) std::filesystem::remove(mine, ignored);
}

}  // namespace

std::vector<std::byte> meet_by_files(const FileMeeting& meeting, std::span<const std::byte> mine) {
  Meeting at(meeting, mine);
  try {
    return meeting.rank == 0 ? at.host() : at.visit();
  } catch (...) {
    at.leave();
    throw;
  }
}

}  // namespace nqd::collectives
