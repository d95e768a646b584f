#include <algorithm>

#include "reports/bench_parts_json.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

void write_numbers(JsonWriter& json, std::string_view name, const std::vector<int>& numbers) {
  json.key(name).begin_array(Layout::kInline);
  for (const int number : numbers) json.value(number);
  json.end();
}

// Those that differ from rank 0's, which the envelope holds.
void write_environment(JsonWriter& json, const Variables& mine, const Variables& first) {
  json.key("environment").begin_object();
  for (const auto& variable : mine) {
    if (std::find(first.begin(), first.end(), variable) == first.end()) {
      json.field(variable.first, variable.second);
    }
  }
  json.end();
}

void write_ranks(JsonWriter& json, const std::vector<collectives::RankRecord>& ranks) {
  json.key("ranks").begin_array();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const collectives::RankRecord& rank = ranks[i];
    json.begin_object(Layout::kInline);
    json.field("rank", i);
    json.field("host", rank.host);
    write_numbers(json, "cpus", rank.cpus);
    write_numbers(json, "numa_nodes", rank.numa_nodes);
    json.field("threads", rank.threads);
    json.field("process_vm_readv", rank.cross_memory);
    write_environment(json, rank.environment, ranks.front().environment);
    json.end();
  }
  json.end();
}

// A counter that went backwards was reset, and what it counted is not known.
std::optional<std::uint64_t> grown(std::uint64_t from, std::uint64_t to) {
  return to < from ? std::nullopt : std::optional(to - from);
}

void write_interfaces(JsonWriter& json, const collectives::HostRecord& host) {
  json.key("interfaces").begin_array();
  for (const NetworkInterface& before : host.start.interfaces) {
    const auto after =
        std::find_if(host.end.interfaces.begin(), host.end.interfaces.end(),
                     [&](const NetworkInterface& other) { return other.name == before.name; });
    const NetworkInterface& end = after == host.end.interfaces.end() ? before : *after;
    json.begin_object(Layout::kInline);
    json.field("name", before.name);
    json.field("state", known(before.state));
    json.field("speed_mbps", before.speed_mbps);
    json.field("sent_bytes", grown(before.sent_bytes, end.sent_bytes));
    json.field("received_bytes", grown(before.received_bytes, end.received_bytes));
    json.end();
  }
  json.end();
}

void write_ports(JsonWriter& json, const collectives::HostRecord& host) {
  json.key("hcas").begin_array();
  for (const RdmaPort& before : host.start.rdma_ports) {
    const auto after =
        std::find_if(host.end.rdma_ports.begin(), host.end.rdma_ports.end(),
                     [&](const RdmaPort& other) { return other.name() == before.name(); });
    const RdmaPort& end = after == host.end.rdma_ports.end() ? before : *after;
    json.begin_object(Layout::kInline);
    json.field("device", before.device);
    json.field("port", before.port);
    json.field("state", known(before.state));
    json.field("link_layer", known(before.link_layer));
    json.field("rate_gbits", measured(before.rate_gbits));
    json.field("sent_bytes", grown(before.sent_bytes, end.sent_bytes));
    json.field("received_bytes", grown(before.received_bytes, end.received_bytes));
    json.end();
  }
  json.end();
}

void write_host(JsonWriter& json, const collectives::HostRecord& host) {
  json.begin_object();
  json.field("host", host.host);
  json.field("ranks", host.ranks);
  json.field("usable_cpus", host.usable_cpus);
  json.field("numa_nodes", known(host.start.numa_nodes));
  json.field("thp_enabled", known(host.start.thp_enabled));
  json.field("thp_shmem_enabled", known(host.start.thp_shmem_enabled));
  json.field("governor", known(host.start.governor));
  json.field("ptrace_scope", known(host.start.ptrace_scope));
  json.field("load_1min_start", host.start.load_1min);
  json.field("load_1min_end", host.end.load_1min);
  write_interfaces(json, host);
  write_ports(json, host);
  json.end();
}

}  // namespace

void write_usage(JsonWriter& json, const std::vector<collectives::RankUsage>& usage) {
  json.key("usage");
  if (usage.empty()) {
    json.null();
    return;
  }
  const auto field = [&](std::string_view name, double collectives::RankUsage::*member) {
    json.key(name).begin_array();
    for (const collectives::RankUsage& rank : usage) json.value(rank.*member);
    json.end();
  };
  json.begin_object(Layout::kInline);
  field("minor_faults", &collectives::RankUsage::minor_faults);
  field("major_faults", &collectives::RankUsage::major_faults);
  field("voluntary_switches", &collectives::RankUsage::voluntary_switches);
  field("involuntary_switches", &collectives::RankUsage::involuntary_switches);
  json.end();
}

void write_machine(JsonWriter& json, const collectives::MachineRecord& machine) {
  json.key("machine");
  if (machine.ranks.empty()) {
    json.null();
    return;
  }
  json.begin_object();
  write_ranks(json, machine.ranks);
  json.key("hosts").begin_array();
  for (const collectives::HostRecord& host : machine.hosts) write_host(json, host);
  json.end();
  json.end();
}

}  // namespace nqd::reports
