#include "planner/import/published/checks.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace nqd::planner::published {
namespace {

// Whole numbers from 1.
constexpr std::array<std::string_view, 20> kCounts = {
    "gpus",         "tp",          "pp",           "cp",         "ep",
    "etp",          "dp",          "gbs",          "mbs",        "global_batch_size",
    "global_batch", "grad_accum",  "batch_per_dp", "bs_per_dp",  "batch_size_per_dp",
    "seq",          "arch.layers", "arch.hidden",  "arch.heads", "num_microbatches",
};
constexpr std::array<std::string_view, 8> kOptionalCounts = {
    // … or 0 for "has none"
    "fsdp",         "arch.kv_heads", "arch.head_dim", "arch.ffn",
    "arch.moe_ffn", "arch.topk",     "arch.vocab",    "arch.experts",
};
constexpr std::array<std::string_view, 2> kMaybeNone = {"arch.shared_experts", "arch.dense_layers"};
constexpr std::array<std::string_view, 7> kMeasured = {
    "step_time_s",           "step_time_ms",  "tokens_per_s_per_gpu", "tokens_per_s",
    "samples_per_s_per_gpu", "samples_per_s", "tflops_per_gpu"};
constexpr std::array<std::string_view, 4> kFlags = {"sequence_parallel", "cpu_offload",
                                                    "arch.gated_mlp", "arch.mla"};

std::string complaint(const Fields& row, std::string_view key, std::string_view wanted) {
  return std::string(key) + " is " + row.text(key) + ", which is no " + std::string(wanted);
}

bool is_zero(const Fields& row, std::string_view key) { return row.number(key) == 0.0; }

bool one_of(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return contains(text, word); });
}

std::string bad_number(const Fields& row) {
  for (const std::string_view key : kCounts) {
    if (row.has(key) && !row.count(key)) {
      return complaint(row, key, "whole number from 1 to 16777216");
    }
  }
  const auto bad_or_none = [&](std::string_view key) {
    return row.has(key) && !row.count(key) && !is_zero(row, key);
  };
  constexpr std::string_view kFromZero = "whole number from 0 to 16777216";
  for (const std::string_view key : kMaybeNone) {
    if (bad_or_none(key)) return complaint(row, key, kFromZero);
  }
  for (const std::string_view key : kOptionalCounts) {
    // "FSDP+DP" is a word for it.
    if (key == "fsdp" && one_of(row.lower(key), {"fsdp", "hsdp"})) continue;
    if (bad_or_none(key)) return complaint(row, key, kFromZero);
  }
  for (const std::string_view key : kMeasured) {
    if (row.has(key) && !row.positive(key)) return complaint(row, key, "positive number");
  }
  return {};
}

std::string bad_word(const Fields& row) {
  for (const std::string_view key : kFlags) {
    if (row.has(key) && !row.flag(key)) return complaint(row, key, "yes or no");
  }
  const std::string vpp = row.lower("vpp");
  if (!vpp.empty() && !row.count("vpp") && !contains(vpp, "one layer per chunk")) {
    return complaint(row, "vpp", "whole number from 1 to 16777216");
  }
  const std::string zero = row.lower("zero");
  const std::optional<double> stage = row.number("zero");
  const bool known_stage =
      stage ? *stage == 0 || *stage == 1 || *stage == 2 || *stage == 3
            : one_of(zero, {"none", "ddp", "fsdp", "hsdp", "dist", "0", "1", "2", "3"});
  if (!zero.empty() && !known_stage) return complaint(row, "zero", "stage that is known");
  const std::string precision = row.lower("precision");
  if (!precision.empty() && precision != "mixed" &&
      !one_of(precision, {"fp4", "fp8", "float8", "fp16", "bf16", "float16", "fp32", "float32"})) {
    return complaint(row, "precision", "format that is known");
  }
  const std::string schedule = row.lower("schedule");
  if (!schedule.empty() &&
      !one_of(schedule, {"1f1b", "interleave", "zb-1p", "zb-2p", "zb-h", "zb-v", "zbv", "gpipe"})) {
    return complaint(row, "schedule", "schedule that is known");
  }
  return {};
}

}  // namespace

std::string unreadable_field(const Fields& row) {
  const std::string number = bad_number(row);
  return number.empty() ? bad_word(row) : number;
}

}  // namespace nqd::planner::published
