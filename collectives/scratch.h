// The receive buffer of the algorithms: allocated on first use, kept, and only ever grown, so that
// its size is the largest that any call needed.
#pragma once

#include <cstddef>
#include <span>

#include "base/ledger.h"

namespace nqd::collectives {

class Scratch {
 public:
  // Frees the buffer; later ones are counted in `ledger` under kCommunication.
  void set_ledger(MemoryLedger* ledger) {
    buffer_ = Buffer();
    ledger_ = ledger;
  }
  // `bytes` bytes whose content is left over from earlier use.
  std::span<std::byte> take(std::size_t bytes) {
    if (bytes > buffer_.size()) {
      // The old block goes first: the ledger's peak must not see both.
      buffer_ = Buffer();
      buffer_ = Buffer(ledger_, MemoryTag::kCommunication, bytes);
    }
    return {buffer_.data(), bytes};
  }

 private:
  MemoryLedger* ledger_ = nullptr;
  Buffer buffer_;
};

}  // namespace nqd::collectives
