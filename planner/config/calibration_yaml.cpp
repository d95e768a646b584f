#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "collectives/types.h"
#include "planner/calibration/calibration.h"
#include "planner/config/calibration_reader.h"
#include "planner/config/calibration_values.h"
#include "planner/config/engine_rates_reader.h"
#include "planner/config/read_value.h"
#include "planner/config/yaml_tree.h"

namespace nqd::planner {
namespace {

// Reads the fixed shape of a calibration.
class CalibrationReader : private CalibrationValues {
 public:
  using CalibrationValues::CalibrationValues;

  Calibration read(const YamlNode& root) {
    Calibration calibration;
    std::int64_t version = 0;
    read_map(root, "",
             {{"version", [&](const YamlNode& n) { integer(n, "version", version); }},
              {"source", [&](const YamlNode& n) { text(n, "source", calibration.source); }},
              {"gemm_flops",
               [&](const YamlNode& n) { number(n, "gemm_flops", calibration.gemm_flops); }},
              {"memory_bandwidth_bytes_per_s",
               [&](const YamlNode& n) {
                 number(n, "memory_bandwidth_bytes_per_s",
                        calibration.memory_bandwidth_bytes_per_s);
               }},
              {"curves", [&](const YamlNode& n) { calibration.curves = curves(n); }},
              {"crossovers", [&](const YamlNode& n) { calibration.crossovers = crossovers(n); }},
              {"engine_rates",
               [&](const YamlNode& n) {
                 calibration.engine_rates = read_engine_rates(n, source_, diagnostics_);
               }}},
             {"version", "source", "curves"});
    if (diagnostics_.empty() && version != kCalibrationVersion) {
      report(
          root.place, "version",
          "calibration version " + std::to_string(version) + " is not one that this nqd reads (1)");
    }
    return calibration;
  }

 private:
  std::vector<CalibratedCurve> curves(const YamlNode& node) {
    std::vector<CalibratedCurve> result;
    if (node.kind != YamlNode::Kind::kSequence) {
      wrong_type(node, "curves", "a list");
      return result;
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string path = "curves[" + std::to_string(i) + "]";
      const std::size_t before = diagnostics_.size();
      result.push_back(curve(node.items[i], path));
      if (diagnostics_.size() == before) check_unique(node.items[i].place, path, result);
    }
    return result;
  }

  // Two curves of one thing would leave the choice to their order.
  void check_unique(Place place, const std::string& path,
                    const std::vector<CalibratedCurve>& list) {
    const CalibratedCurve& last = list.back();
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      const CalibratedCurve& known = list[i];
      if (known.collective != last.collective || known.algorithm != last.algorithm ||
          known.ranks != last.ranks || known.inside_node != last.inside_node) {
        continue;
      }
      return report(place, path,
                    path + " is a second curve of " + last.collective + " (" + last.algorithm +
                        ") for " + std::to_string(last.ranks) + " ranks " +
                        (last.inside_node ? "inside a node" : "across nodes") + ", after curves[" +
                        std::to_string(i) + "]",
                    "keep the one that was measured on the fabric to plan for");
    }
  }

  CalibratedCurve curve(const YamlNode& node, const std::string& path) {
    CalibratedCurve result;
    read_map(
        node, path,
        {{"collective",
          [&](const YamlNode& n) { text(n, path + ".collective", result.collective); }},
         {"algorithm", [&](const YamlNode& n) { text(n, path + ".algorithm", result.algorithm); }},
         {"ranks", [&](const YamlNode& n) { integer(n, path + ".ranks", result.ranks); }},
         {"inside_node",
          [&](const YamlNode& n) { flag(n, path + ".inside_node", result.inside_node); }},
         {"max_residual_fraction",
          [&](const YamlNode& n) {
            number(n, path + ".max_residual_fraction", result.max_residual_fraction);
          }},
         {"held_out_fraction",
          [&](const YamlNode& n) {
            number(n, path + ".held_out_fraction", result.held_out_fraction);
          }},
         {"break_bytes",
          [&](const YamlNode& n) { number(n, path + ".break_bytes", result.break_bytes); }},
         {"pieces", [&](const YamlNode& n) { result.pieces = pieces(n, path + ".pieces"); }},
         {"points", [&](const YamlNode& n) { result.points = points(n, path + ".points"); }}},
        {"collective", "algorithm", "ranks", "max_residual_fraction", "pieces"});
    check_collective(node.place, path, result.collective);
    check_algorithm(node.place, path, result.algorithm);
    return result;
  }

