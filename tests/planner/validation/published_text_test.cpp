// Rows whose fields are missing, null, oddly typed or impossible, and files that are no tables.
#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "planner/import/published/published.h"

using namespace nqd::planner;

namespace {

PublishedTable read(const std::string& rows) {
  return read_published_text("{\"rows\": [" + rows + "]}", "folder/table.json");
}
PublishedRow read_one(const std::string& row) {
  const PublishedTable table = read(row);
  REQUIRE(table.rows.size() == 1);
  return table.rows.front();
}

// A plain row, with further members in front.
std::string row_with(const std::string& members) {
  return "{" + members +
         R"( "gpu": "A100-80GB SXM", "gpus": 8, "tp": 2, "pp": 2, "gbs": 16, "mbs": 2, "seq": 1024,
  "step_time_s": 1.5, "arch": {"layers": 24, "hidden": 1024, "heads": 16, "vocab": 50257}})";
}

std::string code_of(const std::string& text) {
  try {
    read_published_text(text, "x.json");
  } catch (const nqd::Error& error) {
    CHECK(error.exit_code() == nqd::ExitCode::kUsage);
    return error.code() + " " + error.what();
  }
  return "read";
}

}  // namespace

TEST_CASE("files that are no tables say so, with the place where one is known") {
  CHECK(code_of("{\"rows\": [\n  {\"id\": 1},\n  oops]}") ==
        "NQD2060 x.json:3:3: this is not JSON");
  CHECK(code_of("{\"rows\": [") ==
        "NQD2060 x.json:1:11: this is not JSON: the text ends inside a value");
  CHECK(code_of("") == "NQD2060 x.json:1:1: this is not JSON: the text ends inside a value");
  CHECK(code_of("{\"lines\": []}") == "NQD2061 x.json:1:1: the table has no \"rows\"");
  CHECK(code_of("{\"id\": [{\"rows\": 1}],\n \"rows\": 5}") ==
        "NQD2061 x.json:2:10: \"rows\" is no list");
  CHECK(code_of("7") == "NQD2061 x.json:1:1: this is neither a table nor a list of rows");
  CHECK(code_of("{\"rows\": [\n  {\"tp\": 1e999}]}") ==
        "NQD2060 x.json:2:10: a number is out of range");
  CHECK(code_of("[]") == "read");
}

TEST_CASE("rows without an id of their own are named by place") {
  const PublishedTable table = read(row_with("\"id\": \"a\",") + "," + row_with("\"id\": \"a\",") +
                                    "," + row_with("\"id\": \"b\",") + "," + row_with("") + ", 12");
  REQUIRE(table.rows.size() == 5);
  CHECK(table.rows[0].id == "table.json#0");
  CHECK(table.rows[1].id == "table.json#1");
  CHECK(table.rows[2].id == "b");
  CHECK(table.rows[3].id == "table.json#3");
  CHECK(table.rows[4].id == "table.json#4");
  CHECK(table.rows[4].skip_reason == "the row is no object");
}

TEST_CASE("a row that cannot be represented is there, with the reason") {
  const auto reason = [](const std::string& members) {
    return read_one(row_with(members)).skip_reason;
  };
  CHECK(reason("") == "");
  CHECK(read_one("{}").skip_reason == "the row names no device");
  CHECK(read_one(R"({"gpu": "TPU v5p"})").skip_reason == "no device preset stands for \"TPU v5p\"");
  CHECK(reason("\"framework\": \"MaxText\",") == "no stack preset stands for maxtext");
  CHECK(reason("\"precision\": \"NVFP4\",") == "4-bit matrix products");
  CHECK(reason("\"cp\": 3,") == "8 devices are no multiple of tp·pp·cp = 12");
  CHECK(reason("\"task\": \"LoRA Performance\",") == "adapters alone are trained (LoRA)");
  CHECK(reason("\"vpp\": 20,") == "40 stages for 24 layers");
  CHECK(read_one(R"({"gpu": "H100"})").skip_reason ==
        "the row gives no layers, hidden size or heads of its model");
  const std::string bare =
      R"({"gpu": "H100", "arch": {"layers": 2, "hidden": 64, "heads": 4}, "gpus": 8, "seq": 128)";
  CHECK(read_one(bare + "}").skip_reason == "the row gives no parallel layout");
  CHECK(read_one(bare + ", \"tp\": 1, \"mfu_pct\": 40}").skip_reason ==
        "the row has neither a step time, nor a rate that one follows from, nor a peak memory");
  CHECK(read_one(bare + ", \"tp\": 16777216, \"pp\": 16777216}").skip_reason ==
        "larger than what can be planned");
}

