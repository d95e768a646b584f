#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "planner/import/import.h"

namespace nqd::planner {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json json_of(const T& value) {
  return value;
}
Json json_of(const std::vector<CustomBlock>& blocks) {
  Json list = Json::array();
  for (const CustomBlock& block : blocks) {
    list.push_back({{"name", block.name},
                    {"count", block.count},
                    {"parameters", block.parameters},
                    {"forward_flops", block.forward_flops},
                    {"saved_bytes", block.saved_bytes},
                    {"input_bytes", block.input_bytes}});
  }
  return list;
}

Json config_json(const std::vector<ImportedValue>& values) {
  Json config = Json::object();
  for (const ImportedValue& value : values) {
    Json* at = &config;
    std::string_view rest = value.path;
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      at = &(*at)[std::string(rest.substr(0, dot))];
      rest.remove_prefix(dot + 1);
    }
    std::visit([&](const auto& held) { (*at)[std::string(rest)] = json_of(held); }, value.value);
  }
  return config;
}

Json diagnostic_json(const Diagnostic& diagnostic) {
  return {{"code", diagnostic.code},
          {"severity", name(diagnostic.severity)},
          {"file", diagnostic.where.file},
          {"line", diagnostic.where.line},
          {"column", diagnostic.where.column},
          {"path", diagnostic.path},
          {"message", diagnostic.message},
          {"expected", diagnostic.expected},
          {"got", diagnostic.got},
          {"hint", diagnostic.hint}};
}

}  // namespace

std::string import_json(const ImportResult& result) {
  Json unrepresented = Json::array();
  for (const UnrepresentedKey& key : result.unrepresented) {
    unrepresented.push_back({{"key", key.key},
                             {"value", key.value},
                             {"file", key.where.file},
                             {"line", key.where.line},
                             {"reason", key.reason}});
  }
  Json diagnostics = Json::array();
  for (const Diagnostic& diagnostic : result.diagnostics) {
    diagnostics.push_back(diagnostic_json(diagnostic));
  }
  const bool read = result.exit_code != ExitCode::kUsage;
  const Json document = {{"config", read ? config_json(result.values) : Json()},
                         {"yaml", read ? Json(result.yaml) : Json()},
                         {"unrepresented", std::move(unrepresented)},
                         {"diagnostics", std::move(diagnostics)}};
  // Texts come from files that may hold anything.
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace nqd::planner
