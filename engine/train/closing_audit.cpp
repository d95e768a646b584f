#include "engine/train/closing_audit.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/host.h"
#include "base/peak_resident.h"
#include "engine/audit.h"
#include "engine/train/across_ranks.h"
#include "planner/reference/reference_plan.h"

namespace nqd::engine {
namespace {

// Where another library has taken malloc over, the first call sets the C library's own one up, and
// two ranks that are threads must not do that at once.
void give_back_freed_memory() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  ::malloc_trim(0);
}

using collectives::Communicator;

constexpr double kMiB = 1024.0 * 1024.0;
// The heap, library state and stacks of a process, and of each compute thread in it.
constexpr double kProcessAllowance = 32 * kMiB;
constexpr double kThreadAllowance = 1 * kMiB;
// What libraries take for the length of a call, of a rank and of each further thread in it.
constexpr double kRankPeak = 64 * kMiB;
constexpr double kThreadPeak = 8 * kMiB;

// SHA-256 of the float32 weights that this rank keeps of `units`.
std::string digest_of(const UnitStore& store, const std::vector<int>& units) {
  Sha256 digest;
  std::vector<float> values;
  for (const int unit : units) {
    for (const planner::LocalTensor& tensor :
         store.units()[static_cast<std::size_t>(unit)].tensors) {
      values.clear();
      store.append_weights(unit, tensor, values);
      digest.update({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    }
  }
  return digest.hex();
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

// Collective. Ranks that are threads share one resident set.
double in_process(Communicator& world, double of_rank) {
  return world.backend() == "local" ? sum_over(world, of_rank) : of_rank;
}

AuditRow resident_growth(Communicator& world, const RankBooks& books) {
  const double own =
      static_cast<double>(books.ledger.current_total_bytes() + books.state.packing_bytes()) -
      static_cast<double>(books.state.shared_bytes());
  const double threads = in_process(world, static_cast<double>(books.plan.config.train.threads));
  const double accounted = in_process(world, own);
  // What libraries have freed, the allocator keeps for them: it is in use no more.
  give_back_freed_memory();
  world.barrier();
  const double grown = static_cast<double>(anonymous_resident_bytes()) -
                       static_cast<double>(books.start.anonymous_bytes);
  AuditRow row = witness_row("resident_growth", accounted, grown,
                             kProcessAllowance + threads * kThreadAllowance);
  row.note = "anonymous resident set of the process against its ranks' ledgers";
  return row;
}

AuditRow peak_resident(Communicator& world, const RankBooks& books) {
  const planner::Config& config = books.plan.config;
  const ResidentStart& start = books.start;
  const double planned =
      in_process(world, planner::reference_memory(config, world.rank()).total_bytes);
  const double shared = in_process(world, static_cast<double>(books.state.shared_bytes()));
  const double slack =
      in_process(world, kRankPeak + static_cast<double>(config.train.threads - 1) * kThreadPeak);
  const double foreign = static_cast<double>(resident_bytes()) -
                         static_cast<double>(anonymous_resident_bytes()) -
                         static_cast<double>(start.resident_bytes - start.anonymous_bytes) - shared;
  const std::uint64_t peak = start.peak_is_own ? peak_resident_bytes() : 0;
  const bool known = peak > 0;
  AuditRow row =
      witness_row("peak_resident", known ? planned : 0, static_cast<double>(peak),
                  slack + static_cast<double>(start.resident_bytes) + std::max(foreign, 0.0));
  row.note = "largest resident set of the process against its ranks' planned totals";
  return row;
}

}  // namespace

ResidentStart resident_start(Communicator& world) {
  // Memory that earlier work freed must not hide growth.
  give_back_freed_memory();
  world.barrier();
  ResidentStart start;
  start.peak_is_own = reset_peak_resident();
  start.resident_bytes = resident_bytes();
  start.anonymous_bytes = anonymous_resident_bytes();
  world.barrier();
  return start;
}

std::vector<AuditRow> closing_audit(Communicator& world, const RankBooks& books) {
  const planner::Config& config = books.plan.config;
  const std::vector<StepSpan> spans = spans_of(books.result);
  std::vector<AuditRow> rows =
      memory_rows(config, world.rank(), books.ledger, books.groups.backend);
  add_stage_rows(rows, config, world.rank());
  for (AuditRow& row : traffic_rows(config, world.rank(), spans, books.sent)) {
    rows.push_back(std::move(row));
  }
  // What a process holds says nothing of buffers that are elsewhere.
  if (books.state.device().is_host()) {
    rows.push_back(peak_resident(world, books));
    rows.push_back(resident_growth(world, books));
  }
  rows = worst_over_ranks(world, std::move(rows));
  std::erase_if(rows, [](const AuditRow& row) { return row.predicted == 0 && row.measured == 0; });
  for (AuditRow& row : time_rows(books.plan, books.result.steps)) rows.push_back(std::move(row));
  rows.push_back(replicas(world, books.groups.place, books.state.store()));
  return rows;
}

}  // namespace nqd::engine
