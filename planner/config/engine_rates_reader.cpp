#include "planner/config/engine_rates_reader.h"

#include <string>

#include "planner/config/calibration_values.h"
#include "planner/config/read_value.h"
#include "planner/reference/kernels.h"

namespace nqd::planner {
namespace {

class EngineRatesReader : private CalibrationValues {
 public:
  using CalibrationValues::CalibrationValues;

  std::vector<EngineRates> read(const YamlNode& node) {
    std::vector<EngineRates> all;
    read_list(node, "engine_rates", "a list", true,
              [&](const YamlNode& item, const std::string& path) {
                all.push_back(rates(item, path));
                check_unique(item.place, path, all);
              });
    return all;
  }

 private:
  EngineRates rates(const YamlNode& node, const std::string& path) {
    EngineRates result;
    const auto integers = [&](std::string_view key, std::int64_t& target) {
      return Key{key, [this, &target, name = path + "." + std::string(key)](const YamlNode& n) {
                   integer(n, name, target);
                 }};
    };
    read_map(
        node, path,
        {{"numerics", [&](const YamlNode& n) { numerics(n, path, result.numerics); }},
         {"precision", [&](const YamlNode& n) { precision(n, path, result.precision); }},
         integers("threads", result.threads),
         integers("ranks", result.ranks),
         integers("cpus", result.cpus),
         {"in_place", [&](const YamlNode& n) { number(n, path + ".in_place", result.in_place); }},
         {"kernels", [&](const YamlNode& n) { result.kernels = kernels(n, path + ".kernels"); }}},
        {"numerics", "precision", "threads", "ranks", "in_place", "kernels"});
    return result;
  }

  void numerics(const YamlNode& node, const std::string& path, collectives::Numerics& target) {
    std::string word;
    text(node, path + ".numerics", word);
    if (const auto known = collectives::parse_numerics(word)) {
      target = *known;
    } else if (!word.empty()) {
      report(node.place, path, path + " has unknown numerics " + printable(word));
    }
  }

  void precision(const YamlNode& node, const std::string& path, Precision& target) {
    std::string word;
    text(node, path + ".precision", word);
    if (const auto known = parse_precision(word)) {
      target = *known;
    } else if (!word.empty()) {
      report(node.place, path, path + " has an unknown precision " + printable(word));
    }
  }

  std::vector<KernelRate> kernels(const YamlNode& node, const std::string& list_path) {
    std::vector<KernelRate> result;
    const auto read = [&](const YamlNode& item, const std::string& path) {
      KernelRate rate;
      read_map(item, path,
               {{"kernel", [&](const YamlNode& n) { text(n, path + ".kernel", rate.kernel); }},
                {"item_s", [&](const YamlNode& n) { number(n, path + ".item_s", rate.item_s); }},
                {"unit_s", [&](const YamlNode& n) { number(n, path + ".unit_s", rate.unit_s); }}},
               {"kernel", "item_s", "unit_s"});
      if (!rate.kernel.empty() && !parse_kernel(rate.kernel)) {
        report(item.place, path, path + " is of an unknown kernel " + printable(rate.kernel));
      }
      result.push_back(std::move(rate));
    };
    read_list(node, list_path, "a list of at least one kernel", false, read);
    return result;
  }

  // Two rates of one thing would leave the choice to their order.
  void check_unique(Place place, const std::string& path, const std::vector<EngineRates>& list) {
    const EngineRates& last = list.back();
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      const EngineRates& known = list[i];
      const bool same = known.numerics == last.numerics && known.precision == last.precision &&
                        known.threads == last.threads && known.ranks == last.ranks;
      if (!same) continue;
      report(place, path,
             path + " is of the same numerics, precision, threads and ranks as engine_rates[" +
                 std::to_string(i) + "]",
             "keep the one that was measured on the machine to plan for");
    }
  }
};

}  // namespace

std::vector<EngineRates> read_engine_rates(const YamlNode& node, const Source& source,
                                           std::vector<Diagnostic>& diagnostics) {
  return EngineRatesReader(source, diagnostics).read(node);
}

}  // namespace nqd::planner
