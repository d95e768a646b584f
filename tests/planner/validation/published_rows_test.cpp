// What rows of each shipped table become: values read in the publication, not in this tree.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "planner/import/published/published.h"
#include "planner/import/published/shipped.h"

using namespace nqd::planner;

namespace {

const std::vector<PublishedTable>& tables() {
  static const std::vector<PublishedTable> all = [] {
    std::vector<PublishedTable> read;
    for (const ShippedFile& file : shipped_tables()) {
      read.push_back(read_published_text(std::string(file.text), std::string(file.name)));
    }
    return read;
  }();
  return all;
}

const PublishedRow& row(std::string_view id, Quantity quantity = Quantity::kStepTime) {
  for (const PublishedTable& table : tables()) {
    for (const PublishedRow& candidate : table.rows) {
      if (candidate.id == id && (candidate.quantity == quantity || candidate.config == nullptr)) {
        return candidate;
      }
    }
  }
  FAIL("no row " << id);
  return tables().front().rows.front();
}
const Config& config_of(std::string_view id) { return *row(id).config; }

std::string mesh(const Config& config) {
  const ParallelSpec& p = config.parallel;
  return "dp" + std::to_string(p.dp) + " tp" + std::to_string(p.tp) + " pp" + std::to_string(p.pp) +
         " cp" + std::to_string(p.cp) + " ep" + std::to_string(p.ep) + " vpp" +
         std::to_string(p.vpp) + " mbs" + std::to_string(config.train.micro_batch_size) + " m" +
         std::to_string(config.micro_batches());
}

}  // namespace

TEST_CASE("Korthikanti table 5: selective recomputation with sequence parallelism on Selene") {
  const Config& config = config_of("kor_t5_530B_selsp");
  CHECK(row("kor_t5_530B_selsp").measured == 37.83);
  CHECK(mesh(config) == "dp1 tp8 pp35 cp1 ep1 vpp3 mbs1 m280");
  CHECK(config.stack.preset == "megatron-2022");
  CHECK(config.cluster.preset == "dgx-a100");
  CHECK(config.train.recompute == Recompute::kSelective);
  CHECK(config.parallel.sequence_parallel);
  CHECK(config.parallel.schedule == Schedule::kInterleaved);
  CHECK(config.train.gradient_precision == Precision::kFloat32);
  CHECK(config.train.attention == Attention::kMaterialised);
  CHECK(config.train.dropout);
  CHECK(config.parallel.order == MeshOrder::kDpThenPp);
  CHECK(config.cluster.nodes == 35);
  CHECK(config.cluster.inter_node.bandwidth_bytes_per_s == 25e9);
}

TEST_CASE("SC21: step time from TFLOP/s that count recomputation, ZeRO-3 as its own software") {
  const PublishedRow& megatron = row("sc21_t1_145.6B");
  CHECK(megatron.measured == doctest::Approx(24.82).epsilon(1e-3));
  CHECK_FALSE(megatron.derived.empty());
  CHECK(megatron.config->stack.preset == "megatron-2021");
  CHECK(mesh(*megatron.config) == "dp24 tp8 pp8 cp1 ep1 vpp2 mbs2 m48");
  CHECK(megatron.config->train.gradient_precision == Precision::kFloat16);
  const Config& zero = config_of("sc21_t2_ZeRO-3_174.6_768");
  CHECK(zero.stack.preset == "deepspeed-zero3-2021");
  CHECK(zero.parallel.engine == Engine::kZero3);
  CHECK(zero.train.runtime == Runtime::kDeepSpeed);
}

TEST_CASE("vTrain: micro-batches of a replica, 100 Gb/s a device, suspect rows marked") {
  CHECK(config_of("vtrain_multi_0001").cluster.nics_per_node == 4);
  const Config& config = config_of("vtrain_multi_0073");
  CHECK(mesh(config) == "dp32 tp1 pp16 cp1 ep1 vpp1 mbs3 m16");
  CHECK(config.stack.preset == "megatron-deepspeed-2022");
  CHECK(config.cluster.inter_node.bandwidth_bytes_per_s == 12.5e9);
  CHECK(config.train.recompute == Recompute::kFull);
  CHECK(config.model.vocab == 50257);                          // unpadded with tp = 1
  CHECK(config_of("vtrain_multi_0041").model.vocab == 50432);  // a multiple of 128 · tp
  CHECK_FALSE(row("vtrain_multi_0041").suspect.empty());
  CHECK(row("vtrain_single_0000").measured == 0.372160408);
  CHECK(config_of("vtrain_single_0000").cluster.gpus_per_node == 2);
}