TEST_CASE("a field that is there but says nothing makes its row skipped, never guessed") {
  const auto reason = [](const std::string& members) {
    return read_one("{" + members +
                    R"( "gpu": "A100-80GB SXM", "gpus": 8, "seq": 1024, "gbs": 16,
      "arch": {"layers": 24, "hidden": 1024, "heads": 16, "vocab": 50257}})")
        .skip_reason;
  };
  constexpr std::string_view kCount = ", which is no whole number from 1 to 16777216";
  const auto count = [&](const std::string& member, const std::string& says) {
    CHECK(reason(member + ", \"step_time_s\": 1,") == says + std::string(kCount));
  };
  count("\"pp\": 0", "pp is 0");
  count("\"tp\": 0", "tp is 0");
  count("\"cp\": 2.5", "cp is 2.5");
  count("\"tp\": -1", "tp is -1");
  count("\"tp\": \"two\"", "tp is two");
  count("\"tp\": [2]", "tp is [2]");
  count("\"tp\": {}", "tp is {…}");
  count("\"tp\": true", "tp is true");
  count("\"dp\": 1e300", "dp is 1e+300");
  count("\"vpp\": 1.5", "vpp is 1.5");
  const auto word = [&](const std::string& member) {
    return reason(member + ", \"tp\": 2, \"step_time_s\": 1,");
  };
  CHECK(word("\"precision\": \"int8\"") == "precision is int8, which is no format that is known");
  CHECK(word("\"zero\": true") == "zero is true, which is no stage that is known");
  CHECK(word("\"cp\": -1") == "cp is -1" + std::string(kCount));
  CHECK(word("\"vpp\": \"many\"") == "vpp is many" + std::string(kCount));
  CHECK(word("\"zero\": 7") == "zero is 7, which is no stage that is known");
  CHECK(word("\"schedule\": \"dualpipe\"") ==
        "schedule is dualpipe, which is no schedule that is known");
  CHECK(word("\"sequence_parallel\": \"perhaps\"") ==
        "sequence_parallel is perhaps, which is no yes or no");
  CHECK(word("\"fsdp\": -1") == "fsdp is -1, which is no whole number from 0 to 16777216");
  CHECK(word("\"fsdp\": 3") == "shard groups of 3 do not divide dp = 4");
  const auto time = [&](const std::string& seconds) {
    return reason("\"tp\": 2, \"step_time_s\": " + seconds + ",");
  };
  CHECK(time("0") == "step_time_s is 0, which is no positive number");
  CHECK(time("-1") == "step_time_s is -1, which is no positive number");
  CHECK(time("\"NaN\"") == "step_time_s is NaN, which is no positive number");
  CHECK(time("1e308") == "what it measured is out of all proportion");
}

