// The mesh against its world, the cluster and the family of the model.
#include <array>
#include <utility>

#include "planner/rules/legality.h"
#include "planner/rules/rule.h"

namespace nqd::planner::rules {
namespace {

// The other axes of the mesh, as places.
std::vector<RelatedPlace> axes_beside_dp(const ParallelSpec& p) {
  std::vector<RelatedPlace> places = {value_of("parallel.tp", p.tp)};
  if (p.cp > 1) places.push_back(value_of("parallel.cp", p.cp));
  places.push_back(value_of("parallel.pp", p.pp));
  return places;
}

Diagnostic mesh_violation(std::string code, std::string path, std::string message, std::string hint,
                          std::vector<RelatedPlace> related) {
  Diagnostic diagnostic =
      violation(std::move(code), std::move(path), std::move(message), std::move(hint), {});
  diagnostic.related = std::move(related);
  return diagnostic;
}

// "set parallel.dp to 8", or nothing where no dp makes that many ranks.
std::string dp_edit(const ParallelSpec& p, std::int64_t ranks) {
  const std::int64_t replica = p.tp * p.cp * p.pp;
  return divides(replica, ranks) ? "set parallel.dp to " + text(ranks / replica) : "";
}

// Why there is no such dp.
std::string no_dp(const ParallelSpec& p, std::int64_t ranks) {
  return "; no dp fits: tp·" + std::string(p.cp > 1 ? "cp·" : "") +
         "pp = " + text(p.tp * p.cp * p.pp) + " does not divide " + text(ranks);
}

std::string world_hint(const ParallelSpec& p) {
  const std::string edit = dp_edit(p, *p.world_size);
  const std::string world = "parallel.world_size to " + text(p.ranks());
  return edit.empty() ? "set " + world + no_dp(p, *p.world_size) : edit + ", or " + world;
}

std::string devices_hint(const Config& c) {
  const ParallelSpec& p = c.parallel;
  const std::int64_t gpus = c.cluster.gpus_per_node;
  const std::string cluster =
      divides(gpus, p.ranks())
          ? "cluster.nodes to " + text(p.ranks() / gpus)
          : "cluster.nodes to 1 and cluster.gpus_per_node to " + text(p.ranks());
  std::string edit = dp_edit(p, c.cluster.devices());
  if (edit.empty()) return "set " + cluster + no_dp(p, c.cluster.devices());
  if (p.world_size_given) edit += " and parallel.world_size to " + text(c.cluster.devices());
  return edit + ", or " + cluster;
}

void check_size(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (p.ranks() <= kMaxRanks) return;
  out.push_back(mesh_violation(
      "NQD1224", "parallel.dp",
      mesh_arithmetic(p) + " is more than the " + text(kMaxRanks) + " ranks that nqd plans for",
      "lower parallel.dp", axes_beside_dp(p)));
}

void check_world(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (!p.world_size || *p.world_size == p.ranks()) return;
  std::vector<RelatedPlace> related = axes_beside_dp(p);
  related.insert(related.begin(), value_of("parallel.dp", p.dp));
  out.push_back(mesh_violation("NQD1201", "parallel.world_size",
                               mesh_arithmetic(p) + ", but world_size = " + text(*p.world_size),
                               world_hint(p), std::move(related)));
}

void check_devices(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  // A world_size that disagrees with the mesh is one mistake, not two.
  if (p.world_size && *p.world_size != p.ranks()) return;
  if (p.ranks() == c.cluster.devices()) return;
  std::vector<RelatedPlace> related = axes_beside_dp(p);
  related.push_back(value_of("parallel.world_size", p.world_size.value_or(p.ranks())));
  related.push_back(value_of("cluster.nodes", c.cluster.nodes));
  related.push_back(value_of("cluster.gpus_per_node", c.cluster.gpus_per_node));
  out.push_back(mesh_violation("NQD1202", "parallel.dp",
                               mesh_arithmetic(p) + ", but the cluster has " +
                                   text(c.cluster.nodes) + "·" + text(c.cluster.gpus_per_node) +
                                   " = " + text(c.cluster.devices()) + " devices",
                               devices_hint(c), std::move(related)));
}

void check_tp_in_domain(const Config& c, Diagnostics& out) {
  const std::int64_t tp = c.parallel.tp;
  const std::int64_t gpus = c.cluster.gpus_per_node;
  if (tp_in_domain(tp, gpus, c.cluster.nvlink_domain)) return;
  const std::int64_t domain = tp_domain(gpus, c.cluster.nvlink_domain);
  const bool node = c.cluster.nvlink_domain == 0;
  const std::string key = node ? "gpus_per_node" : "nvlink_domain";
  out.push_back(violation("NQD1203", "parallel.tp",
                          "tp = " + text(tp) + " does not divide " + key + " = " + text(domain) +
                              ": a tensor-parallel group must lie inside one " +
                              (node ? "node" : "NVLink domain"),
                          "legal values of tp here: " + listed(divisors(domain, domain, tp)),
                          {value_of("cluster." + key, domain)}));
}

void check_domain(const Config& c, Diagnostics& out) {
  const std::int64_t gpus = c.cluster.gpus_per_node;
  const std::int64_t domain = c.cluster.nvlink_domain;
  if (domain == 0 || divides(gpus, domain) || divides(domain, gpus)) return;
  out.push_back(
      violation("NQD1229", "cluster.nvlink_domain",
                "nvlink_domain = " + text(domain) +
                    " is neither a multiple nor a divisor of gpus_per_node = " + text(gpus) +
                    ": a domain is made of whole nodes, or a node of domains",
                "set cluster.nvlink_domain to " + nearest_multiples(domain, gpus),
                {value_of("cluster.gpus_per_node", gpus)}));
}

// "a state model has", "an edsr model has".
std::string subject(const std::string& family) {
  const bool vowel = std::string("aeio").find(family[0]) != std::string::npos;
  return (vowel ? "an " : "a ") + family + " model";
}

void check_family_split(const Config& c, Diagnostics& out) {
  const ParallelSpec& p = c.parallel;
  if (family_splits(is_transformer(c.model), p.tp, p.pp)) return;
  const bool state = c.model.family == "state";
  const std::string path = p.tp > 1 ? "parallel.tp" : "parallel.pp";
  out.push_back(violation("NQD1221", path,
                          subject(c.model.family) + " has no heads or layers to split, but tp = " +
                              text(p.tp) + " and pp = " + text(p.pp),
                          state ? "set parallel.tp to 1 and parallel.pp to 1, or give the model's "
                                  "shape (family gpt)"
                                : "set parallel.tp to 1 and parallel.pp to 1; zero1, zero2, zero3 "
                                  "and hsdp shard its state",
                          {value_of("parallel.pp", p.pp), value_of("parallel.tp", p.tp),
                           value_of("model.family", c.model.family)}));
}

void check_family_context(const Config& c, Diagnostics& out) {
  const std::int64_t cp = c.parallel.cp;
  if (family_takes_context(is_transformer(c.model), cp)) return;
  out.push_back(violation("NQD1230", "parallel.cp",
                          "cp = " + text(cp) + " divides a sequence of tokens, which " +
                              subject(c.model.family) + " does not have",
                          "set parallel.cp to 1", {value_of("model.family", c.model.family)}));
}

void check_state_training(const Config& c, Diagnostics& out) {
  if (c.model.family != "state" || c.data.path.empty()) return;
  out.push_back(violation("NQD1222", "data.path",
                          "a state model cannot be trained, but data.path is set",
                          "remove data.path, or give the model's shape (family gpt)",
                          {value_of("model.family", c.model.family)}));
}

constexpr std::array<Check, 8> kChecks = {
    check_size,   check_world,        check_devices,        check_tp_in_domain,
    check_domain, check_family_split, check_family_context, check_state_training,
};

}  // namespace

std::span<const Check> mesh_checks() { return kChecks; }

}  // namespace nqd::planner::rules
