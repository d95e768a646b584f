// `nqd calc comm`: bytes and seconds of one collective, for one algorithm or all side by side.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "cli/calc/calc.h"
#include "collectives/cost.h"
#include "planner/formulas/fastest.h"
#include "planner/mesh/group_cost.h"

namespace nqd::cli {
namespace {

using collectives::Algorithm;
using collectives::Collective;
using collectives::CostTerms;
using collectives::Link;
using collectives::Protocol;
using planner::GroupTopology;

constexpr std::array kCollectives = {Collective::kAllReduce,     Collective::kAllGather,
                                     Collective::kReduceScatter, Collective::kBroadcast,
                                     Collective::kReduce,        Collective::kAllToAll,
                                     Collective::kSendRecv};
constexpr std::array kAlgorithms = {Algorithm::kRing,
                                    Algorithm::kTree,
                                    Algorithm::kDoubleBinaryTree,
                                    Algorithm::kRecursiveDoubling,
                                    Algorithm::kHalvingDoubling,
                                    Algorithm::kHierarchical,
                                    Algorithm::kNvls,
                                    Algorithm::kPairwise,
                                    Algorithm::kBruck};
constexpr std::array kProtocols = {Protocol::kSimple, Protocol::kLL128, Protocol::kLL};
// Up to here every whole number of bytes is a double of its own.
constexpr double kMostBytes = 0x1p53;

struct Options {
  std::string collective = "all_reduce";
  std::string algorithm;
  double bytes = 0;
  std::int64_t element_bytes = 1;
  std::int64_t ranks = 1;
  double bandwidth = 0;
  double latency_s = 0;
  std::optional<double> reduce_rate;
  std::string protocol = "simple";
  std::int64_t ranks_per_node = 0;
  std::optional<double> network_bandwidth;
  std::optional<double> network_latency_s;
  std::int64_t nics = 1;
  std::int64_t concurrent_groups = 1;
  std::int64_t rails = 1;
  double oversubscription = 1;
  bool nvls = false;
};

struct Call {
  Collective collective = Collective::kAllReduce;
  GroupTopology group;
  std::size_t count = 0;
  std::size_t element_bytes = 1;

  std::size_t ranks() const { return static_cast<std::size_t>(group.ranks); }
  std::size_t ranks_per_node() const { return static_cast<std::size_t>(group.ranks_per_node); }
  double bytes() const { return static_cast<double>(count * element_bytes); }
};

template <typename Table>
auto value_of(const Table& table, const std::string& text) {
  return *std::find_if(table.begin(), table.end(), [&](auto value) { return text == name(value); });
}
template <typename Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto value : table) names.emplace_back(name(value));
  return names;
}

GroupTopology topology_of(const Options& options) {
  const auto protocol = value_of(kProtocols, options.protocol);
  GroupTopology group;
  group.ranks = options.ranks;
  group.ranks_per_node = options.ranks_per_node > 0 ? options.ranks_per_node : options.ranks;
  const double gamma = options.reduce_rate ? 1 / *options.reduce_rate : 0;
  group.intra = with_protocol({options.latency_s, 1 / options.bandwidth, gamma}, protocol);
  if (group.ranks % group.ranks_per_node != 0) {
    throw_mismatch(std::to_string(group.ranks) + " ranks do not fill nodes of " +
                       std::to_string(group.ranks_per_node),
                   "give a --ranks-per-node that divides --ranks");
  }
  if (group.nodes() == 1) return group;
  if (!options.network_bandwidth) {
    throw_mismatch("the group spans " + std::to_string(group.nodes()) +
                       " nodes, and the rate between them is not given",
                   "give --network-bandwidth, of one adapter: 400 Gb/s");
  }
  if (options.nics % options.rails != 0) {
    throw_mismatch(std::to_string(options.nics) + " adapters are not spread over " +
                       std::to_string(options.rails) + " rails evenly",
                   "give a --rails that divides --nics");
  }
  group.concurrent_groups_per_node = options.concurrent_groups;
  group.nics_per_node = options.nics;
  group.nic_bandwidth_bytes_per_s = *options.network_bandwidth * payload_share(protocol);
  group.nic_alpha_s = options.network_latency_s.value_or(options.latency_s);
  group.oversubscription = options.oversubscription;
  group.rails = options.rails;
  return group;
}

