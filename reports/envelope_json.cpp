#include "reports/envelope_json.h"

#include <optional>

#include "base/file.h"

namespace nqd::reports {
namespace {

using Layout = JsonWriter::Layout;
using NamedTexts = std::vector<std::pair<std::string, std::string>>;

void write_texts(JsonWriter& json, std::string_view name, const NamedTexts& texts) {
  json.key(name).begin_object();
  for (const auto& [key, text] : texts) json.field(key, text);
  json.end();
}

NamedTexts read_texts(const JsonField& object) {
  NamedTexts texts;
  for (const auto& [key, value] : object.members()) texts.emplace_back(key, value.text());
  return texts;
}

void write_tool(JsonWriter& json, const BuildInfo& tool) {
  json.key("tool").begin_object();
  json.field("name", "nqd");
  json.field("version", tool.version);
  json.field("git_commit", tool.git_commit);
  json.field("build_type", tool.build_type);
  json.field("compiler", tool.compiler);
  json.end();
}

void write_config(JsonWriter& json, const Envelope& envelope) {
  json.key("config");
  if (envelope.config_path.empty()) {
    json.null();
    return;
  }
  json.begin_object();
  json.field("path", envelope.config_path);
  json.field("sha256", sha256_hex(envelope.config_yaml));
  json.field("yaml", envelope.config_yaml);
  json.key("resolved").begin_array();
  for (const planner::ResolvedValue& value : envelope.resolved) {
    json.begin_object(Layout::kInline);
    json.field("path", value.path);
    json.field("value", value.value);
    json.field("origin", value.origin);
    json.end();
  }
  json.end().end();
}

void read_config(const JsonField& config, Envelope& envelope) {
  envelope.config_path = config.at("path").text();
  envelope.config_yaml = config.at("yaml").text();
  if (config.at("sha256").text() != sha256_hex(envelope.config_yaml)) {
    config.at("sha256").fail("is not the SHA-256 of config.yaml", "the document was edited");
  }
  for (const JsonField& value : config.at("resolved").items()) {
    envelope.resolved.push_back(
        {value.at("path").text(), value.at("value").text(), value.at("origin").text()});
  }
}

void write_ranks(JsonWriter& json, const std::vector<engine::RankIdentity>& ranks) {
  json.key("ranks").begin_array();
  for (const engine::RankIdentity& rank : ranks) {
    json.begin_object(Layout::kInline);
    json.field("rank", rank.rank);
    json.field("host", rank.host);
    json.field("pid", rank.pid == 0 ? std::nullopt : std::optional(rank.pid));
    json.field("device", rank.device);
    json.field("launcher", rank.launcher);
    json.end();
  }
  json.end();
}

std::vector<engine::RankIdentity> read_ranks(const JsonField& ranks) {
  std::vector<engine::RankIdentity> identities;
  for (const JsonField& rank : ranks.items()) {
    const auto pid = rank.find("pid");
    identities.push_back({.rank = rank.at("rank").integer<int>(),
                          .host = rank.at("host").text(),
                          .pid = pid ? pid->integer<std::int64_t>() : 0,
                          .device = rank.at("device").text(),
                          .launcher = rank.at("launcher").text()});
  }
  return identities;
}

std::optional<std::uint64_t> known_bytes(std::uint64_t bytes) {
  return bytes == 0 ? std::nullopt : std::optional(bytes);
}

void write_host(JsonWriter& json, const HostInfo& host) {
  json.key("host").begin_object();
  json.field("hostname", host.hostname);
  json.field("kernel", host.kernel);
  json.field("cpu_model", known(host.cpu_model));
  json.field("online_cpus", host.online_cpus);
  json.field("usable_cpus", host.usable_cpus);
  json.field("memory_total_bytes", known_bytes(host.memory_total_bytes));
  json.field("memory_available_bytes", known_bytes(host.memory_available_bytes));
  json.field("cgroup_memory_bytes", host.cgroup_memory_bytes);
  json.field("load_1min", host.load_1min);
  json.end();
}

std::uint64_t bytes_or_zero(const JsonField& object, std::string_view key) {
  const auto bytes = object.find(key);
  return bytes ? bytes->integer<std::uint64_t>() : 0;
}

HostInfo read_host(const JsonField& json) {
  HostInfo host;
  host.hostname = json.at("hostname").text();
  host.kernel = json.at("kernel").text();
  host.cpu_model = json.at("cpu_model").text_or("");
  host.online_cpus = json.at("online_cpus").integer<int>();
  host.usable_cpus = json.at("usable_cpus").integer<int>();
  host.memory_total_bytes = bytes_or_zero(json, "memory_total_bytes");
  host.memory_available_bytes = bytes_or_zero(json, "memory_available_bytes");
  if (const auto limit = json.find("cgroup_memory_bytes")) {
    host.cgroup_memory_bytes = limit->integer<std::uint64_t>();
  }
  host.load_1min = json.at("load_1min").number();
  return host;
}

}  // namespace

void write_envelope(JsonWriter& json, const Envelope& envelope) {
  json.field("schema_version", kSchemaVersion);
  json.field("kind", envelope.kind);
  write_tool(json, envelope.tool);
  json.key("argv").begin_array(Layout::kInline);
  for (const std::string& argument : envelope.argv) json.value(argument);
  json.end();
  write_config(json, envelope);
  json.field("world_size_asked", envelope.world_size_asked);
  json.field("world_size_actual", envelope.world_size_actual);
  json.field("backend", known(envelope.backend));
  write_ranks(json, envelope.ranks);
  write_host(json, envelope.host);
  write_texts(json, "libraries", envelope.libraries);
  write_texts(json, "environment", envelope.environment);
  json.field("started_at", envelope.started_at);
  json.field("ended_at", envelope.ended_at.empty() ? now_utc() : envelope.ended_at);
}

Envelope read_envelope(const JsonField& document) {
  Envelope envelope;
  envelope.kind = document.at("kind").text();
  const JsonField tool = document.at("tool");
  envelope.tool = {tool.at("version").text(), tool.at("git_commit").text(),
                   tool.at("build_type").text(), tool.at("compiler").text()};
  for (const JsonField& argument : document.at("argv").items()) {
    envelope.argv.push_back(argument.text());
  }
  document.at("config");
  if (const auto config = document.find("config")) read_config(*config, envelope);
  envelope.world_size_asked = document.at("world_size_asked").integer<int>();
  envelope.world_size_actual = document.at("world_size_actual").integer<int>();
  envelope.backend = document.at("backend").text_or("");
  envelope.ranks = read_ranks(document.at("ranks"));
  envelope.host = read_host(document.at("host"));
  envelope.libraries = read_texts(document.at("libraries"));
  envelope.environment = read_texts(document.at("environment"));
  envelope.started_at = document.at("started_at").text();
  envelope.ended_at = document.at("ended_at").text();
  return envelope;
}

}  // namespace nqd::reports
