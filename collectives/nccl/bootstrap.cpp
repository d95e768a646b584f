#include "collectives/nccl/bootstrap.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/host_map.h"
#include "collectives/meeting_place.h"

namespace nqd::collectives {
namespace {

constexpr int kTakesSharedDevices = 23000;  // NCCL 2.30

// What a rank says of itself.
struct Introduction {
  std::array<std::uint8_t, 16> uuid{};
  NcclUniqueId id{};  // of rank 0
  std::int32_t nccl_version = 0;
  std::int32_t device = 0;
  std::int32_t devices = 0;  // that it sees
  std::array<char, 256> host{};
  std::array<char, 64> device_name{};
  std::array<char, 32> bus_id{};
  std::array<char, 8> failure_code{};
  std::array<char, 512> failure{};
};

template <std::size_t kSize>
void put_text(std::array<char, kSize>& to, std::string_view text) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), kSize - 1));
}

Introduction introduce(int rank, int local_rank, const std::string& host, DeviceApi& device,
                       NcclApi& nccl, const NcclOptions& options) {
  Introduction mine;
  put_text(mine.host, host);
  try {
    mine.nccl_version = nccl.version();
    mine.devices = device.device_count();
    if (mine.devices == 0) {
      throw Error(ExitCode::kEnvironment, "NQD3060", "no CUDA device is visible");
    }
    mine.device = options.device.value_or(local_rank % mine.devices);
    const DeviceIdentity identity = device.identity(mine.device);
    mine.uuid = identity.uuid;
    put_text(mine.device_name, identity.name);
    put_text(mine.bus_id, identity.bus_id);
    device.use(mine.device);
    if (rank == 0 && nccl.unique_id(mine.id) != NcclResult::kSuccess) {
      throw Error(ExitCode::kEnvironment, "NQD3064",
                  "NCCL cannot open its bootstrap: " + nccl.last_error(nullptr));
    }
  } catch (const Error& error) {
    // All ranks must hear of it before one throws.
    put_text(mine.failure_code, error.code() == "NQD3064" ? "NQD3064" : "NQD3060");
    put_text(mine.failure, error.what());
  }
  return mine;
}

[[noreturn]] void throw_shared(int rank, Error error) {
  error.set_quiet(rank != 0);
  throw error;
}

std::string who(const std::vector<Introduction>& all, std::size_t rank) {
  return "rank " + std::to_string(rank) + " on host " + all[rank].host.data();
}

void check_able(int rank, const std::vector<Introduction>& all) {
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    if (all[peer].failure[0] != '\0') {
      const bool of_nccl = std::string_view(all[peer].failure_code.data()) == "NQD3064";
      throw_shared(rank, Error(ExitCode::kEnvironment, of_nccl ? "NQD3064" : "NQD3060",
                               who(all, peer) + ": " + all[peer].failure.data(),
                               "look at nvidia-smi and CUDA_VISIBLE_DEVICES on that host"));
    }
    if (all[peer].nccl_version != all[0].nccl_version) {
      throw_shared(rank,
                   Error(ExitCode::kEnvironment, "NQD3064",
                         who(all, peer) + " has NCCL " + nccl_version_text(all[peer].nccl_version) +
                             ", but rank 0 has " + nccl_version_text(all[0].nccl_version),
                         "the same library on all hosts: look at LD_LIBRARY_PATH there"));
    }
  }
}

// The ranks of each device that several have, one phrase a device.
std::string shared_devices(const std::vector<Introduction>& all) {
  std::map<std::array<std::uint8_t, 16>, std::vector<std::size_t>> by_device;
  for (std::size_t rank = 0; rank < all.size(); ++rank) by_device[all[rank].uuid].push_back(rank);
  std::string text;
  for (const auto& [uuid, ranks] : by_device) {
    if (ranks.size() < 2) continue;
    std::string names;
    for (const std::size_t rank : ranks) {
      names += (names.empty() ? "" : rank == ranks.back() ? " and " : ", ") + std::to_string(rank);
    }
    const Introduction& first = all[ranks.front()];
    text += (text.empty() ? "ranks " : "; ranks ") + names + " on host " + first.host.data() +
            " share " + uuid_text(uuid) + " (" + first.device_name.data() + ", " +
            first.bus_id.data() + "; rank " + std::to_string(ranks.front()) + " sees " +
            std::to_string(first.devices) + (first.devices == 1 ? " device)" : " devices)");
  }
  return text;
}

