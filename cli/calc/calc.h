// What the subcommands of `nqd calc` share: flags in, figures with their formulas out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/command.h"

namespace nqd::cli {

enum class Unit : std::uint8_t {
  kNumber,
  kBytes,           // printed in GB and GiB
  kBytesPerSecond,  // read as "50 GB/s" or "400 Gb/s" too
  kSeconds,
  kFraction,  // printed in percent
  kFlops,     // operations: "120 GFLOP"
  kFlopsPerSecond,
  kDollars,
};

// A number with or without unit: 70e9, 7B, "25 GB", "400 Gb/s", 5us, 4min, "989 TFLOP/s". `least`
// is not allowed itself when `open`. Throws Error (kUsage): NQD1013 for other text, NQD1009 below
// `least`.
double read_quantity(const std::string& flag, const std::string& text, Unit unit, double least,
                     bool open);
// As people read it, with its unit.
std::string print_quantity(double value, Unit unit);
// For formulas: 70e9, 64, 0.05, 2.5e-6.
std::string compact(double value);

// The flags are each right and do not go together: Error (kUsage, NQD1090).
[[noreturn]] void throw_mismatch(const std::string& message, const std::string& hint);

using CalcValue = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

struct Figure {
  std::string key;  // of the JSON member
  std::string label;
  CalcValue value;
  Unit unit = Unit::kNumber;
  std::string formula = {};  // "2Φ + 14Φ/N"; empty = none
  std::string numbers = {};  // the same with the numbers put in
};

struct CalcTable {
  struct Column {
    std::string key;
    std::string label;
    Unit unit = Unit::kNumber;
  };
  std::string key;  // of the JSON array
  std::vector<Column> columns;
  std::vector<std::vector<CalcValue>> rows;
};

struct CalcReport {
  std::vector<std::pair<std::string, CalcValue>> inputs;  // JSON alone: text shows the formulas
  std::vector<Figure> figures;
  std::vector<CalcTable> tables;
  std::vector<std::string> notes;
  bool answer_is_no = false;  // exit code 1
};
std::string calc_text(const CalcReport& report);
std::string calc_json(const std::string& name, const CalcReport& report);

// One subcommand of calc. Targets must live until it has run: options structs are shared.
class Calculation {
 public:
  Calculation(CLI::App& calc, const std::string& name, const std::string& description);

  // A figure that is `least` or more, or more than `least` when `open`.
  Calculation& quantity(const std::string& flags, double& target, Unit unit,
                        const std::string& help, double least = 0, bool open = true);
  Calculation& quantity(const std::string& flags, std::optional<double>& target, Unit unit,
                        const std::string& help, double least = 0, bool open = true);
  // A whole number from 1 to `most`; a target of 0 stays so when the flag is not given.
  Calculation& count(const std::string& flags, std::int64_t& target, const std::string& help,
                     std::int64_t most = 1'048'576);
  Calculation& choice(const std::string& flags, std::string& target,
                      const std::vector<std::string>& choices, const std::string& help);
  Calculation& text(const std::string& flags, std::string& target, const std::string& help);
  Calculation& flag(const std::string& flags, bool& target, const std::string& help);
  // The flag that was added last must be given.
  Calculation& required();

  // Adds --json and what the subcommand does.
  void computes(Context& context, std::function<CalcReport()> compute);

 private:
  Calculation& add_quantity(const std::string& flags, Unit unit, const std::string& help,
                            double least, bool open, const std::function<void(double)>& take);

  CLI::App* command_;
  std::string name_;
  std::function<void()> require_last_;
};

void add_calc_memory(CLI::App& calc, Context& context);
void add_calc_activations(CLI::App& calc, Context& context);
void add_calc_comm(CLI::App& calc, Context& context);
void add_calc_bubble(CLI::App& calc, Context& context);
void add_calc_flops(CLI::App& calc, Context& context);
void add_calc_mfu(CLI::App& calc, Context& context);
void add_calc_checkpoint(CLI::App& calc, Context& context);
void add_calc_goodput(CLI::App& calc, Context& context);
void add_calc_ingest(CLI::App& calc, Context& context);

}  // namespace nqd::cli
