// The NCCL communicators of one rank whose calls are ordered by streams: what whoever waits for the
// rank's device has to look at meanwhile, and the memory that all of them know.
#pragma once

#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include "collectives/nccl/session.h"

namespace nqd::collectives {

// Sessions enter and leave by themselves (NcclOptions::sessions). For the rank's thread alone.
class NcclSessions {
 public:
  // Must outlive it.
  explicit NcclSessions(NcclApi& nccl) : nccl_(nccl) {}
  // Memory that was not released is.
  ~NcclSessions();
  NcclSessions(const NcclSessions&) = delete;
  NcclSessions& operator=(const NcclSessions&) = delete;

  void add(NcclSession& session);
  void remove(NcclSession& session) noexcept;

  // NcclSession::look of each: throws what ended one of them. To be called now and then, every few
  // milliseconds, while the host waits for the device.
  void look();
  // NcclSession::abandon of each: to be called when a failure ends the rank, before device memory
  // is freed, which would wait for calls that peers never answer.
  void abandon() noexcept;
  // Seconds that the compute stream stood still for the calls of `group`, from one take to the
  // next; of those that the device has passed.
  double take_stood_s(std::string_view group);

  // Device memory that is registered with every communicator, those of later splits too, so that
  // NCCL need not copy on the way (NCCL user guide, "User Buffer Registration"). Null where NCCL
  // has none to give: it gives whole granules of the driver's, of megabytes.
  std::byte* allocate(std::size_t bytes);
  // No call that uses it may be under way.
  void release(std::byte* memory) noexcept;

 private:
  struct Block {
    std::size_t bytes = 0;
    std::map<NcclSession*, void*> handles;
  };
  void make_known(NcclSession& session, std::byte* memory, Block& block);
  void forget(NcclSession& session, Block& block) noexcept;

  NcclApi& nccl_;
  std::vector<NcclSession*> all_;
  std::map<std::byte*, Block> blocks_;
};

}  // namespace nqd::collectives