void check_distinct(int rank, const std::vector<Introduction>& all) {
  const std::string shared = shared_devices(all);
  if (shared.empty()) return;
  const int version = all[0].nccl_version;
  const char* const asked = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const bool enabled = asked != nullptr && std::string_view(asked) == "1";
  if (enabled && version >= kTakesSharedDevices) return;
  throw_shared(
      rank,
      Error(
          ExitCode::kEnvironment, "NQD3063",
          shared + ": NCCL " + nccl_version_text(version) + " takes one rank a device" +
              (version >= kTakesSharedDevices ? " unless NCCL_MULTI_RANK_GPU_ENABLE=1 is set"
               : enabled ? " (NCCL_MULTI_RANK_GPU_ENABLE is known from 2.30 on)"
                         : ""),
          "give each rank of a host a device of its own: as many ranks as devices, all visible to "
          "all (CUDA_VISIBLE_DEVICES not set to one for all of them), or each with its own, as "
          "CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK; NCCL 2.30 or later takes several "
          "with NCCL_MULTI_RANK_GPU_ENABLE=1; staging through the host (--backend mpi, shm or "
          "local) always does"));
}

using Gather = std::function<std::vector<std::byte>(std::span<const std::byte>)>;

// Fills the place but for its control communicator, and starts NCCL.
std::unique_ptr<NcclCommunicator> open(NcclSession::Place place, int ranks, int local_rank,
                                       const std::string& host, const Gather& gather,
                                       DeviceApi& device, NcclApi& nccl,
                                       const NcclOptions& options) {
  const Introduction mine = introduce(place.rank, local_rank, host, device, nccl, options);
  const std::vector<std::byte> bytes = gather(std::as_bytes(std::span(&mine, 1)));
  std::vector<Introduction> all(static_cast<std::size_t>(ranks));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  check_able(place.rank, all);
  check_distinct(place.rank, all);
  place.group = "world";
  place.device = mine.device;
  if (place.members.empty()) {
    for (int rank = 0; rank < ranks; ++rank) {
      place.members.push_back({rank, all[static_cast<std::size_t>(rank)].host.data()});
    }
  }
  auto session = std::make_shared<NcclSession>(device, nccl, std::move(place), options);
  session->start(all[0].id);
  return std::make_unique<NcclCommunicator>(std::move(session));
}

}  // namespace

std::string uuid_text(const std::array<std::uint8_t, 16>& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid[i] >> 4];
    text += kDigits[uuid[i] & 15];
  }
  return text;
}

std::string nccl_version_text(int version) {
  // NCCL_VERSION(X, Y, Z) = X·10000 + Y·100 + Z since 2.9.
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

std::unique_ptr<NcclCommunicator> open_nccl(Communicator& host, DeviceApi& device, NcclApi& nccl,
                                            const NcclOptions& options) {
  const auto mine = static_cast<std::size_t>(host.rank());
  NcclSession::Place place;
  place.rank = host.rank();
  for (int rank = 0; rank < host.size(); ++rank) {
    place.members.push_back({host.world_rank(rank), host.host(rank)});
  }
  place.control = host.split(0, host.rank(), "nccl");
  const int local_rank = static_cast<int>(host_map_of(host).place_of(mine));
  Communicator& control = *place.control;
  const Gather gather = [&](std::span<const std::byte> bytes) {
    std::vector<std::byte> all(bytes.size() * static_cast<std::size_t>(control.size()));
    control.all_gather(bytes, all, DType::kUInt8);
    return all;
  };
  return open(std::move(place), host.size(), local_rank, host.host(host.rank()), gather, device,
              nccl, options);
}

std::unique_ptr<NcclCommunicator> open_nccl(const FileMeeting& meeting, DeviceApi& device,
                                            NcclApi& nccl, const NcclOptions& options) {
  NcclSession::Place place;
  place.rank = meeting.rank;
  const MeetingLock lock(meeting);
  const Gather gather = [&](std::span<const std::byte> bytes) {
    return meet_by_files(meeting, bytes);
  };
  return open(std::move(place), meeting.ranks, meeting.local_rank, meeting.host, gather, device,
              nccl, options);
}

}  // namespace nqd::collectives
