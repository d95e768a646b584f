#include "collectives/bench/usage.h"

#include <span>

#include "collectives/communicator.h"

namespace nqd::collectives {

UsageMeter::UsageMeter() { ::getrusage(RUSAGE_THREAD, &start_); }

RankUsage UsageMeter::per_call(int calls) const {
  rusage now{};
  ::getrusage(RUSAGE_THREAD, &now);
  const auto share = [&](long end, long begin) { return static_cast<double>(end - begin) / calls; };
  return {share(now.ru_minflt, start_.ru_minflt), share(now.ru_majflt, start_.ru_majflt),
          share(now.ru_nvcsw, start_.ru_nvcsw), share(now.ru_nivcsw, start_.ru_nivcsw)};
}

std::vector<RankUsage> gather_usage(Communicator& world, const RankUsage& mine) {
  std::vector<RankUsage> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                   DType::kUInt8);
  return all;
}

}  // namespace nqd::collectives