Call call_of(const Options& options) {
  Call call;
  call.collective = value_of(kCollectives, options.collective);
  if (call.collective == Collective::kSendRecv && options.ranks != 2) {
    throw_mismatch("send_recv is between two ranks, not " + std::to_string(options.ranks),
                   "give --ranks 2");
  }
  call.group = topology_of(options);
  const auto element = static_cast<double>(options.element_bytes);
  if (options.bytes > kMostBytes || std::fmod(options.bytes, element) != 0) {
    throw_mismatch(compact(options.bytes) + " bytes are no whole number of elements of " +
                       compact(element) + " bytes below 2^53",
                   "give --bytes a multiple of --element-bytes");
  }
  call.count = static_cast<std::size_t>(options.bytes / element);
  call.element_bytes = static_cast<std::size_t>(options.element_bytes);
  return call;
}

// What the busiest rank sends, as a formula over S bytes and n ranks; m is the largest power of two
// up to n, g the ranks of a node, k the nodes.
std::string bytes_formula(Collective collective, Algorithm algorithm) {
  const bool all_reduce = collective == Collective::kAllReduce;
  const bool one_way = collective == Collective::kBroadcast || collective == Collective::kReduce;
  switch (algorithm) {
    case Algorithm::kTree:
      return collective == Collective::kReduce ? "S" : "⌈log2 n⌉·S";
    case Algorithm::kDoubleBinaryTree:
      return "2·S (3/2·S of 3 ranks, S of 2)";
    case Algorithm::kRecursiveDoubling:
      return "log2 m·S, and S more when n > m";
    case Algorithm::kHalvingDoubling:
      return all_reduce ? "2(m−1)/m·S, and S more when n > m" : "(n−1)/n·S";
    case Algorithm::kHierarchical:
      if (collective == Collective::kAllToAll) return "((g−1)/g + (k−1)/k)·S";
      return all_reduce ? "(2(g−1)/g + 2(k−1)/(k·g))·S" : "((g−1)/g + (k−1)/(k·g))·S";
    case Algorithm::kNvls:
      if (all_reduce) return "S + S/n";
      return collective == Collective::kAllGather ? "S/n" : "S";
    case Algorithm::kBruck:
      return collective == Collective::kAllGather ? "(n−1)/n·S" : "Σ popcount(j)/n·S over j < n";
    default:
      if (all_reduce) return "2(n−1)/n·S";
      return one_way || collective == Collective::kSendRecv ? "S" : "(n−1)/n·S";
  }
}

struct Priced {
  Algorithm algorithm;
  collectives::RankTraffic most;
  std::uint64_t steps = 0;
  double latency_s = 0;   // of an empty call
  double s_per_byte = 0;  // every algorithm is a line over the bytes
  double time_s = 0;
};

Priced price(const Call& call, Algorithm algorithm) {
  Priced priced{algorithm, {}};
  priced.most = max_traffic(call.collective, algorithm, call.ranks(), call.count,
                            call.element_bytes, call.ranks_per_node());
  priced.steps = steps(call.collective, algorithm, call.ranks(), call.ranks_per_node());
  priced.time_s = group_time_s(call.group, call.collective, algorithm, call.bytes());
  priced.latency_s = group_time_s(call.group, call.collective, algorithm, 0);
  priced.s_per_byte =
      (group_time_s(call.group, call.collective, algorithm, kMostBytes) - priced.latency_s) /
      kMostBytes;
  return priced;
}