TEST_CASE("the ways to write that a field has no value make it absent") {
  const std::string assumed_of_none = [] {
    std::string all;
    for (const std::string& text : read_one(row_with("")).assumed) all += text + "; ";
    return all;
  }();
  const auto same_as_absent = [&](const std::string& members) {
    INFO(members);
    const PublishedRow row = read_one(row_with(members + ","));
    REQUIRE(row.skip_reason == "");
    CHECK(row.config->parallel.vpp == 1);
    CHECK(row.config->parallel.cp == 1);
    CHECK(row.config->parallel.ep == 1);
    CHECK(row.config->parallel.dp == 2);
    CHECK(row.config->parallel.engine == Engine::kDdp);
    CHECK_FALSE(row.config->parallel.sequence_parallel);
    CHECK_FALSE(row.config->train.optimizer.offload);
    CHECK(row.config->train.precision == Precision::kBFloat16);
    CHECK(row.config->train.recompute == Recompute::kNone);
    std::string all;
    for (const std::string& text : row.assumed) all += text + "; ";
    return all == assumed_of_none;
  };
  for (const std::string key : {"vpp", "cp", "ep", "etp"}) {
    for (const std::string value : {"0", "\"0\"", "\"\"", "\"-\"", "\"n/a\"", "\"NA\"", "\"None\"",
                                    "\"off\"", "null", "false"}) {
      CHECK(same_as_absent("\"" + key + "\": " + value));
    }
  }
  for (const std::string key : {"zero", "precision", "schedule", "recompute", "sequence_parallel",
                                "peak_mem_gib", "tokens_per_s", "arch.kv_heads"}) {
    for (const std::string value : {"\"\"", "\" - \"", "\"N/A\"", "\"—\"", "\"unknown\"", "null"}) {
      CHECK(same_as_absent("\"" + key + "\": " + value));
    }
  }
  for (const std::string value : {"\"none\"", "\"off\"", "false", "0"}) {
    same_as_absent("\"zero\": " + value);
    same_as_absent("\"recompute\": " + value);
    same_as_absent("\"cpu_offload\": " + value);
    same_as_absent("\"sequence_parallel\": " + value);
    CHECK(same_as_absent("\"fsdp\": " + value));
  }
  CHECK(same_as_absent("\"precision\": \"mixed\""));
  CHECK(same_as_absent("\"precision\": \"AMP\""));
  CHECK(same_as_absent("\"peak_mem_gb\": \"none\", \"suspect\": false"));
}

TEST_CASE("what is said to be off is off, whatever is usual") {
  // The usual software of an H100 shards its optimizer and interleaves its stages.
  const auto config_of = [](const std::string& members) {
    const PublishedRow row =
        read_one("{" + members +
                 R"("gpu": "H100", "gpus": 16, "seq": 1024, "gbs": 16, "mbs": 1, "step_time_s": 1,
           "arch": {"layers": 24, "hidden": 1024, "heads": 16, "vocab": 50304}})");
    REQUIRE(row.skip_reason == "");
    return *row.config;
  };
  const std::string pipeline = "\"tp\": 2, \"pp\": 8, ";
  CHECK(config_of(pipeline).parallel.vpp == 3);
  CHECK(config_of(pipeline).parallel.engine == Engine::kZero1);
  CHECK(config_of(pipeline).parallel.sequence_parallel);
  CHECK(config_of(pipeline + "\"vpp\": \"n/a\", ").parallel.vpp == 3);
  CHECK(config_of(pipeline + "\"vpp\": 0, ").parallel.vpp == 1);
  CHECK(config_of(pipeline + "\"zero\": false, ").parallel.engine == Engine::kDdp);
  CHECK(config_of(pipeline + "\"zero\": \"-\", ").parallel.engine == Engine::kZero1);
  CHECK_FALSE(config_of(pipeline + "\"sequence_parallel\": \"none\", ").parallel.sequence_parallel);
  // "none" is a layout, of which 0 and nothing are none.
  CHECK(config_of("\"tp\": \"none\", \"pp\": \"none\", ").parallel.dp == 16);
  const std::string bridge = "\"source\": \"Megatron-Bridge\", \"tp\": 2, ";
  CHECK(config_of(bridge).train.precision == Precision::kFp8);
  CHECK(config_of(bridge + "\"precision\": \"n/a\", ").train.precision == Precision::kFp8);
  CHECK(config_of(bridge + "\"precision\": \"mixed\", ").train.precision == Precision::kBFloat16);
}

