#include "collectives/liveness/relay.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

namespace nqd::collectives {
namespace {

constexpr std::uint64_t kMagic = 0x6e71642d72656c61;
constexpr std::uint32_t kAlive = 0xffffffff;

template <std::size_t N>
void copy_text(std::array<char, N>& to, const std::string& from) {
  std::memcpy(to.data(), from.data(), std::min(from.size(), N - 1));
}

template <std::size_t N>
std::string text_of(const std::array<char, N>& from) {
  return std::string(from.data(), ::strnlen(from.data(), N));
}

// The addresses of the interfaces that are up and lead elsewhere.
std::array<std::uint32_t, 4> own_addresses() {
  std::array<std::uint32_t, 4> found{};
  std::size_t count = 0;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one != nullptr && count < found.size(); one = one->ifa_next) {
    const bool leads_out = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!leads_out || one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address{};
    std::memcpy(&address, one->ifa_addr, sizeof address);
    found[count++] = address.sin_addr.s_addr;
  }
  ::freeifaddrs(all);
  return found;
}

}  // namespace

// One packet of any network. Ranks of a job run one build on one architecture. A sign of life is
// the first four members alone.
struct Relay::Datagram {
  std::uint64_t magic = kMagic;
  std::uint64_t job = 0;
  std::int32_t from_rank = 0;
  std::uint32_t kind = kAlive;  // or Fault::Kind
  std::uint32_t rank_count = 0;
  std::array<std::int32_t, 32> ranks{};
  std::array<char, 128> host{};
  std::array<char, 900> message{};

  std::size_t bytes() const {
    return kind == kAlive ? offsetof(Datagram, rank_count) : sizeof(Datagram);
  }
};

Relay::Relay(std::uint64_t job, int rank) : job_(job), rank_(rank) {
  static_assert(std::is_trivially_copyable_v<Datagram> && sizeof(Datagram) < 1280);
  socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = INADDR_ANY;
  socklen_t length = sizeof any;
  auto* const name = reinterpret_cast<sockaddr*>(&any);
  if (socket_ < 0 || ::bind(socket_, name, sizeof any) != 0 ||
      ::getsockname(socket_, name, &length) != 0) {
    return;
  }
  address_ = {own_addresses(), any.sin_port};
}

Relay::~Relay() {
  if (socket_ >= 0) ::close(socket_);
}

void Relay::send_alive() const {
  Datagram datagram;
  datagram.job = job_;
  datagram.from_rank = rank_;
  send(datagram);
}

void Relay::send(const Fault& fault) const {
  Datagram datagram;
  datagram.job = job_;
  datagram.from_rank = rank_;
  datagram.kind = static_cast<std::uint32_t>(fault.kind);
  const std::size_t count = std::min(fault.ranks.size(), datagram.ranks.size());
  datagram.rank_count = static_cast<std::uint32_t>(count);
  std::copy_n(fault.ranks.begin(), count, datagram.ranks.begin());
  copy_text(datagram.host, fault.host);
  copy_text(datagram.message, fault.message);
  send(datagram);
}

void Relay::send(const Datagram& datagram) const {
  if (socket_ < 0) return;
  for (const Address& peer : peers_) {
    for (const std::uint32_t host : peer.hosts) {
      if (host == 0) continue;
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_addr.s_addr = host;
      to.sin_port = peer.port;
      ::sendto(socket_, &datagram, datagram.bytes(), MSG_DONTWAIT | MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&to), sizeof to);
    }
  }
}

std::optional<Relay::News> Relay::receive() const {
  Datagram datagram;
  for (;;) {
    datagram = {};
    const ssize_t bytes = ::recv(socket_, &datagram, sizeof datagram, MSG_DONTWAIT | MSG_TRUNC);
    if (bytes < 0) return std::nullopt;
    const bool whole = static_cast<std::size_t>(bytes) >= offsetof(Datagram, rank_count) &&
                       static_cast<std::size_t>(bytes) == datagram.bytes();
    if (whole && datagram.magic == kMagic && datagram.job == job_) break;
  }
  News news{datagram.from_rank, std::nullopt};
  if (datagram.kind == kAlive) return news;
  const std::size_t count = std::min<std::size_t>(datagram.rank_count, datagram.ranks.size());
  // What is no known kind is at least a lost peer.
  const auto kind = datagram.kind <= static_cast<std::uint32_t>(Fault::Kind::kTimeout)
                        ? static_cast<Fault::Kind>(datagram.kind)
                        : Fault::Kind::kPeerLost;
  news.fault = Fault{kind,
                     {datagram.ranks.begin(), datagram.ranks.begin() + count},
                     text_of(datagram.host),
                     text_of(datagram.message)};
  return news;
}

}  // namespace nqd::collectives