std::pair<std::string, std::string> time_formula(const Call& call, const Priced& priced) {
  const std::string payload = compact(call.bytes());
  if (call.group.nodes() > 1) {
    return {"latency + S·(seconds a byte)",
            compact(priced.latency_s) + " + " + payload + "·" + compact(priced.s_per_byte)};
  }
  const CostTerms terms =
      cost_terms(call.collective, priced.algorithm, call.ranks(), call.ranks_per_node()).inside;
  const Link& link = call.group.intra;
  std::string formula =
      "steps·α + S·" + std::string(link.gamma_s_per_byte > 0 ? "(" : "") + "sent·β";
  std::string numbers = compact(terms.steps) + "·" + compact(link.alpha_s) + " + " + payload + "·" +
                        (link.gamma_s_per_byte > 0 ? "(" : "") + compact(terms.sent) + "·" +
                        compact(link.beta_s_per_byte);
  if (link.gamma_s_per_byte > 0) {
    formula += " + reduced·γ)";
    numbers += " + " + compact(terms.reduced) + "·" + compact(link.gamma_s_per_byte) + ")";
  }
  return {formula, numbers};
}

double bus_bandwidth(const Call& call, const Priced& priced) {
  return priced.time_s > 0
             ? bus_factor(call.collective, call.ranks()) * call.bytes() / priced.time_s
             : 0;
}

void report_one(const Call& call, Algorithm algorithm, CalcReport& report) {
  const Priced priced = price(call, algorithm);
  report.inputs.emplace_back("algorithm", std::string(name(algorithm)));
  report.figures.push_back({"bytes_sent_per_rank", "sent by the rank that sends most",
                            static_cast<std::int64_t>(priced.most.bytes_sent), Unit::kBytes,
                            bytes_formula(call.collective, algorithm),
                            compact(static_cast<double>(priced.most.bytes_sent) / call.bytes()) +
                                "·" + compact(call.bytes())});
  report.figures.push_back({"messages_per_rank", "in messages, at most",
                            static_cast<std::int64_t>(priced.most.messages)});
  report.figures.push_back(
      {"steps", "steps that follow one another", static_cast<std::int64_t>(priced.steps)});
  const auto [formula, numbers] = time_formula(call, priced);
  report.figures.push_back({"time_s", "time", priced.time_s, Unit::kSeconds, formula, numbers});
  report.figures.push_back(
      {"busbw_bytes_per_s", "bus bandwidth", bus_bandwidth(call, priced), Unit::kBytesPerSecond});
}

void report_all(const Call& call, bool nvls, CalcReport& report) {
  CalcTable all{"algorithms",
                {{"algorithm", "algorithm"},
                 {"steps", "steps"},
                 {"bytes_sent_per_rank", "sent by one rank, at most", Unit::kBytes},
                 {"time_s", "time", Unit::kSeconds},
                 {"busbw_bytes_per_s", "bus bandwidth", Unit::kBytesPerSecond}},
                {}};
  std::vector<Algorithm> algorithms;
  std::vector<planner::CostLine> lines;
  for (const Algorithm algorithm : kAlgorithms) {
    if (!has_cost(call.collective, algorithm, call.ranks(), call.ranks_per_node())) continue;
    if (algorithm == Algorithm::kNvls && !nvls) continue;
    // On one node the two levels are those of the ring.
    if (algorithm == Algorithm::kHierarchical && call.group.nodes() == 1) continue;
    // It costs what the ring does, and differs in the order of its additions.
    if (algorithm == Algorithm::kPairwise && call.collective == Collective::kAllReduce) continue;
    const Priced priced = price(call, algorithm);
    algorithms.push_back(algorithm);
    lines.push_back({priced.latency_s, priced.s_per_byte});
    all.rows.push_back({std::string(name(algorithm)), static_cast<std::int64_t>(priced.steps),
                        static_cast<std::int64_t>(priced.most.bytes_sent), priced.time_s,
                        bus_bandwidth(call, priced)});
  }
  CalcTable fastest{"fastest",
                    {{"algorithm", "fastest"},
                     {"from_bytes", "from", Unit::kBytes},
                     {"to_bytes", "to", Unit::kBytes}},
                    {}};
  for (const planner::FastestRange& range : planner::fastest_by_size(lines)) {
    fastest.rows.push_back(
        {std::string(name(algorithms[range.line])), range.from_bytes, range.to_bytes});
  }
  report.tables = {std::move(all), std::move(fastest)};
}

