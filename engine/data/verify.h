// The whole check of a prepared dataset.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace nqd::engine {

struct VerifiedDataset {
  std::uint64_t documents = 0;
  std::uint64_t train_tokens = 0;
  std::uint64_t heldout_tokens = 0;
  std::string digest;
};

// Recomputes every digest: of each token file against its header and against the index, of each
// document, of the whole; and checks that the documents cover each file without gap or overlap.
// Throws Error (kUsage) NQD2001, NQD2005 or NQD2006 with the first thing that is wrong.
VerifiedDataset verify_dataset(const std::filesystem::path& folder);

}  // namespace nqd::engine
