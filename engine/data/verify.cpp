#include "engine/data/verify.h"

#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "engine/data/dataset.h"

namespace nqd::engine {
namespace {

std::string_view payload_of(const TokenFile& file) {
  const auto bytes = file.payload();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(ExitCode::kUsage, "NQD2005", path.string() + ": " + why,
              "write it again with `nqd data prepare`");
}

void check_against_index(const std::filesystem::path& path, const TokenFile& file,
                         const IndexedFile& entry, std::int64_t vocab) {
  if (file.vocab() != vocab) {
    refuse(path, "vocabulary " + std::to_string(file.vocab()) + ", dataset.json states " +
                     std::to_string(vocab));
  }
  if (file.tokens() != entry.tokens || file.digest() != entry.sha256) {
    refuse(path, "it is not the file that dataset.json describes (SHA-256 " + file.digest() +
                     ", expected " + entry.sha256 + ")");
  }
}

// Returns how many documents the split has.
std::uint64_t check_documents(const std::filesystem::path& path, const TokenFile& file,
                              const DatasetIndex& index, std::string_view split) {
  std::uint64_t next = 0;
  std::uint64_t documents = 0;
  for (const PreparedDocument& document : index.documents) {
    if (document.split != split) continue;
    ++documents;
    if (document.offset != next || document.tokens > file.tokens() - next) {
      refuse(path, "dataset.json places " + document.path + " at token " +
                       std::to_string(document.offset) + ", expected " + std::to_string(next));
    }
    const std::size_t width = file.bytes_per_token();
    if (sha256_hex(payload_of(file).substr(next * width, document.tokens * width)) !=
        document.sha256) {
      refuse(path,
             "the text of " + document.path + " has another SHA-256 than dataset.json states");
    }
    next += document.tokens;
  }
  if (next != file.tokens()) {
    refuse(path, "dataset.json describes " + std::to_string(next) + " tokens, the file has " +
                     std::to_string(file.tokens()));
  }
  return documents;
}

}  // namespace

VerifiedDataset verify_dataset(const std::filesystem::path& folder) {
  const DatasetIndex index = read_dataset_index(folder);
  VerifiedDataset result;
  Sha256 all;
  for (const std::string split : {"train", "heldout"}) {
    const std::filesystem::path path = folder / (split + ".tokens");
    const TokenFile file(path);
    file.verify();
    check_against_index(path, file, split == "train" ? index.train : index.heldout, index.vocab);
    result.documents += check_documents(path, file, index, split);
    (split == "train" ? result.train_tokens : result.heldout_tokens) = file.tokens();
    all.update(payload_of(file));
  }
  result.digest = all.hex();
  if (result.digest != index.digest) {
    refuse(folder / "dataset.json",
           "it states the digest " + index.digest + ", the token files have " + result.digest);
  }
  return result;
}

}  // namespace nqd::engine