  void check_collective(Place place, const std::string& path, const std::string& name) {
    if (name.empty() || collectives::parse_collective(name)) return;
    report(place, path, path + " has an unknown collective " + printable(name));
  }

  void check_algorithm(Place place, const std::string& path, const std::string& name) {
    if (name.empty() || collectives::parse_algorithm(name)) return;
    report(place, path, path + " has an unknown algorithm " + printable(name));
  }

  std::vector<SamplePoint> points(const YamlNode& node, const std::string& list_path) {
    std::vector<SamplePoint> result;
    const auto read = [&](const YamlNode& item, const std::string& path) {
      SamplePoint point;
      read_map(
          item, path,
          {{"bytes", [&](const YamlNode& n) { number(n, path + ".bytes", point.bytes); }},
           {"seconds", [&](const YamlNode& n) { number(n, path + ".seconds", point.seconds); }}},
          {"bytes", "seconds"});
      const bool ascends = result.empty() || point.bytes > result.back().bytes;
      if (!ascends || !(point.bytes > 0) || !(point.seconds > 0)) {
        report(item.place, path,
               path + " must have seconds above 0, and more bytes than the point before it");
      }
      result.push_back(point);
    };
    read_list(node, list_path, "a list of at least one point", false, read);
    return result;
  }

  std::vector<Crossovers> crossovers(const YamlNode& node) {
    std::vector<Crossovers> result;
    read_list(node, "crossovers", "a list", true,
              [&](const YamlNode& item, const std::string& path) {
                result.push_back(crossover_row(item, path));
                check_unique(item.place, path, result);
              });
    return result;
  }

  Crossovers crossover_row(const YamlNode& node, const std::string& path) {
    Crossovers row;
    const auto texts = [&](std::string_view key, std::string& target) {
      return Key{key, [this, &target, name = path + "." + std::string(key)](const YamlNode& n) {
                   text(n, name, target);
                 }};
    };
    const auto flags = [&](std::string_view key, bool& target) {
      return Key{key, [this, &target, name = path + "." + std::string(key)](const YamlNode& n) {
                   flag(n, name, target);
                 }};
    };
    read_map(node, path,
             {texts("collective", row.collective),
              texts("backend", row.backend),
              flags("inside_node", row.inside_node),
              flags("registered", row.registered),
              {"ranks", [&](const YamlNode& n) { integer(n, path + ".ranks", row.ranks); }},
              {"choices", [&](const YamlNode& n) { row.choices = choices(n, path + ".choices"); }}},
             {"collective", "ranks", "inside_node", "backend", "registered", "choices"});
    check_collective(node.place, path, row.collective);
    return row;
  }

  std::vector<CrossoverChoice> choices(const YamlNode& node, const std::string& list_path) {
    std::vector<CrossoverChoice> result;
    const auto read = [&](const YamlNode& item, const std::string& path) {
      CrossoverChoice choice;
      read_map(item, path,
               {{"from_bytes",
                 [&](const YamlNode& n) { number(n, path + ".from_bytes", choice.from_bytes); }},
                {"algorithm",
                 [&](const YamlNode& n) { text(n, path + ".algorithm", choice.algorithm); }}},
               {"from_bytes", "algorithm"});
      check_algorithm(item.place, path, choice.algorithm);
      if (!result.empty() && choice.from_bytes <= result.back().from_bytes) {
        report(item.place, path, path + " must begin at more bytes than the choice before it");
      }
      result.push_back(std::move(choice));
    };
    read_list(node, list_path, "a list of at least one choice", false, read);
    return result;
  }

