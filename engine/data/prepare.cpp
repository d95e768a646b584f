#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "engine/data/dataset.h"
#include "engine/data/output_folder.h"
#include "engine/data/related.h"
#include "engine/data/split.h"
#include "engine/data/token_format.h"
#include "engine/io/dataset_json.h"

namespace nqd::engine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultInput = "/usr/share/common-licenses";
constexpr std::int64_t kByteVocab = 256;

struct SourceFile {
  fs::path path;
  bool is_link = false;
  std::string sha256;
  std::uint64_t bytes = 0;
};

// One document as it will be written: bytes [begin, end) of a source file.
struct Piece {
  const SourceFile* source = nullptr;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool heldout = false;
};

std::string percent(double fraction) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * fraction);
  return text;
}

std::vector<fs::path> files_of_folder(const fs::path& folder, std::vector<std::string>& notes) {
  std::vector<fs::path> files;
  std::error_code failure;
  fs::directory_iterator entries(folder, failure);
  if (failure) {
    throw Error(ExitCode::kUsage, "NQD2001",
                "cannot read " + folder.string() + ": " + failure.message(),
                "check the path and its permissions");
  }
  for (const fs::directory_entry& entry : entries) {
    if (entry.is_regular_file(failure)) {
      files.push_back(entry.path());
    } else if (entry.is_symlink(failure) && !entry.exists(failure)) {
      notes.push_back(entry.path().string() + " is a dangling link: left out");
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Every input file, read once for its size and digest. Empty files are left out and noted.
std::vector<SourceFile> collect(const std::vector<fs::path>& inputs,
                                std::vector<std::string>& notes) {
  std::vector<fs::path> paths;
  for (const fs::path& input : inputs.empty() ? std::vector<fs::path>{kDefaultInput} : inputs) {
    if (fs::is_directory(input)) {
      const auto files = files_of_folder(input, notes);
      paths.insert(paths.end(), files.begin(), files.end());
    } else {
      paths.push_back(input);
    }
  }
  std::vector<SourceFile> sources;
  for (const fs::path& path : paths) {
    const std::string text = read_file(path);
    if (text.empty()) {
      notes.push_back(path.string() + " is empty: left out");
      continue;
    }
    sources.push_back({path, fs::is_symlink(path), sha256_hex(text), text.size()});
  }
  return sources;
}

// The first of each content in input order; a file that is not a link is preferred as its name.
std::vector<SourceFile> drop_duplicates(const std::vector<SourceFile>& sources,
                                        std::vector<std::string>& duplicates) {
  std::map<std::string, std::size_t> kept;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto [entry, is_new] = kept.emplace(sources[i].sha256, i);
    if (!is_new && sources[entry->second].is_link && !sources[i].is_link) entry->second = i;
  }
  std::vector<SourceFile> unique;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::size_t original = kept.at(sources[i].sha256);
    if (original == i) {
      unique.push_back(sources[i]);
    } else {
      duplicates.push_back(sources[i].path.string() + " (same content as " +
                           sources[original].path.string() + ")");
    }
  }
  return unique;
}

std::vector<Piece> split_one_file(const SourceFile& source, double fraction,
                                  std::vector<std::string>& notes) {
  const std::optional<std::size_t> cut = line_end_split(read_file(source.path), fraction);
  if (!cut) {
    throw Error(ExitCode::kUsage, "NQD2004",
                source.path.string() + " is the only text, and it has no line end that leaves " +
                    percent(fraction) + " of its " + std::to_string(source.bytes) +
                    " bytes for the held-out split",
                "give more files, or a longer text");
  }
  notes.push_back(source.path.string() + " is the only text: split at a line end, byte " +
                  std::to_string(*cut) + " of " + std::to_string(source.bytes));
  return {{&source, 0, *cut, false}, {&source, *cut, source.bytes, true}};
}

// Files that share long passages, as lists of indices into `sources`.
std::vector<std::vector<std::size_t>> groups_of(const std::vector<SourceFile>& sources) {
  constexpr std::uint64_t kFullyComparedBytes = std::uint64_t{64} << 20;
  std::uint64_t total = 0;
  for (const SourceFile& source : sources) total += source.bytes;
  std::vector<Passages> passages;
  for (const SourceFile& source : sources) {
    passages.push_back(passages_of(read_file(source.path), 1 + total / kFullyComparedBytes));
  }
  std::vector<std::vector<std::size_t>> groups;
  const std::vector<std::size_t> numbers = related_groups(passages);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == groups.size()) groups.emplace_back();
    groups[numbers[i]].push_back(i);
  }
  return groups;
}

std::optional<std::vector<bool>> choose_groups(const std::vector<SourceFile>& sources,
                                               const std::vector<std::vector<std::size_t>>& groups,
                                               const PrepareOptions& options) {
  std::vector<SplitCandidate> candidates;
  for (const auto& members : groups) {
    SplitCandidate candidate;
    std::vector<std::string> digests;
    for (const std::size_t i : members) {
      digests.push_back(sources[i].sha256);
      candidate.bytes += sources[i].bytes;
    }
    std::sort(digests.begin(), digests.end());
    for (const std::string& digest : digests) candidate.sha256 += digest;
    candidates.push_back(candidate);
  }
  const auto chosen = choose_heldout(candidates, options.heldout_fraction, options.seed);
  if (!chosen) return std::nullopt;
  std::vector<bool> heldout(sources.size());
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (const std::size_t i : groups[group]) heldout[i] = (*chosen)[group];
  }
  return heldout;
}

