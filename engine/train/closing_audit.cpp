#include "engine/train/closing_audit.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/host.h"
#include "engine/audit.h"
#include "engine/train/across_ranks.h"

namespace nqd::engine {
namespace {

using collectives::Communicator;

// SHA-256 of the float32 weights that this rank keeps of `units`.
std::string digest_of(const UnitStore& store, const std::vector<int>& units) {
  std::vector<float> values;
  for (const int unit : units) {
    for (const planner::LocalTensor& tensor :
         store.units()[static_cast<std::size_t>(unit)].tensors) {
      store.append_weights(unit, tensor, values);
    }
  }
  return sha256_hex({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

// Collective. By rank: whether its digest is unlike that of the first rank with the same key.
std::vector<bool> odd_ranks(Communicator& world, const std::string& key,
                            const std::string& digest) {
  std::array<char, 160> mine{};
  const std::string text = key + "\n" + digest;
  std::memcpy(mine.data(), text.data(), std::min(text.size(), mine.size() - 1));
  std::vector<std::array<char, 160>> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)),
                   DType::kUInt8);
  std::map<std::string, std::string> first;
  std::vector<bool> odd;
  for (const auto& one : all) {
    const std::string found(one.data());
    const std::size_t cut = found.find('\n');
    const auto [entry, added] = first.emplace(found.substr(0, cut), found.substr(cut + 1));
    odd.push_back(!added && entry->second != found.substr(cut + 1));
  }
  return odd;
}

// Copies that drifted apart are the one fault that no byte count shows: ranks that keep the same
// part of the same stage, and the two ends of a tied head.
AuditRow replicas(Communicator& world, const planner::RankPlace& place, const UnitStore& store) {
  std::vector<int> all_units;
  std::vector<int> tables;
  for (int unit = 0; unit < static_cast<int>(store.units().size()); ++unit) {
    const planner::LocalUnit& of = store.units()[static_cast<std::size_t>(unit)];
    if (!of.holds_weights) continue;
    all_units.push_back(unit);
    const bool table =
        of.role == planner::UnitRole::kTokenEmbedding || of.role == planner::UnitRole::kTied;
    if (table) tables.push_back(unit);
  }
  const std::string coordinates = std::to_string(place.tp) + " " + std::to_string(store.part());
  const std::string of_stage = std::to_string(place.pp) + " " + coordinates;
  AuditRow row;
  row.category = "equal_replicas";
  row.kind = "replicas";
  row.unit = "ranks";
  row.exact = true;
  row.predicted = world.size();
  const auto unlike = [&](const std::string& key, const std::vector<int>& units) {
    return odd_ranks(world, key, digest_of(store, units));
  };
  const std::vector<bool> odd = unlike(of_stage, all_units);
  const std::string of_table = tables.empty() ? "none " + of_stage : "table " + coordinates;
  const std::vector<bool> odd_tables = unlike(of_table, tables);
  for (std::size_t rank = 0; rank < odd.size(); ++rank) {
    row.measured += odd[rank] || odd_tables[rank] ? 0 : 1;
  }
  row.note = "ranks whose final weights are those of the first rank that holds the same";
  return finish(row);
}

AuditRow resident(Communicator& world, const RankBooks& books) {
  const double own = static_cast<double>(books.ledger.current_total_bytes()) -
                     static_cast<double>(books.state.shared_bytes());
  // Ranks that are threads share one resident set.
  const double in_process = world.backend() == "local" ? sum_over(world, own) : own;
  const std::uint64_t now = anonymous_resident_bytes();
  return resident_row(in_process,
                      static_cast<double>(now) - static_cast<double>(books.resident_before_bytes));
}

}  // namespace

std::vector<AuditRow> closing_audit(Communicator& world, const RankBooks& books) {
  const planner::Config& config = books.plan.config;
  const StepSpan span{books.resumed_after, static_cast<std::int64_t>(books.steps.size())};
  std::vector<AuditRow> rows = memory_rows(config, world.rank(), books.ledger);
  for (AuditRow& row : traffic_rows(config, world.rank(), span, books.sent)) {
    rows.push_back(std::move(row));
  }
  rows.push_back(resident(world, books));
  rows = worst_over_ranks(world, std::move(rows));
  std::erase_if(rows, [](const AuditRow& row) { return row.predicted == 0 && row.measured == 0; });
  for (AuditRow& row : time_rows(books.plan, books.steps)) rows.push_back(std::move(row));
  rows.push_back(replicas(world, books.groups.place, books.state.store()));
  return rows;
}

}  // namespace nqd::engine
