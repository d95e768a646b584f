#include "reports/canary_json.h"

#include <array>
#include <cstdio>
#include <optional>
#include <sstream>

#include "base/file.h"
#include "base/units.h"
#include "reports/bench_parts_json.h"
#include "reports/envelope_json.h"
#include "reports/json_field.h"
#include "reports/json_writer.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;

void write_device(JsonWriter& json, const engine::CanaryDevice& device) {
  json.begin_object(Layout::kInline);
  json.field("rank", device.rank);
  json.field("host", device.host);
  json.field("gemm_gflops", 1e-9 * device.gemm_flops);
  json.field("gemm_gflops_per_cpu_s", 1e-9 * device.gemm_flops_per_cpu_s);
  json.field("cpu_share", device.cpu_share);
  json.field("copy_gbps", device.copy_bytes_per_s / kGB);
  json.field("copy_gb_per_cpu_s", device.copy_bytes_per_cpu_s / kGB);
  json.end();
}

void write_expectation(JsonWriter& json, const engine::CanaryExpectation& expected) {
  json.key("expected").begin_object(Layout::kInline);
  json.field("gemm_gflops", measured(1e-9 * expected.gemm_flops));
  json.field("copy_gbps", measured(expected.copy_bytes_per_s / kGB));
  json.field("inside_link_gbps", measured(expected.inside_link_bytes_per_s / kGB));
  json.field("across_link_gbps", measured(expected.across_link_bytes_per_s / kGB));
  json.end();
}

void write_finding(JsonWriter& json, const engine::CanaryFinding& found) {
  json.begin_object(Layout::kInline);
  json.field("test", name(found.test));
  json.field("rank", found.rank);
  json.field("host", found.host);
  json.field("peer", found.peer < 0 ? std::nullopt : std::optional(found.peer));
  json.field("peer_host", known(found.peer_host));
  json.field("measured", found.measured);
  json.field("expected", found.expected);
  json.field("against", found.against_calibration ? "calibration" : "peers");
  json.field("score", measured(found.score));
  json.end();
}

void write_texts(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).begin_array(Layout::kInline);
  for (const std::string& text : texts) json.value(text);
  json.end();
}

void write_links(JsonWriter& json, const std::vector<collectives::PairRow>& links) {
  json.key("links").begin_array();
  for (const collectives::PairRow& link : links) {
    json.begin_object(Layout::kInline);
    json.field("a", link.a);
    json.field("b", link.b);
    json.field("latency_s", link.latency_s);
    json.field("bandwidth_gbps", link.bandwidth_gbps);
    json.end();
  }
  json.end();
}

// "95.2", or "95.2 of 103" where something is expected.
std::string beside(double value, double expected) {
  std::array<char, 64> text{};
  if (expected > 0) {
    std::snprintf(text.data(), text.size(), "%.4g of %.4g", value, expected);
  } else {
    std::snprintf(text.data(), text.size(), "%.4g", value);
  }
  return text.data();
}

void print_row(std::ostringstream& out, const std::array<std::string, 6>& words) {
  constexpr std::array<std::size_t, 6> kWidths = {8, 20, 20, 10, 20, 10};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t width = kWidths[i];
    out << (i == 0 ? "" : "  ") << words[i];
    if (i + 1 < words.size() && words[i].size() < width) {
      out << std::string(width - words[i].size(), ' ');
    }
  }
  out << '\n';
}

bool is_slow(const engine::CanaryResult& result, int rank, int peer) {
  for (const engine::CanaryFinding& found : result.findings) {
    if (found.rank == rank && found.peer == peer) return true;
  }
  return false;
}

}  // namespace

std::string canary_json(const Envelope& envelope, const engine::CanaryResult& result) {
  JsonWriter json;
  json.begin_object();
  write_envelope(json, envelope);
  json.field("calibration", known(result.expectation.source));
  json.key("devices").begin_array();
  for (const engine::CanaryDevice& device : result.devices) write_device(json, device);
  json.end();
  write_links(json, result.links);
  write_expectation(json, result.expectation);
  json.key("findings").begin_array();
  for (const engine::CanaryFinding& found : result.findings) write_finding(json, found);
  json.end();
  write_texts(json, "slow_hosts", result.slow_hosts());
  write_texts(json, "busy_hosts", result.busy_hosts);
  json.field("healthy", result.healthy());
  json.field("passes", result.passes);
  json.field("seconds", result.seconds);
  write_machine(json, result.machine);
  write_verdicts(json, canary_verdicts(result));
  json.end();
  return json.take();
}

std::string canary_text(const engine::CanaryResult& result) {
  const engine::CanaryExpectation& expected = result.expectation;
  std::ostringstream out;
  print_row(out, {"rank", "host", "products GFLOP/s", "CPU %", "copy GB/s", ""});
  for (const engine::CanaryDevice& device : result.devices) {
    std::array<char, 16> share{};
    std::snprintf(share.data(), share.size(), "%.0f", 100 * device.cpu_share);
    print_row(out, {std::to_string(device.rank), device.host,
                    beside(1e-9 * device.gemm_flops, 1e-9 * expected.gemm_flops), share.data(),
                    beside(device.copy_bytes_per_s / kGB, expected.copy_bytes_per_s / kGB),
                    is_slow(result, device.rank, -1) ? "SLOW" : "ok"});
  }
  if (!result.links.empty()) print_row(out, {"link", "hosts", "latency", "", "GB/s", ""});
  for (const collectives::PairRow& link : result.links) {
    const std::string& a = result.devices[static_cast<std::size_t>(link.a)].host;
    const std::string& b = result.devices[static_cast<std::size_t>(link.b)].host;
    const double known =
        a == b ? expected.inside_link_bytes_per_s : expected.across_link_bytes_per_s;
    print_row(out,
              {std::to_string(link.a) + "-" + std::to_string(link.b), a == b ? a : a + ", " + b,
               format_seconds(link.latency_s), "", beside(link.bandwidth_gbps, known / kGB),
               is_slow(result, link.a, link.b) ? "SLOW" : "ok"});
  }
  out << (result.healthy() ? "healthy: nothing is slow" : "not healthy: something is slow") << " ("
      << format_seconds(result.seconds) << ", "
      << (expected.source.empty() ? "beside the other ranks"
                                  : "beside the other ranks and the calibration")
      << ")\n";
  return out.str();
}

std::vector<std::string> read_slow_hosts(const std::filesystem::path& path) {
  const JsonField document = JsonField::parse(read_file(path), path);
  std::vector<std::string> hosts;
  for (const JsonField& host : document.at("slow_hosts").items()) hosts.push_back(host.text());
  return hosts;
}

}  // namespace nqd::reports