TEST_CASE("zero-bubble: shorter ends, schedules, memory in units of 10^9") {
  const Config& config = config_of("zb_ZB-2p_1.5B_24");
  CHECK(config.parallel.pipeline_split == std::vector<std::int64_t>{2, 3, 3, 3, 3, 3, 3, 2});
  CHECK(config.parallel.schedule == Schedule::kZbH2);
  CHECK(row("zb_ZB-2p_1.5B_24").measured == doctest::Approx(144 / (14.5 * 8)));
  CHECK(row("zb_ZB-2p_1.5B_24", Quantity::kPeakMemory).measured == 59e9);
  const Config& interleaved = config_of("zb_1F1B-I_28.3B_96");
  CHECK(interleaved.parallel.vpp == 2);
  std::vector<std::int64_t> one_each(64, 1);
  one_each.front() = one_each.back() = 0;
  CHECK(interleaved.parallel.pipeline_split == one_each);
}

TEST_CASE("dgxc: distributed optimizer, sequence parallelism, proxies with fewer layers") {
  const Config& proxy = config_of("dgxc_v24.11.1_Llama3.1405B_bf16_96");
  CHECK(proxy.model.layers == 21);
  CHECK(mesh(proxy) == "dp2 tp8 pp3 cp2 ep1 vpp7 mbs1 m63");
  CHECK(proxy.stack.preset == "nemo-2024");
  CHECK(proxy.parallel.engine == Engine::kZero1);
  CHECK(proxy.parallel.sequence_parallel);
  CHECK(proxy.model.kv_heads == 8);
  CHECK(proxy.train.recompute == Recompute::kNone);
  const Config& uneven = config_of("dgxc_v25.05.05_Llama3.1405B_bf16_128");
  CHECK(uneven.cluster.preset == "gb200-nvl72");
  CHECK(uneven.cluster.nvlink_domain == 72);
  REQUIRE(uneven.parallel.pipeline_split.size() == 64);  // 126 + 2 layers over 8 · 8
  CHECK(uneven.parallel.pipeline_split.front() == 1);
  CHECK(uneven.parallel.pipeline_split[1] == 2);
  CHECK(config_of("nvidia_dgxc.json#66").train.precision == Precision::kFp8);
  CHECK(row("dgxc_v24.11.1_GPT3175B_bf16_128").measured == 8.91);
}

TEST_CASE("llm-foundry: FSDP, micro-batches of a device, 16-bit reduction in pure mode") {
  const Config& config = config_of("mpt_70b_2048_256_h100_80gb_amp_bf16_1");
  CHECK(mesh(config) == "dp256 tp1 pp1 cp1 ep1 vpp1 mbs8 m1");
  CHECK(config.stack.preset == "llm-foundry-2023");
  CHECK(config.parallel.engine == Engine::kZero3);
  CHECK(config.train.gradient_precision == Precision::kFloat32);
  CHECK(config.train.attention == Attention::kFlash);
  CHECK(row("mpt_70b_2048_256_h100_80gb_amp_bf16_1").measured ==
        doctest::Approx(2048.0 * 2048 / (1035 * 256)));
}