void note_groups(const std::vector<SourceFile>& sources,
                 const std::vector<std::vector<std::size_t>>& groups,
                 std::vector<std::string>& notes) {
  for (const auto& members : groups) {
    if (members.size() < 2) continue;
    std::string names;
    for (const std::size_t i : members) {
      names += (names.empty() ? "" : ", ") + sources[i].path.string();
    }
    notes.push_back("kept in one split, because they share long passages: " + names);
  }
}

// Which files are held out: related ones together where that is possible.
std::vector<bool> choose_files(const std::vector<SourceFile>& sources,
                               const PrepareOptions& options, std::vector<std::string>& notes) {
  auto groups = groups_of(sources);
  if (const auto chosen = choose_groups(sources, groups, options)) {
    note_groups(sources, groups, notes);
    return *chosen;
  }
  groups.clear();
  for (std::size_t i = 0; i < sources.size(); ++i) groups.push_back({i});
  const auto chosen = choose_groups(sources, groups, options);
  if (!chosen) {
    throw Error(ExitCode::kUsage, "NQD2004",
                "no choice of whole files holds out " + percent(options.heldout_fraction) +
                    " of the text and leaves a file to train on",
                "lower --heldout-fraction, or give more files");
  }
  notes.push_back(
      "held-out files share long passages with training files: the held-out loss will look better "
      "than it is");
  return *chosen;
}

std::vector<Piece> split_files(const std::vector<SourceFile>& sources,
                               const PrepareOptions& options, std::vector<std::string>& notes) {
  const std::vector<bool> heldout = choose_files(sources, options, notes);
  std::vector<Piece> pieces;
  double total = 0;
  double held = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    pieces.push_back({&sources[i], 0, sources[i].bytes, heldout[i]});
    total += static_cast<double>(sources[i].bytes);
    if (heldout[i]) held += static_cast<double>(sources[i].bytes);
  }
  if (held / total > (1 + options.heldout_fraction) / 2) {
    notes.push_back("the held-out files are " + percent(held / total) +
                    " of the text, because most of it is one file or files that share passages: "
                    "give one file alone to have it split at a line end");
  }
  std::stable_partition(pieces.begin(), pieces.end(), [](const Piece& p) { return !p.heldout; });
  return pieces;
}

// Appends one piece to its split's file and records it.
void write_piece(const Piece& piece, TokenFileWriter& writer, Sha256& all, PrepareResult& result) {
  const std::string text = read_file(piece.source->path);
  if (sha256_hex(text) != piece.source->sha256) {
    throw Error(ExitCode::kUsage, "NQD2001",
                "cannot read " + piece.source->path.string() + ": it changed while it was prepared",
                "run the command again when nobody writes the file");
  }
  const std::string_view bytes =
      std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  result.documents.push_back({piece.source->path.string(), sha256_hex(bytes), bytes.size(),
                              writer.tokens(), piece.heldout ? "heldout" : "train"});
  writer.append(bytes);
  all.update(bytes);
}

void write_dataset(const std::vector<Piece>& pieces, const fs::path& output,
                   PrepareResult& result) {
  OutputFolder folder(output);
  TokenFileWriter train(output / "train.tokens", kByteVocab);
  TokenFileWriter heldout(output / "heldout.tokens", kByteVocab);
  AtomicFile index(output / "dataset.json");
  Sha256 all;
  for (const Piece& piece : pieces) {
    write_piece(piece, piece.heldout ? heldout : train, all, result);
  }
  result.train_tokens = train.tokens();
  result.heldout_tokens = heldout.tokens();
  result.digest = all.hex();
  const IndexedFile train_entry{train.tokens(), train.finish()};
  const IndexedFile heldout_entry{heldout.tokens(), heldout.finish()};
  index.write(
      index_json({result.documents, result.digest, kByteVocab, train_entry, heldout_entry}));
  index.sync();
  // The index goes last: until then a reader that compares it with the token files notices the mix.
  train.commit();
  heldout.commit();
  index.commit();
  folder.keep();
}

}  // namespace

PrepareResult prepare_dataset(const PrepareOptions& options) {
  if (!(options.heldout_fraction > 0 && options.heldout_fraction < 1)) {
    throw Error(ExitCode::kUsage, "NQD2008",
                "the held-out share is " + std::to_string(options.heldout_fraction) +
                    ", expected a number between 0 and 1, both excluded",
                "give --heldout-fraction 0.1");
  }
  PrepareResult result;
  const auto sources = drop_duplicates(collect(options.inputs, result.notes), result.duplicates);
  if (sources.empty()) {
    throw Error(ExitCode::kUsage, "NQD2003", "there is no text to prepare: no file with content",
                "give text files, or a folder that holds some");
  }
  const auto pieces = sources.size() == 1
                          ? split_one_file(sources[0], options.heldout_fraction, result.notes)
                          : split_files(sources, options, result.notes);
  write_dataset(pieces, options.output, result);
  return result;
}

}  // namespace nqd::engine
