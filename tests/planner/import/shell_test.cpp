#include "planner/import/shell.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace nqd::planner {
namespace {

// The words of all commands, one command a line.
std::string words(const std::string& script) {
  std::vector<Diagnostic> diagnostics;
  std::string text;
  for (const ShellCommand& command : read_script(Source("s.sh", script), diagnostics)) {
    for (const ShellWord& word : command.words) text += "<" + word.text + ">";
    text += "\n";
  }
  for (const Diagnostic& diagnostic : diagnostics) text += diagnostic.code + "\n";
  return text;
}

TEST_CASE("variables, arrays and quotes are expanded as bash does") {
  CHECK(words("A=1\nrun $A ${A} \"$A\" '$A' x$A") == "<run><1><1><1><$A><x1>\n");
  CHECK(words("A='b  c'\nrun $A \"$A\"") == "<run><b><c><b  c>\n");
  CHECK(words("A=(x 'y z')\nrun ${A[@]} | tee \"${A[@]}\" ${A[1]}") ==
        "<run><x><y><z>\n<tee><x><y z><y><z>\n");
  CHECK(words("A=(x)\nA+=(y)\nB=1\nB+=2\nrun \"${A[@]}\" $B") == "<run><x><y><12>\n");
  CHECK(words("run ${A:-5} ${1:-6} $B ${C[@]} $@") == "<run><5><6><$B>\n");
  CHECK(words("export N=2 G=8\nrun $((N * $G + 3 % 2)) $((1 / 0)) $(hostname)") ==
        "<export>\n<run><17><$((1 / 0))><$(hostname)>\n");
  CHECK(words("FOO=1 run a\\\n b \\\n c # d\n# e\nrun '#f'") == "<run><a><b><c>\n<run><#f>\n");
}

TEST_CASE("what is no argument is left out") {
  CHECK(words("run a > out.log 2>&1 < in") == "<run><a>\n");
  CHECK(words("cat <<EOF\nrun $A\nEOF\nrun b") == "<cat>\n<run><b>\n");
  CHECK(words("bash -c \"run --a 1 --b\"") == "<bash><-c><run><--a><1><--b>\n");
}

TEST_CASE("branches on known values are decided, others give their first") {
  const std::string script =
      "if [ \"$A\" = 8 ]; then run yes\nelif [[ $A == 7 ]]; then run seven\n"
      "else run no; fi\n";
  CHECK(words("A=8\n" + script) == "<run><yes>\n");
  CHECK(words("A=7\n" + script) == "<run><seven>\n");
  CHECK(words("A=6\n" + script) == "<run><no>\n");
  CHECK(words("if [ -z \"$A\" ]; then A=3; fi; run $A") == "<run><3>\n");
  CHECK(words("A=2\nif [ $A -gt 1 ] && [ $A -lt 2 ]; then run a; else run b; fi") == "<run><b>\n");
  CHECK(words("if grep -q x file; then run a; else run b; fi") == "<run><a>\nNQD2316\n");
  CHECK(words("S=13B\ncase $S in\n 7B|8B) run 7;;\n 13B)\n run 13\n;;\n *) run x;;\nesac\nrun z") ==
        "<run><13>\n<run><z>\n");
}

TEST_CASE("a word is placed where it is written, inside a variable too") {
  std::vector<Diagnostic> diagnostics;
  const std::vector<ShellCommand> commands =
      read_script(Source("s.sh", "A=\"--x 1 \\\n   --y 2\"\nrun $A"), diagnostics);
  REQUIRE(commands.size() == 1);
  const ShellWord& y = commands.front().words.at(3);
  CHECK(y.text == "--y");
  CHECK(y.place.line == 2);
  CHECK(y.place.column == 4);
}

TEST_CASE("scripts that cannot be read say why") {
  CHECK(words("run 'a") == "NQD2301\n");
  CHECK(words("A=(a b") == "NQD2301\n");
  std::string doubling = "A0=xxxxxxxxxxxxxxxx\n";
  for (int i = 1; i < 60; ++i) {
    const std::string before = "$A" + std::to_string(i - 1);
    doubling += "A" + std::to_string(i) + "=" + before + before + "\n";
  }
  CHECK(words(doubling) == "NQD2301\n");
  CHECK(words("run " + std::string(100000, '(') + "a") == "<run>\n<a>\n");
  std::string nested;
  for (int i = 0; i < 50000; ++i) nested += "${A:-";
  CHECK(words("run " + nested).find("NQD") == std::string::npos);
}

}  // namespace
}  // namespace nqd::planner