TEST_CASE("numbers, flags and texts are taken in whatever type they come") {
  const std::string text = R"json({"gpu": "h100_80gb", "gpus": "8", "tp": 4.0, "pp": null,
      "gbs": "16", "mbs": 2, "seq": 1024, "step_time_s": "1.5", "sequence_parallel": "False",
      "zero": "FSDP2", "recompute": "full (use_checkpoint)", "cpu_offload": "True",
      "arch": {"layers": 24, "hidden": 1024, "heads": 16, "kv_heads": null, "vocab": null,
               "gated_mlp": "true"}})json";
  const PublishedRow row = read_one(text);
  REQUIRE(row.skip_reason.empty());
  const Config& config = *row.config;
  CHECK(row.measured == 1.5);
  CHECK(config.parallel.dp == 2);
  CHECK(config.parallel.tp == 4);
  CHECK(config.parallel.engine == Engine::kZero3);
  CHECK_FALSE(config.parallel.sequence_parallel);
  CHECK(config.train.recompute == Recompute::kFull);
  CHECK(config.train.optimizer.offload);
  CHECK(config.model.kv_heads == 16);
  CHECK(config.model.gated_mlp);
  CHECK(row.assumed == std::vector<std::string>{"vocab 50304", "precision bfloat16"});
}

TEST_CASE("a row with time and memory makes two; what another tool predicted is no measurement") {
  const PublishedTable table =
      read(row_with("\"estimated_peak_gib\": 9, \"peak_allocated_mib\": 2048,"));
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0].quantity == Quantity::kStepTime);
  CHECK(table.rows[1].quantity == Quantity::kPeakMemory);
  CHECK(table.rows[1].measured == 2048.0 * 1024 * 1024);
}

TEST_CASE("a peak memory needs no device, and counts what its field says") {
  const std::string bare = R"({"tp": 2, "dp": 4, "mbs": 2, "seq": 1024,
      "arch": {"layers": 24, "hidden": 1024, "heads": 16, "vocab": 50304}, )";
  const PublishedRow reserved = read_one(bare + "\"peak_reserved_gb\": 3}");
  CHECK(reserved.memory_kind == MemoryKind::kReserved);
  CHECK(reserved.measured == 3e9);
  CHECK(reserved.assumed.front() == "A100-80GB SXM");
  CHECK(read_one(bare + "\"measured_gib\": 3}").memory_kind == MemoryKind::kAllocated);
}

TEST_CASE("what a row leaves out is usual for its framework and date") {
  const auto config_of = [](const std::string& members) {
    const PublishedRow row = read_one(row_with(members));
    REQUIRE(row.skip_reason == "");
    return *row.config;
  };
  CHECK(config_of("").stack.preset == "megatron-2022");
  CHECK(config_of("\"zero\": 3,").stack.preset == "deepspeed-zero3-2021");
  // With a pipeline FSDP does not gather again for every micro-batch.
  CHECK(config_of("\"source\": \"torchtitan\", \"zero\": \"FSDP2\",").parallel.engine ==
        Engine::kZero2);
  const Config flash = config_of("\"note\": \"flash attention, dropout 0.1\",");
  CHECK(flash.train.attention == Attention::kFlash);
  CHECK(flash.train.dropout);
}

TEST_CASE("step times that are not printed are derived, and say how") {
  const auto derived = [](const std::string& measurement) {
    return read_one(
        R"({"gpu": "A100-80GB SXM", "gpus": 8, "tp": 1, "gbs": 16, "mbs": 2, "seq": 1024,)" +
        measurement + R"(, "arch": {"layers": 24, "hidden": 1024, "heads": 16, "vocab": 51200}})");
  };
  CHECK(derived("\"tokens_per_s_per_gpu\": 2048").measured == 1.0);
  CHECK(derived("\"tokens_per_s\": 8192").measured == 2.0);
  CHECK(derived("\"samples_per_s_per_gpu\": 4").measured == 0.5);
  CHECK_FALSE(derived("\"samples_per_s\": 4").derived.empty());
  // 96·B·s·L·h²·(1 + s/6h + V/16Lh) of Narayanan et al., over 8 · 100 TFLOP/s.
  const PublishedRow flops =
      derived("\"tflops_per_gpu\": 100, \"flops_convention\": \"96*B*s*L*h^2, HFU\"");
  const double count =
      96.0 * 16 * 1024 * 24 * 1024 * 1024 * (1 + 1 / 6.0 + 51200 / (16.0 * 24 * 1024));
  CHECK(flops.measured == doctest::Approx(count / 8e14).epsilon(1e-12));
  CHECK(flops.derived.find("96·B·s·L·h²") == 0);
}