  void check_unique(Place place, const std::string& path, const std::vector<Crossovers>& list) {
    const Crossovers& last = list.back();
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      const Crossovers& known = list[i];
      const bool same = known.collective == last.collective && known.ranks == last.ranks &&
                        known.inside_node == last.inside_node && known.backend == last.backend &&
                        known.registered == last.registered;
      if (!same) continue;
      report(place, path,
             path + " chooses for the same calls as crossovers[" + std::to_string(i) + "]",
             "keep the one that was measured on the fabric to run on");
    }
  }

  std::vector<LinkPiece> pieces(const YamlNode& node, const std::string& path) {
    std::vector<LinkPiece> result;
    if (node.kind != YamlNode::Kind::kSequence || node.items.empty()) {
      wrong_type(node, path, "a list of at least one piece");
      return result;
    }
    const std::size_t before = diagnostics_.size();
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      result.push_back(piece(node.items[i], path + "[" + std::to_string(i) + "]"));
    }
    if (diagnostics_.size() == before) check_order(node, path, result);
    return result;
  }

  LinkPiece piece(const YamlNode& node, const std::string& path) {
    LinkPiece result;
    const auto field = [&](std::string_view key, double& target) {
      return Key{key, [this, &target, name = path + "." + std::string(key)](const YamlNode& n) {
                   number(n, name, target);
                 }};
    };
    read_map(node, path,
             {field("from_bytes", result.from_bytes), field("to_bytes", result.to_bytes),
              field("alpha_s", result.alpha_s), field("beta_s_per_byte", result.beta_s_per_byte)},
             {"from_bytes", "to_bytes", "alpha_s", "beta_s_per_byte"});
    return result;
  }

  void check_order(const YamlNode& node, const std::string& path,
                   const std::vector<LinkPiece>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string name = path + "[" + std::to_string(i) + "]";
      if (list[i].to_bytes < list[i].from_bytes) {
        report(node.items[i].place, name, name + " ends before it starts");
      } else if (i > 0 && list[i].from_bytes != list[i - 1].to_bytes) {
        report(node.items[i].place, name, name + " does not start where the piece before it ends");
      }
    }
  }
};

bool looks_like_evidence(std::string_view text) {
  return text.starts_with('{') && text.find("\"schema_version\"") != std::string_view::npos;
}

}  // namespace

std::optional<Calibration> parse_calibration(const Source& source,
                                             std::vector<Diagnostic>& diagnostics) {
  std::vector<Diagnostic> found;
  Calibration calibration;
  if (const std::optional<YamlNode> root = parse_yaml(source, found)) {
    CalibrationReader reader(source, found);
    calibration = reader.read(*root);
  }
  if (!found.empty() && looks_like_evidence(source.text())) {
    found = {
        source.error("NQD1011", {1, 1}, "", "this looks like evidence, not like a cluster file")};
    found.front().hint =
        "`nqd calibrate " + source.name() + " --output cluster.yaml` makes a cluster file of it";
  }
  for (Diagnostic& diagnostic : found) diagnostic.code = "NQD1011";
  const bool good = found.empty();
  diagnostics.insert(diagnostics.end(), found.begin(), found.end());
  return good ? std::optional(std::move(calibration)) : std::nullopt;
}

Calibration read_calibration(const std::string& path) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error& error) {
    throw Error(ExitCode::kUsage, "NQD1011", error.what(),
                "give the file that `nqd calibrate` wrote");
  }
  const Source source(path, std::move(text));
  std::vector<Diagnostic> diagnostics;
  std::optional<Calibration> calibration = parse_calibration(source, diagnostics);
  if (calibration) return std::move(*calibration);
  const Diagnostic& first = diagnostics.front();
  throw Error(ExitCode::kUsage, "NQD1011",
              path + ":" + std::to_string(first.where.line) + ":" +
                  std::to_string(first.where.column) + ": " + first.message,
              first.hint);
}

}  // namespace nqd::planner
