// Which generations of a folder stay.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/checkpoint/storage.h"

namespace nqd::engine {

// Of complete generations. Those that LATEST's run left behind, because it went on from an earlier
// one, are not among the newest.
struct KeepPolicy {
  std::int64_t last = 2;   // the newest ones; at least 1
  std::int64_t every = 0;  // and those of steps that it divides; 0: none
  // And the first that was written in each so many seconds, counted from 1970; 0: none.
  double interval_s = 0;
};

// Removes generations of LATEST's run, and of those that it went on from, that the policy does not
// keep, and cut ones that cannot be under way: of steps before the newest complete one, or left
// behind. Never the one that LATEST names, nor one of which the disk does not say so much, nor any
// of `in_use`, nor a whole one of another run. Where LATEST's own has lost files, the newest that
// has all of them stays too. Returns the names of those that it removed, the newest first.
std::vector<std::string> prune(Storage& storage, const std::filesystem::path& root,
                               const KeepPolicy& policy,
                               const std::vector<std::string>& in_use = {});

// Removes what saves left that did not come to their manifest, unless LATEST names it, and returns
// the names. Only for who knows that nobody saves to the folder.
std::vector<std::string> remove_cut(Storage& storage, const std::filesystem::path& root);

}  // namespace nqd::engine