TEST_CASE("Megatron-Bridge: no printed precision is FP8, experts, latent attention") {
  const Config& dense = config_of("mb_25.09_LLAMA3_8B_DGX-H100_");
  CHECK(dense.train.precision == Precision::kFp8);
  CHECK(dense.parallel.engine == Engine::kZero3);
  CHECK(dense.stack.preset == "megatron-core-2025");
  const std::vector<std::string>& assumed = row("mb_25.09_LLAMA3_8B_DGX-H100_").assumed;
  CHECK(std::count(assumed.begin(), assumed.end(), "precision fp8") == 1);
  CHECK(std::count(assumed.begin(), assumed.end(), "recompute none") == 1);
  CHECK(config_of("mb_26.04_Kimi_K2_DGX-GB300_MXFP8").stack.preset == "megatron-core-2025");
  const Config& later = config_of("mb_26.06_Qwen3_235B_a22B_DGX-GB300_MXFP8");
  CHECK(later.stack.preset == "megatron-core-2026");
  CHECK(later.model.head_dim == 128);
  const Config& experts = config_of("mb_25.09_DeepSeekV3_DGX-H100_");
  CHECK(mesh(experts) == "dp64 tp2 pp8 cp1 ep64 vpp4 mbs1 m128");
  CHECK(experts.model.family == "moe");
  CHECK(experts.model.moe.experts == 256);
  CHECK(experts.model.moe.dense_layers == 3);
  CHECK(experts.model.mla.kv_lora_rank == 512);
  CHECK(experts.model.vocab == 129280);
  CHECK(config_of("mb_26.04_Kimi_K2_DGX-GB300_MXFP8").model.moe.experts == 384);
  CHECK_FALSE(row("mb_26.08_Nemotron_3_Super_DGX-GB300_NVFP4").skip_reason.empty());
}

TEST_CASE("torchtitan: local batches over the pipeline, versions by date and note, GiB") {
  CHECK(config_of("tt_a70_2v").stack.preset == "torchtitan-rowwise-2025");
  CHECK(config_of("tt_a70_1v").stack.preset == "torchtitan-2024");
  const Config& pipeline = config_of("tt_t6_1");
  CHECK(mesh(pipeline) == "dp4 tp8 pp8 cp2 ep1 vpp1 mbs1 m8");
  CHECK(pipeline.train.recompute == Recompute::kFull);
  CHECK(pipeline.parallel.engine == Engine::kZero2);
  CHECK(pipeline.parallel.async_tensor);
  CHECK(config_of("tt_h200_4").train.fused_loss);
  CHECK(row("tt_t1_0", Quantity::kPeakMemory).memory_kind == MemoryKind::kReserved);
  CHECK(pipeline.cluster.gpu == "h100-hbm2e-96");
  CHECK(pipeline.cluster.inter_node.bandwidth_bytes_per_s == 50e9);
  CHECK(row("tt_t1_0", Quantity::kPeakMemory).measured == 82.4 * 1024 * 1024 * 1024);
  CHECK_FALSE(config_of("tt_t1_0").train.fused_kernels);
  CHECK(config_of("tt_t1_1").train.fused_kernels);
}

TEST_CASE("NeMo, Megatron-LM and MT-NLG rows: what is not printed is listed as assumed") {
  const PublishedRow& megatron = row("mlm_h100_177B");
  CHECK(megatron.config->stack.preset == "megatron-core-2024");
  CHECK(std::count(megatron.assumed.begin(), megatron.assumed.end(), "mbs 1") == 1);
  CHECK_FALSE(megatron.config->model.tied_head);
  const Config& long_context = config_of("nemo_long_h100_256k");
  CHECK(mesh(long_context) == "dp8 tp4 pp1 cp8 ep1 vpp1 mbs1 m2");
  CHECK(row("nemo2407_LLAMA2-7B_8").measured == doctest::Approx(128.0 * 4096 / (16934 * 8)));
  CHECK(row("mtnlg_2800").not_fitted == "micro-batch size and recomputation are unverified");
  CHECK(mesh(config_of("mtnlg_2800")) == "dp10 tp8 pp35 cp1 ep1 vpp1 mbs1 m192");
}

TEST_CASE("NCCL curves: a row a point") {
  const PublishedRow& point =
      row("nccl_allreduce_a100_v100.json#5@1048576", Quantity::kCollectiveTime);
  CHECK(point.ranks == 8);
  CHECK(point.measured == doctest::Approx(9.279e-5));
  CHECK(point.config->cluster.preset == "dgx-a100");
}
