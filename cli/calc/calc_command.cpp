// `nqd calc …`: the note-book formulas as one-liners.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "cli/calc/calc.h"

namespace nqd::cli {
namespace {

std::string first_long_name(const std::string& flags) { return flags.substr(flags.find("--")); }

}  // namespace

Calculation::Calculation(CLI::App& calc, const std::string& name, const std::string& description)
    : command_(calc.add_subcommand(name, description)), name_(name) {}

Calculation& Calculation::quantity(const std::string& flags, double& target, Unit unit,
                                   const std::string& help, double least, bool open) {
  return add_quantity(flags, unit, help, least, open, [&target](double value) { target = value; });
}

Calculation& Calculation::quantity(const std::string& flags, std::optional<double>& target,
                                   Unit unit, const std::string& help, double least, bool open) {
  return add_quantity(flags, unit, help, least, open, [&target](double value) { target = value; });
}

Calculation& Calculation::add_quantity(const std::string& flags, Unit unit, const std::string& help,
                                       double least, bool open,
                                       const std::function<void(double)>& take) {
  CLI::Option* option = command_->add_option_function<std::string>(
      flags,
      [=](const std::string& text) {
        take(read_quantity(first_long_name(flags), text, unit, least, open));
      },
      help);
  require_last_ = [option] { option->required(); };
  return *this;
}

Calculation& Calculation::count(const std::string& flags, std::int64_t& target,
                                const std::string& help, std::int64_t most) {
  CLI::Option* option =
      command_->add_option(flags, target, help)->check(CLI::Range(std::int64_t{1}, most));
  if (target > 0) option->capture_default_str();
  require_last_ = [option] { option->required(); };
  return *this;
}

Calculation& Calculation::choice(const std::string& flags, std::string& target,
                                 const std::vector<std::string>& choices, const std::string& help) {
  CLI::Option* option = command_->add_option(flags, target, help)
                            ->check(CLI::IsMember(choices))
                            ->capture_default_str();
  require_last_ = [option] { option->required(); };
  return *this;
}

Calculation& Calculation::text(const std::string& flags, std::string& target,
                               const std::string& help) {
  CLI::Option* option = command_->add_option(flags, target, help);
  require_last_ = [option] { option->required(); };
  return *this;
}

Calculation& Calculation::flag(const std::string& flags, bool& target, const std::string& help) {
  command_->add_flag(flags, target, help);
  return *this;
}

Calculation& Calculation::required() {
  require_last_();
  return *this;
}

void Calculation::computes(Context& context, std::function<CalcReport()> compute) {
  auto json = std::make_shared<bool>(false);
  command_->add_flag("--json", *json, "print JSON (schemas/calc.schema.json)");
  command_->callback([=, &context, name = name_] {
    const CalcReport report = compute();
    std::cout << (*json ? calc_json(name, report) : calc_text(report));
    const ExitCode code = report.answer_is_no ? ExitCode::kNo : ExitCode::kOk;
    context.exit_code = static_cast<int>(code);
  });
}

void add_calc_command(CLI::App& app, Context& context) {
  CLI::App* calc = app.add_subcommand(
      "calc", "The note-book formulas: each with its numbers put in, and the result");
  calc->require_subcommand(1);
  calc->footer(
      "Figures are written 70e9 or 7B, sizes 25 GB or 25 GiB, rates 400 Gb/s or 50 GB/s, times 5us "
      "or 4min. Exit status: 0, 1 when what was asked does not fit, 2 for bad input.");
  add_calc_memory(*calc, context);
  add_calc_activations(*calc, context);
  add_calc_comm(*calc, context);
  add_calc_bubble(*calc, context);
  add_calc_flops(*calc, context);
  add_calc_mfu(*calc, context);
  add_calc_checkpoint(*calc, context);
  add_calc_goodput(*calc, context);
  add_calc_ingest(*calc, context);
}

}  // namespace nqd::cli
