#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/error.h"
#include "collectives/nccl/log.h"
#include "reports/nccl_tests/nccl_tests.h"

namespace nqd::reports {
namespace {

using collectives::BenchRow;

struct Word {
  std::string_view text;
  std::size_t column = 0;  // from 1
};

std::vector<Word> words_of(std::string_view line, std::size_t first_column) {
  std::vector<Word> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = line.find_first_not_of(" \t", at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t", begin), line.size());
    words.push_back({line.substr(begin, end - begin), begin + first_column});
    at = end;
  }
  return words;
}

template <typename Integer>
std::optional<Integer> whole(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What launchers put before a rank's line: "[1,0]<stdout>:" of mpirun, "0: " of srun -l.
std::size_t mark_length(std::string_view line) {
  const auto digits = [&](std::size_t at) {
    while (at < line.size() && line[at] >= '0' && line[at] <= '9') ++at;
    return at;
  };
  if (line.starts_with('[')) {
    const std::size_t close = line.find(">:");
    const bool tagged = digits(1) > 1 && line.substr(digits(1)).starts_with(',') && close < 40;
    return tagged ? close + 2 : 0;
  }
  const std::size_t colon = digits(
      line.find_first_not_of(' ') == std::string_view::npos ? 0 : line.find_first_not_of(' '));
  const bool labelled = colon > 0 && colon < line.size() && line[colon] == ':' && colon < 8;
  return labelled && line[colon - 1] != ' ' ? colon + 1 : 0;
}

bool is_type(std::string_view word) {
  constexpr std::array<std::string_view, 13> kTypes = {
      "int8", "uint8", "char",   "int32",    "uint32", "int64", "uint64",
      "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
  return std::find(kTypes.begin(), kTypes.end(), word) != kTypes.end();
}

// The columns that a header announces. Older versions lack redop and root, and print the largest
// deviation ("error") where later ones count wrong elements ("#wrong").
struct Columns {
  bool known = false;
  std::size_t width = 4;  // columns of one half: time, algbw, busbw, #wrong; 8 with -I
  bool counts_wrong = true;
  bool has_root = true;
};

class Reader {
 public:
  Reader(std::string_view text, const std::filesystem::path& file) : text_(text), file_(file) {}

  NcclTestsOutput read() {
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      std::string_view line = text_.substr(begin, end - begin);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      ++number_;
      cut_ = end == text_.size();
      read_line(line);
      begin = end + 1;
    }
    close();
    return std::move(output_);
  }

 private:
  void read_line(std::string_view line) {
    const std::size_t record = collectives::nccl_record_begin(line);
    if (record != std::string_view::npos) {
      line = line.substr(0, record);
      cut_ = true;
    }
    const std::size_t mark = mark_length(line);
    const std::string_view body = line.substr(mark);
    const std::size_t first = body.find_first_not_of(" \t");
    if (first == std::string_view::npos) return;
    if (body[first] == '#') {
      read_comment(body.substr(first + 1));
    } else {
      read_row(body, mark + 1);
    }
    const std::size_t program = body.find("_perf");
    if (program != std::string_view::npos) read_program(body, program);
  }

  // A name anywhere before the table: a command line, or "# Collective test starting: NAME".
  void read_program(std::string_view line, std::size_t at) {
    std::size_t begin = at;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(line[begin - 1])) != 0 ||
                         line[begin - 1] == '_')) {
      --begin;
    }
    const std::string name = collective_of_program(line.substr(begin));
    if (name.empty() || line.find("concluded") != std::string_view::npos) return;
    program_ = name;
    if (open_ && run().rows.empty()) run().collective = name;
  }

  NcclTestsRun& run() { return output_.runs.back(); }

  void open() {
    // A second header before any row and before an end: another program, side by side.
    if (open_ && run().rows.empty() && header_seen_) {
      run().separate_worlds = true;
      return;
    }
    if (open_ && run().rows.empty()) return;
    close();
    open_ = true;
    header_seen_ = false;
    columns_ = {};
    output_.runs.emplace_back();
    if (!program_.empty()) run().collective = program_;
  }