CalcReport compute(const Options& options) {
  const Call call = call_of(options);
  const GroupTopology& group = call.group;
  CalcReport report;
  report.inputs = {{"collective", options.collective},
                   {"bytes", call.bytes()},
                   {"element_bytes", options.element_bytes},
                   {"ranks", group.ranks},
                   {"ranks_per_node", group.ranks_per_node},
                   {"protocol", options.protocol},
                   {"alpha_s", group.intra.alpha_s},
                   {"beta_s_per_byte", group.intra.beta_s_per_byte},
                   {"gamma_s_per_byte", group.intra.gamma_s_per_byte}};
  if (group.nodes() > 1) {
    report.inputs.emplace_back("network_alpha_s", group.nic_alpha_s);
    report.figures.push_back(
        {"egress_bytes_per_s", "E, what the group sends out of one node", egress_bytes_per_s(group),
         Unit::kBytesPerSecond, "min(adapters/groups, g·adapters/rails)·rate/oversubscription",
         "min(" + std::to_string(group.nics_per_node) + "/" +
             std::to_string(group.concurrent_groups_per_node) + ", " +
             std::to_string(group.ranks_per_node) + "·" + std::to_string(group.nics_per_node) +
             "/" + std::to_string(group.rails) + ")·" + compact(group.nic_bandwidth_bytes_per_s) +
             "/" + compact(group.oversubscription)});
  }
  if (options.algorithm.empty() && call.collective != Collective::kSendRecv) {
    report_all(call, options.nvls, report);
  } else {
    const Algorithm algorithm =
        options.algorithm.empty() ? Algorithm::kAuto : value_of(kAlgorithms, options.algorithm);
    report_one(call, algorithm, report);
  }
  return report;
}

}  // namespace

void add_calc_comm(CLI::App& calc, Context& context) {
  auto options = std::make_shared<Options>();
  Calculation comm(calc, "comm",
                   "Bytes and seconds of one collective; without --algorithm all of them");
  comm.choice("--collective", options->collective, names_of(kCollectives), "what is done")
      .choice("--algorithm", options->algorithm, names_of(kAlgorithms), "how [all side by side]")
      .quantity("--bytes", options->bytes, Unit::kBytes, "S: the full vector")
      .required()
      .count("--element-bytes", options->element_bytes, "vectors are cut between elements", 4096)
      .count("--ranks", options->ranks, "n")
      .required()
      .quantity("--bandwidth", options->bandwidth, Unit::kBytesPerSecond,
                "of one rank's link, one direction: 50e9 or 400 Gb/s")
      .required()
      .quantity("--latency", options->latency_s, Unit::kSeconds, "α of one message [0]", 0, false)
      .quantity("--reduce-rate", options->reduce_rate, Unit::kBytesPerSecond,
                "1/γ: bytes a second that a rank reduces [as fast as they come]")
      .choice("--protocol", options->protocol, names_of(kProtocols),
              "share of the link that is payload: 1, 120/128, 1/2")
      .count("--ranks-per-node", options->ranks_per_node, "g [all ranks on one node]")
      .quantity("--network-bandwidth", options->network_bandwidth, Unit::kBytesPerSecond,
                "of one network adapter")
      .quantity("--network-latency", options->network_latency_s, Unit::kSeconds,
                "α between nodes [--latency]", 0, false)
      .count("--nics", options->nics, "network adapters of a node", 4096)
      .count("--concurrent-groups", options->concurrent_groups,
             "groups like this one that use a node's adapters at once")
      .count("--rails", options->rails, "networks that the adapters are spread over", 4096)
      .flag("--nvls", options->nvls,
            "compare nvls too: ranks of a node share a switch that reduces")
      .quantity("--oversubscription", options->oversubscription, Unit::kNumber,
                "what leaves nodes ÷ what the network carries [1]", 1, false)
      .computes(context, [options] { return compute(*options); });
}

}  // namespace nqd::cli