TEST_CASE("FLOPs of a model with experts count the experts that a token enters") {
  const PublishedRow row = read_one(R"({"gpu": "DGX-H100", "source": "Megatron-Bridge", "gpus": 8,
      "tp": 1, "ep": 8, "gbs": 16, "mbs": 1, "seq": 4096, "tflops_per_gpu": 100, "precision": "BF16",
      "arch": {"layers": 2, "hidden": 1024, "heads": 8, "kv_heads": 8, "experts": 16, "topk": 2,
               "moe_ffn": 512, "vocab": 1024, "gated_mlp": true}})");
  REQUIRE(row.skip_reason == "");
  // A token and layer: four square projections, half of the scores, the router, two gated experts.
  const double layer =
      8.0 * 1024 * 1024 + 2.0 * 4096 * 1024 + 2.0 * 1024 * 16 + 2 * 3 * 2.0 * 1024 * 512;
  const double flops = 16 * 4096 * 3 * (2 * layer + 2.0 * 1024 * 1024);
  CHECK(row.measured == doctest::Approx(flops / 8e14).epsilon(1e-12));
}

TEST_CASE("defaults hold for rows that do not speak, and null takes them back") {
  const PublishedTable table = read_published_text(
      R"({"defaults": {"gpu": "A100-80GB SXM", "gpus": 8, "tp": 2, "pp": 2, "seq": 1024, "mbs": 4,
                       "gbs": 32},
          "models": {"m": {"layers": 24, "hidden": 1024, "heads": 16, "vocab": 50304}},
          "rows": [{"model": "m", "step_time_s": 1}, {"model": "m", "step_time_s": 1, "tp": 4},
                   {"model": "m", "step_time_s": 1, "mbs": null}, {"model": "n", "step_time_s": 1}]})",
      "x.json");
  REQUIRE(table.rows.size() == 4);
  CHECK(table.rows[0].config->parallel.tp == 2);
  CHECK(table.rows[1].config->parallel.tp == 4);
  CHECK(table.rows[1].config->parallel.dp == 1);
  CHECK(table.rows[2].config->train.micro_batch_size == 1);
  CHECK(table.rows[2].assumed.at(1) == "mbs 1");
  CHECK_FALSE(table.rows[3].skip_reason.empty());
}

TEST_CASE("a curve gives one row a point") {
  const PublishedTable table = read_published_text(
      R"({"rows": [{"gpu": "a100", "ranks": 4, "op": "all_reduce",
                    "points_bytes_seconds": [[1048576, 5e-5], [2097152, 6e-5], ["x", 1], [0, 1]]},
                   {"gpu": "a100", "ranks": 4, "op": "all_gather", "points_bytes_seconds": [[1, 1]]},
                   {"gpu": "a100", "ranks": 8, "op": "all_reduce", "step_bytes": 1048576,
                    "points_us": [90, 100]}]})",
      "nccl.json");
  REQUIRE(table.rows.size() == 7);
  CHECK(table.rows[0].id == "nccl.json#0@1048576");
  CHECK(table.rows[0].quantity == Quantity::kCollectiveTime);
  CHECK(table.rows[0].ranks == 4);
  CHECK(table.rows[1].bytes == 2097152);
  CHECK(table.rows[2].skip_reason == "the point is no pair of bytes and seconds");
  CHECK(table.rows[3].skip_reason == "the point is no pair of bytes and seconds");
  CHECK(table.rows[4].skip_reason == "a curve of another collective than all_reduce");
  CHECK(table.rows[6].bytes == 2097152);
  CHECK(table.rows[6].measured == doctest::Approx(1e-4));
}