  void close() {
    if (!open_) return;
    open_ = false;
    finish_nccl_run(run());
    if (!run().complete && !run().rows.empty()) {
      output_.notes.push_back("the run of " + run().collective +
                              " has no end: it was stopped, hangs, or its output was cut");
    }
  }

  void read_comment(std::string_view text) {
    const std::vector<Word> words = words_of(text, 0);
    if (words.empty()) return;
    const auto starts = [&](std::initializer_list<std::string_view> lead) {
      return words.size() >= lead.size() &&
             std::equal(lead.begin(), lead.end(), words.begin(),
                        [](std::string_view a, const Word& b) { return a == b.text; });
    };
    if (starts({"nccl-tests", "version"}) || starts({"Collective", "test", "starting:"})) {
      if (!open_ || !run().rows.empty()) open();
    } else if (starts({"nThread"})) {
      open();
      header_seen_ = true;
    } else if (starts({"Rank"})) {
      read_device(words);
    } else if (starts({"size", "count", "type"})) {
      read_header(words);
    } else if (starts({"Out", "of", "bounds", "values"}) && words.size() >= 6 && open_) {
      run().out_of_bounds = whole<std::uint64_t>(words[5].text);
    } else if (starts({"Avg", "bus", "bandwidth"}) && words.size() >= 5) {
      read_average(words[4].text);
    }
  }

  // "Rank  0 [Group  0] Pid  4711 on  node1 device  0 [0000:1b:00] NVIDIA H100"
  void read_device(const std::vector<Word>& words) {
    NcclTestsDevice device;
    const std::optional<int> rank = words.size() > 1 ? whole<int>(words[1].text) : std::nullopt;
    if (!rank || *rank < 0) return;
    device.rank = *rank;
    for (std::size_t i = 2; i + 1 < words.size(); ++i) {
      const std::string_view next = words[i + 1].text;
      if (words[i].text == "Pid") device.pid = whole<std::int64_t>(next).value_or(0);
      if (words[i].text == "on" && device.host.empty()) device.host = next;
      if (words[i].text.starts_with('[') && device.bus_id.empty()) {
        device.bus_id = words[i].text.substr(1, words[i].text.find(']') - 1);
      }
    }
    if (!open_) open();
    ranks_seen(device);
    run().devices.push_back(std::move(device));
  }

  void ranks_seen(const NcclTestsDevice& device) {
    if (run().devices.empty()) seen_.clear();
    if (!seen_.insert(device.rank).second) run().separate_worlds = true;
  }

  void read_header(const std::vector<Word>& words) {
    if (!open_ || (!run().rows.empty() && run().complete)) open();
    const auto count = [&](std::string_view name) {
      return std::count_if(words.begin(), words.end(),
                           [&](const Word& word) { return word.text == name; });
    };
    columns_.known = true;
    columns_.width = count("i_min") > 0 ? 8 : 4;
    columns_.counts_wrong = count("error") == 0;
    columns_.has_root = count("root") > 0;
  }

  void read_average(std::string_view text) {
    if (!open_) return;
    run().average_busbw_gbps = real(text);
    run().complete = true;
    close();
    program_.clear();
  }

  [[noreturn]] void fail(std::size_t column, const std::string& what) const {
    throw Error(
        ExitCode::kUsage, "NQD2106",
        file_.string() + ":" + std::to_string(number_) + ":" + std::to_string(column) + ": " + what,
        "give the output as nccl-tests printed it; a row has size, count, type, redop, "
        "root, then time, algbw, busbw and #wrong out of place and in place");
  }

  void note_cut() {
    output_.notes.push_back(file_.string() + ":" + std::to_string(number_) +
                            ": the row is cut and left out");
  }

