// What the processes of a job said about themselves in NCCL's own log (NCCL_DEBUG=INFO). Formats:
// the INFO and WARN calls of NVIDIA/nccl from v2.4.8 to v2.30 (src/debug.cc for the prefix,
// init.cc, bootstrap.cc, plugin/net.cc, transport/*.cc, graph/topo.cc). Needs no NCCL.
//
// A log is evidence of what it says, never of what it leaves out: levels, subsystems and cut
// streams hide lines. Every field says when it is unknown, and unknown is never "well".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nqd::collectives {

// One communicator of one process; each rank has its own.
struct NcclComm {
  std::string id;  // as logged, "0x55d0c8a0": names it within the process
  int rank = -1;
  int ranks = 0;
  int nodes = 0;           // 0 = not logged
  std::string gpu;         // PCI bus id, "1b000"; empty = not logged
  bool started = false;    // "Init START" (from NCCL 2.17 on)
  bool completed = false;  // "Init COMPLETE"
  bool unclear = false;    // a line of its process was cut after it started
};

// A connection between two ranks of a communicator, as one of its ends logs it.
struct NcclEdge {
  enum class Kind : std::uint8_t { kPeerToPeer, kSharedMemory, kNetwork };
  Kind kind = Kind::kNetwork;
  int from = 0, to = 0;
  bool receives = false;           // the end that logs it
  std::string network;             // kNetwork: "IB", "Socket", "AWS Libfabric"
  int device = -1;                 // kNetwork: index among the adapters
  std::optional<bool> gpu_direct;  // kNetwork: NIC and GPU exchange data without host memory;
                                   // nothing when the line was cut before it could say so
};

struct NcclProcess {
  std::string host;  // empty: the line had no prefix
  std::int64_t pid = 0;
  std::vector<NcclComm> comms;
  std::string network;                                 // "Using network X"; empty = unknown
  std::optional<std::vector<std::string>> adapters;    // "mlx5_0:1/IB"; empty list = none found
  std::optional<std::vector<std::string>> interfaces;  // of NET/Socket
  std::string bootstrap_interface;                     // empty = unknown
  std::vector<NcclEdge> edges;
  std::vector<std::string> plugins_initialized;  // "IB", "Socket", "AWS Libfabric"
  std::vector<std::string> plugins_failed;
  std::string plugin_failure;   // the line in which an external plugin gave up
  bool verbs_missing = false;   // libibverbs could not be opened
  std::string adapter_failure;  // the line in which an adapter could not be opened or queried
  std::vector<std::string> gdr_enabled, gdr_disabled;  // adapters, as the line names them
  bool adapters_merged = false;  // several ports were made one device: indices mean those
  std::vector<std::pair<std::string, std::string>> environment;  // NCCL_*, by the environment
  std::vector<std::string> warnings;                             // NCCL WARN
};

struct NcclLog {
  std::string version;                 // "2.28.9+cuda12.4"; empty = not logged
  std::vector<NcclProcess> processes;  // in the order of their first line
  std::uint64_t records = 0;           // lines of NCCL that were recognised
  std::uint64_t cut_records = 0;       // … that end inside, at another's begin or the text's end
};

// Reads every NCCL line of the texts (one a file; a process may be spread over several). Other text
// is skipped, lines of several processes may be torn into each other, any bytes are accepted.
// Linear in the size of the texts. Never throws for what they hold.
NcclLog parse_nccl_logs(std::span<const std::string_view> texts);

// Where in `line` the first NCCL line begins, its "host:pid:tid [device] " included; npos when
// there is none.
std::size_t nccl_record_begin(std::string_view line);

}  // namespace nqd::collectives
