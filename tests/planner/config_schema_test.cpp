// The field table is sound, and what is generated from it is current.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "base/file.h"
#include "planner/config/config.h"
#include "planner/config/field.h"

namespace nqd::planner {
namespace {

TEST_CASE("schemas/config.schema.json is what the table generates") {
  CHECK_MESSAGE(read_file(NQD_SOURCE_DIR "/schemas/config.schema.json") == config_json_schema(),
                "run: nqd schema config > schemas/config.schema.json");
}

TEST_CASE("docs/config.md holds the reference that the table generates") {
  const std::string begin = "<!-- nqd schema reference -->\n";
  const std::string end = "<!-- end of nqd schema reference -->\n";
  const std::string document = read_file(NQD_SOURCE_DIR "/docs/config.md");
  const std::size_t from = document.find(begin);
  const std::size_t to = document.find(end);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  const std::size_t start = from + begin.size();
  CHECK_MESSAGE(document.substr(start, to - start) == config_reference_markdown(),
                "paste the output of: nqd schema reference");
}

TEST_CASE("every field has a unique path in a known section, a slot and a doc") {
  std::set<std::string_view> seen;
  for (const Field& field : fields()) {
    INFO(field.path);
    CHECK(seen.insert(field.path).second);
    CHECK(find_section(parent_of(field.path)) != nullptr);
    CHECK(find_field(field.path) == &field);
    const bool has_slot = field.slot != nullptr;
    CHECK(has_slot);
    CHECK(field.doc.ends_with('.'));
    CHECK((field.kind == Kind::kChoice) == !field.choices.empty());
  }
}

TEST_CASE("no two fields share a slot") {
  Draft draft;
  std::set<void*> slots;
  for (const Field& field : fields()) {
    void* slot = std::visit([](auto* target) -> void* { return target; }, field.slot(draft));
    CHECK_MESSAGE(slots.insert(slot).second, field.path);
  }
}

TEST_CASE("choices are the enum's names in its order") {
  for (const Field& field : fields()) {
    for (const std::string_view choice : field.choices) {
      Draft draft;
      store(field, draft, Value(std::string(choice)));
      CHECK(value_text(field, draft) == choice);
    }
  }
}

TEST_CASE("defaults lie within their ranges, or are required or derived") {
  for (const Field& field : fields()) {
    if (!field.fallback.empty()) continue;
    Draft draft;
    const Slot slot = field.slot(draft);
    if (const auto* const* integer = std::get_if<std::int64_t*>(&slot)) {
      CHECK_MESSAGE(field.range.contains(static_cast<double>(**integer)), field.path);
    } else if (const auto* const* number = std::get_if<double*>(&slot)) {
      CHECK_MESSAGE(field.range.contains(**number), field.path);
    }
  }
}

TEST_CASE("numbers print shortest and read back equal") {
  CHECK(number_text(80e9) == "80000000000");
  CHECK(number_text(0.001) == "0.001");
  CHECK(number_text(3e-6) == "3e-06");
  CHECK(number_text(0.1 + 0.2) == "0.30000000000000004");
  CHECK(number_text(-2) == "-2");
  CHECK(number_text(1e18) == "1e+18");
}

}  // namespace
}  // namespace nqd::planner
