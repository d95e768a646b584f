// The shipped tables: whole, compact without loss, and current in what depends on constants.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/import/published/published.h"
#include "planner/import/published/shipped.h"
#include "planner/validation/evaluate.h"
#include "planner/validation/fit.h"

using namespace nqd::planner;

namespace {

using Json = nlohmann::ordered_json;

// The same table in the plain format: every field in its row, points as pairs.
std::string spelled_out(std::string_view text) {
  Json table = Json::parse(text);
  const Json defaults = table.value("defaults", Json::object());
  for (Json& row : table["rows"]) {
    for (const auto& [key, value] : defaults.items()) {
      if (!row.contains(key)) row[key] = value;
    }
    const std::string model = row.contains("model") && row["model"].is_string()
                                  ? row["model"].get<std::string>()
                                  : std::string();
    if (!row.contains("arch") && table.contains("models") && table["models"].contains(model)) {
      row["arch"] = table["models"][model];
    }
    if (!row.contains("points_us")) continue;
    Json points = Json::array();
    for (const Json& point : row["points_us"]) {
      points.push_back({row["step_bytes"].get<double>() * static_cast<double>(points.size() + 1),
                        point.get<double>() * 1e-6});
    }
    row["points_bytes_seconds"] = points;
    row.erase("points_us");
  }
  table.erase("defaults");
  table.erase("models");
  return table.dump();
}

std::string described(const PublishedRow& row) {
  std::string text = row.id + "|" + row.model + "|" + row.skip_reason + "|" + row.suspect + "|" +
                     std::string(name(row.quantity)) + "|" + std::to_string(row.measured);
  if (row.config == nullptr) return text;
  const Config& c = *row.config;
  const ParallelSpec& p = c.parallel;
  for (const std::int64_t value : {c.model.layers,
                                   c.model.hidden,
                                   c.model.heads,
                                   c.model.kv_heads,
                                   c.model.head_dim,
                                   c.model.ffn_hidden,
                                   c.model.vocab,
                                   c.model.sequence,
                                   c.model.moe.experts,
                                   c.model.moe.expert_hidden,
                                   c.model.mtp_layers,
                                   c.cluster.nodes,
                                   c.cluster.gpus_per_node,
                                   p.dp,
                                   p.tp,
                                   p.pp,
                                   p.cp,
                                   p.ep,
                                   p.vpp,
                                   c.train.micro_batch_size,
                                   c.train.global_batch_size,
                                   row.ranks}) {
    text += "|" + std::to_string(value);
  }
  for (const std::int64_t layers : p.pipeline_split) text += "," + std::to_string(layers);
  return text + "|" + c.model.family + "|" + c.cluster.preset + "|" + c.cluster.gpu + "|" +
         c.stack.preset + "|" + std::string(name(p.engine)) + std::string(name(p.schedule)) +
         std::string(name(c.train.precision)) + std::string(name(c.train.recompute)) +
         (p.sequence_parallel ? "sp" : "") +
         std::to_string(c.cluster.inter_node.bandwidth_bytes_per_s);
}

}  // namespace

TEST_CASE("a shipped table reads like its rows spelled out in the plain format") {
  for (const ShippedFile& file : shipped_tables()) {
    CAPTURE(file.name);
    const PublishedTable shipped =
        read_published_text(std::string(file.text), std::string(file.name));
    const PublishedTable plain =
        read_published_text(spelled_out(file.text), std::string(file.name));
    REQUIRE(shipped.rows.size() == plain.rows.size());
    for (std::size_t i = 0; i < plain.rows.size(); ++i) {
      REQUIRE(described(shipped.rows[i]) == described(plain.rows[i]));
    }
  }
}

TEST_CASE("every row is represented or says why not") {
  std::map<std::string, std::size_t> represented;
  for (const ShippedFile& file : shipped_tables()) {
    const PublishedTable table =
        read_published_text(std::string(file.text), std::string(file.name));
    CAPTURE(file.name);
    std::size_t skipped = 0;
    for (const PublishedRow& row : table.rows) {
      CHECK((row.config == nullptr) == !row.skip_reason.empty());
      CHECK_FALSE(row.id.empty());
      skipped += row.skip_reason.empty() ? 0 : 1;
    }
    represented[std::string(file.name)] = table.rows.size() - skipped;
    CHECK(table.description.size() > 20);
  }
  // Rows of the publications, with time and memory counted apart.
  CHECK(represented["korthikanti_table5.json"] == 9);
  CHECK(represented["llama1.json"] == 0);
  CHECK(represented["megatron_bridge.json"] == 94);
  CHECK(represented["mosaic_mpt.json"] == 107);
  CHECK(represented["nvidia_dgxc.json"] == 72);
  CHECK(represented["sc21_megatron.json"] == 10);
  CHECK(represented["torchtitan.json"] == 35);
  CHECK(represented["vtrain_multi.json"] == 56);
  CHECK(represented["vtrain_single.json"] == 699);
  CHECK(represented["zero_bubble_table4.json"] == 48);
  CHECK(represented["nccl_allreduce_a100_v100.json"] == 10240);
}

TEST_CASE("every represented row is predicted") {
  for (const ShippedFile& file : shipped_tables()) {
    const PublishedTable table =
        read_published_text(std::string(file.text), std::string(file.name));
    CAPTURE(file.name);
    for (const SkippedRow& row : judge(table).skipped) {
      CAPTURE(row.id);
      CHECK(row.reason != "a rate of its cluster is unknown");
    }
  }
}

TEST_CASE("leave-one-out results belong to the present constants") {
  std::vector<PublishedTable> tables;
  for (const ShippedFile& file : shipped_tables()) {
    tables.push_back(read_published_text(std::string(file.text), std::string(file.name)));
  }
  std::vector<const PublishedTable*> pointers;
  for (const PublishedTable& table : tables) pointers.push_back(&table);
  const ShippedLeftOut shipped = shipped_left_out();
  INFO(
      "a constant has changed: nqd validate-model --leave-one-out --json > "
      "configs/published/leave-one-out.json");
  CHECK(shipped.constants == constants_digest(pointers));
  CHECK(shipped.tables.size() == 12);  // those with step times
}