  // A row begins with two whole numbers and a type.
  void read_row(std::string_view line, std::size_t first_column) {
    const std::vector<Word> words = words_of(line, first_column);
    if (words.size() < 3 || !is_type(words[2].text)) return;
    const std::optional<std::uint64_t> bytes = whole<std::uint64_t>(words[0].text);
    if (!bytes || !whole<std::uint64_t>(words[1].text)) return;
    if (!open_) open();
    BenchRow row;
    row.effective_bytes = *bytes;
    row.dtype = dtype_of_nccl(words[2].text);
    std::size_t at = 3;
    row.op = "none";
    if (at < words.size() && !real(words[at].text) && words[at].text != "N/A") {
      row.op = words[at++].text;
    }
    if (cut_ && words.size() < at + 1 + columns_.width) return note_cut();
    read_halves(row, words, at);
  }

  // Behind redop: the root, if the header has one, and one or two halves.
  void read_halves(const BenchRow& row, const std::vector<Word>& words, std::size_t at) {
    const std::size_t width = columns_.width;
    std::size_t left = words.size() - at;
    // A time stamp is two words: a day and a time.
    if (left >= 2 && words.back().text.find(':') != std::string_view::npos) left -= 2;
    const bool rooted = columns_.known ? columns_.has_root : left % width == 1;
    if (rooted && left > 0) {
      if (!whole<int>(words[at].text)) {
        fail(words[at].column,
             "the root is no whole number: `" + std::string(words[at].text) + "`");
      }
      ++at;
      --left;
    }
    if (left == 0 || left % width != 0 || left / width > 2) {
      if (cut_) return note_cut();
      const Word& last = words.back();
      fail(last.column, "a row of " + std::to_string(words.size()) +
                            " columns, which are not those of nccl-tests' table");
    }
    for (std::size_t half = 0; half < left / width; ++half) {
      BenchRow copy = row;
      // One half alone is in place: what does not run out of place prints blanks for it.
      copy.in_place = half == 1 || left == width;
      if (read_half(copy, words, at + half * width)) add_nccl_row(run(), std::move(copy), output_);
    }
  }

  // False when the half was not measured.
  bool read_half(BenchRow& row, const std::vector<Word>& words, std::size_t at) {
    const auto figure = [&](std::size_t index) {
      const std::string_view text = words[at + index].text;
      if (text == "N/A") return std::numeric_limits<double>::quiet_NaN();
      const std::optional<double> value = real(text);
      if (value) return *value;
      fail(words[at + index].column, "`" + std::string(text) + "` is no number");
    };
    const double time_us = figure(0);
    if (std::isnan(time_us)) return false;
    row.p50_s = time_us * 1e-6;
    row.algbw_gbps = figure(1);
    row.busbw_gbps = figure(2);
    const double wrong = figure(3);
    row.checked = columns_.counts_wrong && !std::isnan(wrong);
    if (row.checked) row.wrong = wrong_elements(wrong, words[at + 3].column);
    if (columns_.width == 8) {  // i_min i_max i_p99 i_cv%, of the iterations
      row.min_s = figure(4) * 1e-6;
      row.max_s = figure(5) * 1e-6;
      row.p99_s = figure(6) * 1e-6;
      figure(7);
    }
    return true;
  }

  std::uint64_t wrong_elements(double value, std::size_t column) const {
    if (!(value >= 0) || value > 1e18) fail(column, "the number of wrong elements is none");
    return static_cast<std::uint64_t>(value);
  }

  const std::string_view text_;
  const std::filesystem::path& file_;
  NcclTestsOutput output_;
  Columns columns_;
  std::set<int> seen_;  // ranks of the open run
  std::string program_;
  std::size_t number_ = 0;
  bool open_ = false;         // output_.runs.back() has no end yet
  bool header_seen_ = false;  // … and has its "nThread" line
  bool cut_ = false;          // the line's end may be missing
};

}  // namespace

NcclTestsOutput read_nccl_tests_text(std::string_view text, const std::filesystem::path& file) {
  return Reader(text, file).read();
}

}  // namespace nqd::reports
