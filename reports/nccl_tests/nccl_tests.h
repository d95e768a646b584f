// What nccl-tests printed: its table, and its JSON (-J). Formats: NVIDIA/nccl-tests v2.0 to v2.19
// (src/common.cu, src/util.cu), of which rccl-tests and others print the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/bench/bench.h"

namespace nqd::reports {

// One line "Rank 0 Group 0 Pid 4711 on node1 device 0 [0000:1b:00] NVIDIA H100".
struct NcclTestsDevice {
  int rank = 0;
  std::int64_t pid = 0;
  std::string host;
  std::string bus_id;
};

// From one header to the footer that belongs to it.
struct NcclTestsRun {
  // nqd's word: "all_reduce", "all_to_all", … or the program's own ("hypercube"); "unknown" when
  // neither its name was printed nor the bandwidths tell.
  std::string collective = "unknown";
  int ranks = 0;  // 0 = not printed
  // Programs that were started side by side and printed the same rank: they are no one world.
  bool separate_worlds = false;
  std::vector<NcclTestsDevice> devices;  // in the JSON the first of each process
  // Out of place and in place, in file order; backend "nccl", algorithm "library" (NCCL's own
  // choice, which it does not print). Time, algbw and busbw are as printed; samples_s holds the
  // average over iterations alone, or all iterations where the JSON has them (-I). The text of -I
  // gives min_s, p99_s and max_s without them.
  std::vector<collectives::BenchRow> rows;
  std::optional<std::uint64_t> out_of_bounds;  // "Out of bounds values"
  std::optional<double> average_busbw_gbps;
  bool complete = false;  // the footer is there

  // Distinct hosts of `devices`; 0 = not printed.
  int hosts() const;
};

struct NcclTestsOutput {
  std::vector<NcclTestsRun> runs;
  // Rows that are no measurement (size or time 0), cut rows, runs without an end: one sentence
  // each.
  std::vector<std::string> notes;
};

// Lines that are no part of a table (logs, warnings, prompts) are skipped, launchers' marks before
// a line ("[1,0]<stdout>:", "0: ") too. A row whose columns are not those of its header is an Error
// (kUsage, NQD2106) with file, line and column, unless another line is torn into it or the text
// ends in it. No table at all gives no run.
NcclTestsOutput read_nccl_tests_text(std::string_view text, const std::filesystem::path& file);

// True for an object that nccl-tests -J wrote (by its members).
class JsonField;
bool is_nccl_tests_json(const JsonField& document);
// An Error (kUsage, NQD2101) names the member that is missing or of another type. Numbers that
// nccl-tests writes as text ("nan") and truths ("true") are understood.
NcclTestsOutput read_nccl_tests_json(const JsonField& document);

// Shared by both forms.
std::string collective_of_program(std::string_view program);  // "all_reduce_perf" → "all_reduce"
std::string dtype_of_nccl(std::string_view type);             // "float" → "float32"
// One row of each measured half. False, with a note, for a time or size that is none.
bool add_nccl_row(NcclTestsRun& run, collectives::BenchRow row, NcclTestsOutput& output);
// Fills what the whole run tells: ranks of its rows, the collective by busbw/algbw.
void finish_nccl_run(NcclTestsRun& run);

}  // namespace nqd::reports
