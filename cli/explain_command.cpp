// `nqd explain NQD1203`: what a code means and how to mend it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/codes.h"
#include "base/error.h"
#include "cli/command.h"
#include "planner/config/suggest.h"

namespace nqd::cli {
namespace {

constexpr std::size_t kTextWidth = 80;

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Breaks at spaces so that no line is longer than kTextWidth, except one long word.
std::string wrapped(std::string_view text) {
  std::string result;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column > 0 && column + 1 + word.size() > kTextWidth) {
      result += '\n';
      column = 0;
    }
    if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result + "\n";
}

void list_codes() {
  for (const CodeInfo& info : all_codes()) std::cout << info.code << "  " << info.title << "\n";
}

void explain(const std::string& asked) {
  const CodeInfo* info = find_code(upper(asked));
  if (info == nullptr) {
    std::vector<std::string_view> codes;
    for (const CodeInfo& known : all_codes()) codes.push_back(known.code);
    const std::optional<std::string> meant = planner::closest(asked, codes);
    throw Error(ExitCode::kUsage, "NQD1032", "there is no code " + asked,
                meant ? "did you mean " + *meant + "?" : "`nqd explain` lists every code");
  }
  std::cout << info->code << ": " << info->title << "\n\n" << wrapped(info->explanation);
}

}  // namespace

void add_explain_command(CLI::App& app, Context& /*context*/) {
  CLI::App* command =
      app.add_subcommand("explain", "Say what an error or warning code means and how to mend it.");
  const auto code = std::make_shared<std::string>();
  command->add_option("code", *code, "such as NQD1203, in any letter case; none lists them all")
      ->type_name("CODE");
  command->callback([code] { code->empty() ? list_codes() : explain(*code); });
}

}  // namespace nqd::cli
