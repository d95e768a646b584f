#include "engine/cuda/host_copies.h"

#include <algorithm>
#include <cstring>

#include "engine/cuda/wait_looking.h"

namespace nqd::engine::cuda {

void Uploads::copy(StreamHandle stream, void* to, const void* from, std::size_t bytes,
                   const std::function<void()>& look) {
  for (std::size_t done = 0; done < bytes; done += kPlaceBytes) {
    const std::size_t count = std::min(bytes - done, kPlaceBytes);
    Place& place = places_[next_];
    next_ = (next_ + 1) % places_.size();
    if (place.memory.size() == 0) {
      place.memory = PinnedBuffer(nullptr, MemoryTag::kData, kPlaceBytes);
    }
    {
      const CountedWait wait(waited_s_);
      if (look) wait_looking([&] { return place.arrived.done(); }, look);
      place.arrived.synchronize();
    }
    std::memcpy(place.memory.data(), static_cast<const std::byte*>(from) + done, count);
    copy_async(stream, static_cast<std::byte*>(to) + done, place.memory.data(), count);
    place.arrived.record(stream);
  }
}

std::size_t Uploads::pinned_bytes() const {
  std::size_t bytes = 0;
  for (const Place& place : places_) bytes += place.memory.size();
  return bytes;
}

double* HostSums::take(ExactSum& sum, std::size_t count) {
  const auto room = [&] { return blocks_[block_].size() / sizeof(double) - used_; };
  while (block_ < blocks_.size() && room() < count) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    blocks_.emplace_back(nullptr, MemoryTag::kData, std::max(count, kBlock) * sizeof(double));
  }
  double* const values = reinterpret_cast<double*>(blocks_[block_].data()) + used_;
  used_ += count;
  taken_.push_back({&sum, values, count});
  return values;
}

void HostSums::add_up() {
  for (const Taken& taken : taken_) {
    for (std::size_t i = 0; i < taken.count; ++i) taken.sum->add(taken.values[i]);
  }
  taken_.clear();
  block_ = 0;
  used_ = 0;
}

std::size_t HostSums::pinned_bytes() const {
  std::size_t bytes = 0;
  for (const PinnedBuffer& block : blocks_) bytes += block.size();
  return bytes;
}

}  // namespace nqd::engine::cuda
