#include <array>

#include "base/codes/tables.h"

namespace nqd::codes {
namespace {

constexpr std::array kTable = {
    // 1200: mesh rules
    CodeInfo{"NQD1201", "mesh and world size disagree",
             "Every rank has one place in the mesh, so dp·tp·cp·pp must equal the world size. "
             "Change one of them, or leave out dp: it is then derived."},
    CodeInfo{"NQD1202", "mesh and cluster disagree",
             "The mesh must use every device of the cluster: a device without a rank is paid "
             "for and idle, a rank without a device cannot start. dp may be left out: it is "
             "then devices / (tp·cp·pp)."},
    CodeInfo{"NQD1203", "tensor parallelism leaves the node",
             "Tensor parallelism exchanges activations four times a layer, which only the links of "
             "a scale-up domain (a node, or a rack such as NVL72) can carry. A tp that does not "
             "divide the devices of the domain would put some group across two of them."},
    CodeInfo{"NQD1204", "heads not divisible by tp",
             "Attention is split over tp ranks by whole heads."},
    CodeInfo{"NQD1205", "hidden not divisible by heads",
             "Every attention head has hidden / heads channels, a whole number."},
    CodeInfo{"NQD1206", "layers not divisible by the stages",
             "An even pipeline gives each of the pp·vpp stages the same number of layers. For any "
             "other division give parallel.pipeline_split."},
    CodeInfo{"NQD1207", "pipeline_split has the wrong length",
             "pipeline_split lists the layers of each stage in order, pp·vpp entries in all."},
    CodeInfo{"NQD1208", "pipeline_split does not add up",
             "The entries of pipeline_split must sum to the model's layers, or layers would be "
             "dropped or invented."},
    CodeInfo{"NQD1209", "batch does not divide",
             "global_batch_size = micro_batch_size · m · dp with a whole number m of "
             "micro-batches a step. The message gives the nearest sizes that divide."},
    CodeInfo{"NQD1210", "virtual stages without a pipeline",
             "vpp cuts each pipeline stage into several; without stages (pp = 1) there is "
             "nothing to cut."},
    CodeInfo{"NQD1211", "micro-batches not a multiple of pp",
             "The interleaved schedule moves micro-batches through the stages in groups of pp, "
             "so m must be a multiple of pp."},
    CodeInfo{"NQD1212", "sequence parallelism without tensor parallelism",
             "sequence_parallel shards what tensor parallelism leaves replicated; with tp = 1 "
             "there is nothing to shard."},
    CodeInfo{"NQD1213", "sequence not divisible by tp",
             "sequence_parallel cuts the sequence into tp equal parts."},
    CodeInfo{"NQD1214", "vocabulary is padded",
             "The embedding is split over tp ranks by rows, so its rows are padded to a "
             "multiple of tp. Memory and traffic are counted with the padding."},
    CodeInfo{"NQD1215", "shard groups not equal",
             "hsdp shards state inside groups of hsdp_shard ranks and replicates across "
             "groups, so dp must be a multiple of hsdp_shard."},
    CodeInfo{"NQD1216", "shard group spans nodes",
             "hsdp exists to keep the gathering of weights on the fast links of a node. A "
             "larger group gathers every layer across the network, as zero3 does."},
    CodeInfo{"NQD1217", "hsdp_shard without hsdp",
             "Only the engine hsdp has shard groups; the setting would be ignored."},
    CodeInfo{"NQD1218", "sharded gradients beside a pipeline",
             "zero2, zero3 and hsdp shard gradients or weights, so their collectives repeat "
             "for every micro-batch of a pipeline instead of once a step. zero1 shards the "
             "optimizer state alone and is the usual choice."},
    CodeInfo{"NQD1219", "warm-up longer than the run",
             "The learning rate would never reach its peak."},
    CodeInfo{"NQD1220", "minimum learning rate above the peak", "The decay would raise the rate."},
    CodeInfo{"NQD1221", "model cannot be split",
             "tp divides attention heads and MLP columns, pp divides equal layers. Models of the "
             "families state, edsr, unet and custom have none of these to divide: shard their "
             "state with zero1, zero2, zero3 or hsdp instead."},
    CodeInfo{"NQD1222", "state model cannot be trained",
             "A model of family state has no layers to run. Remove data.path to plan its "
             "memory, or give its shape."},
    CodeInfo{"NQD1223", "schedule and virtual stages disagree",
             "The interleaved schedule needs vpp > 1, zb-v needs vpp = 2 (a rank holds one chunk "
             "on "
             "the way down and one on the way up), all others vpp = 1."},
    CodeInfo{"NQD1224", "mesh too large",
             "dp·tp·cp·pp is the number of ranks, and nqd plans for up to 1,048,576 of them. Lower "
             "parallel.dp, which a mistyped zero multiplies first."},
    CodeInfo{"NQD1225", "kv heads do not fit tp",
             "With grouped-query attention a tp rank holds whole key and value heads (kv_heads a "
             "multiple of tp), or several ranks hold copies of the same one (kv_heads a divisor "
             "of tp). Anything else would cut a head."},
    CodeInfo{"NQD1226", "kv heads do not divide the heads",
             "Every key and value head serves the same number of query heads, so kv_heads divides"
             " heads."},
    CodeInfo{"NQD1227", "layers would be dropped",
             "pp divides the layers, but the layers of a rank do not make vpp equal virtual "
             "stages. Some launchers round the layers of a virtual stage down and train a smaller"
             " model than was asked for: 80 layers over pp 16 and vpp 2 become 64 (Megatron-LM "
             "issue 468). Choose a vpp that divides, or give every stage its layers in "
             "parallel.pipeline_split."},
    CodeInfo{"NQD1228", "MLP width not divisible by tp",
             "The first matrix of an MLP is split over tp ranks by columns and the second by "
             "rows, in equal parts."},
    CodeInfo{"NQD1229", "NVLink domain and node disagree",
             "cluster.nvlink_domain is the number of devices that share one scale-up network: "
             "several whole nodes (NVL72), or an equal part of a node (bridged pairs)."},
    CodeInfo{"NQD1230", "context parallelism without a sequence",
             "cp divides the tokens of a sequence among ranks, which exchange keys and values. "
             "Models of the families state, edsr, unet and custom have no tokens."},
    CodeInfo{"NQD1231", "sequence not divisible by cp",
             "cp ranks hold equal parts of a sequence. A causal mask gives later tokens more "
             "work, so each rank takes one chunk from the front and one from the back: 2·cp "
             "chunks."},
    CodeInfo{"NQD1232", "zero-bubble schedule without a pipeline",
             "zb-h1, zb-h2 and zb-v put weight gradients where a pipeline would be idle. With pp "
             "= 1 nothing is idle, and the setting would be ignored."},
    CodeInfo{"NQD1234", "expert parallelism without experts",
             "ep divides the routed experts of a model among ranks. Only the family moe has any."},
    CodeInfo{"NQD1235", "experts not divisible by ep",
             "Every ep rank holds the same number of whole experts."},
    CodeInfo{"NQD1236", "expert groups do not fill the stage",
             "Experts are placed on the dp·cp·tp ranks of a pipeline stage, in groups of "
             "ep·expert_tp that hold one set each. The groups must fill the stage."},
    CodeInfo{"NQD1237", "expert_tp does not divide tp",
             "The columns of an expert are divided among expert_tp ranks of one tp group."},
    CodeInfo{"NQD1239", "expert width not divisible",
             "The columns of a routed expert are divided among expert_tp ranks, those of the "
             "shared experts among tp, in equal parts."},
    CodeInfo{"NQD1240", "no layer has experts",
             "model.moe.dense_layers of the first layers keep an ordinary MLP; the rest have "
             "experts, and there must be a rest."},
    CodeInfo{"NQD1241", "float16 needs loss scaling",
             "float16 has five exponent bits. Small gradients become zero unless the loss is "
             "multiplied by a large factor, which has to follow the gradients (dynamic loss "
             "scaling). bfloat16 has the exponent of float32."},
    CodeInfo{"NQD1242", "float16 and bfloat16 mixed",
             "float16 overflows where bfloat16 does not, and bfloat16 drops bits that float16 "
             "keeps. Weights and gradients use one of the two, or gradients are float32."},
    CodeInfo{"NQD1243", "gradients in 8 bits",
             "fp8 is a type of matrix operands with a scale for each tensor. Sums of many "
             "gradients need more bits."},
    CodeInfo{"NQD1244", "device without fast fp8",
             "8-bit matrix units came with Hopper, Ada, Blackwell and MI300. On other devices fp8"
             " gains nothing, or does not run."},
    CodeInfo{"NQD1245", "recompute_every without full recomputation",
             "Full recomputation keeps the input of every group of recompute_every layers. The "
             "other kinds of recomputation have no groups."},
    CodeInfo{"NQD1246", "recompute groups not equal",
             "The layers of each (virtual) stage are computed again in groups of recompute_every,"
             " which divides their number."},
    CodeInfo{"NQD1247", "selective recomputation beside flash attention",
             "Selective recomputation was made for attention that writes its s·s scores: it drops"
             " and recomputes them. Flash attention recomputes them inside its kernel already."},
    CodeInfo{"NQD1248", "offload of a replicated optimizer",
             "Under ddp every replica has all of the optimizer's state. Offloaded, each would "
             "write its own copy to the host, gpus_per_node times what a sharded optimizer (zero1"
             " and beyond) writes."},
    CodeInfo{"NQD1249", "engine that the runtime lacks",
             "PyTorch's fully_shard (fsdp2) always shards gradients: zero2 keeps gathered weights"
             " until backward, zero3 frees them after each use, hsdp shards inside groups. It has"
             " no ddp or zero1."},
    CodeInfo{"NQD1250", "sharded gradients in DeepSpeed's pipeline",
             "DeepSpeed's pipeline engine accumulates whole gradients over the micro-batches and "
             "refuses ZeRO stages 2 and 3."},
    CodeInfo{"NQD1251", "kv_heads beside latent attention",
             "Multi-head latent attention keeps one compressed vector a token and expands it to "
             "keys and values of every head. There are no groups of kv heads."},
    CodeInfo{"NQD1254", "expert parallelism without sequence parallelism",
             "All ranks of a tp group hold the same tokens unless sequence_parallel divides them."
             " With ep they would send every token tp times. Megatron-LM refuses this too."},
    CodeInfo{"NQD1255", "sides not fit for fp8",
             "8-bit matrix units take operands whose sides are multiples of 16 on every rank."},
    CodeInfo{"NQD1257", "attention at a size that no level has",
             "model.image.attention_at lists picture sizes. The levels have size, size/2, size/4 "
             "and so on."},
    CodeInfo{"NQD1258", "capacity factor below 1",
             "Each expert takes capacity_factor times its even share of the tokens and drops the "
             "rest. Below 1 some tokens are dropped in any case."},
    CodeInfo{"NQD1260", "odd head size with rotary positions",
             "Rotary positions turn pairs of channels by an angle, so a head has an even number "
             "of them."},
    CodeInfo{"NQD1262", "hsdp without shards or without copies",
             "hsdp shards the model inside groups and keeps a copy in each. A group of one rank "
             "shards nothing, as ddp; a single group of all ranks has no other copy, as zero3. The "
             "default group is the data-parallel ranks of one node."},
    CodeInfo{"NQD1263", "canonical slices that the mesh cannot share",
             "In canonical numerics every sum that tensor parallelism divides is cut into "
             "numerics.tp_slices equal slices, which are added in one fixed binary tree, so that "
             "its bits are the same for any tp. A tp rank computes a subtree: tp divides tp_slices "
             "into a power of two each, and tp_slices divides the widths that are cut."},
    CodeInfo{"NQD1264", "decay longer than the run",
             "The schedule wsd warms up, holds the peak and goes down in the last decay_steps: "
             "warm-up and decay have to fit into the run."},
    CodeInfo{"NQD1265", "key of another learning-rate schedule",
             "decay_steps and decay_shape are read by the schedule wsd alone, min_learning_rate by "
             "wsd and cosine. Beside another schedule the setting would be ignored."},
    CodeInfo{"NQD1266", "keys of rotary positions beside other positions",
             "rope_base and rope_scaling describe how rotary positions turn queries and keys. A "
             "model with other positions would ignore them."},
    CodeInfo{"NQD1267", "rotary frequencies without a band to blend in",
             "rope_scaling leaves frequencies of high_freq_factor turns and more, divides those of "
             "fewer than low_freq_factor turns by factor, and blends in between: the high factor "
             "is above the low one."},
    CodeInfo{"NQD1268", "roll-back without a save",
             "guard.roll_back goes back to the last generation when too many steps in a row were "
             "skipped. A run that saves only when it is asked to stop has none."},
    // 1300: memory and advice
    CodeInfo{
        "NQD1301", "the plan does not fit into the device's memory",
        "The worst pipeline stage needs more bytes than cluster.memory_bytes. The message names "
        "the largest category; the hint lists changes that were planned in turn and fit. State "
        "(weights, gradients, master, moments) shrinks by sharding (zero1, zero2, zero3), "
        "activations by recomputation or a smaller micro-batch, both by tp and pp."},
    CodeInfo{"NQD1302", "much of the step is pipeline bubble",
             "With p stages and m micro-batches a stage waits (p-1)/(m+p-1) of the step. Raise "
             "global_batch_size, so that m is at least 4p, or use fewer stages, or interleave."},
    CodeInfo{
        "NQD1303", "only the state of this model is planned",
        "A model of family state gives a parameter count and no shapes: weights, gradients and "
        "optimizer state follow from it, activations and arithmetic do not."},
    CodeInfo{"NQD1304", "the device's memory is unknown",
             "Without cluster.memory_bytes the plan lists bytes but cannot say whether they fit."},
    CodeInfo{
        "NQD1305", "a calibration is used beyond what was measured",
        "The payload of a collective lies outside the sweep that was measured: the nearest piece "
        "of the curve is continued, which may be far off where the algorithm changes. Or the "
        "engine's kernels were measured with another number of ranks at work on a host."},
    CodeInfo{"NQD1306", "the step time is unknown",
             "A rate that the time depends on is not given: the matrix product rate, the memory "
             "bandwidth, the bandwidth of a link, or the rate of one of the engine's kernels. nqd "
             "prints no partial time."},
    CodeInfo{
        "NQD1307", "the plan fits with little to spare",
        "The plan counts tensors. The device context, the allocator's fragmentation and library "
        "workspaces come on top, commonly 0.5 to 2 GB."},
    CodeInfo{"NQD1308", "a calibrated rate is far below the stated peak",
             "The matrix product rate of the calibration is below 5 % of cluster.peak_flops. Most "
             "likely one machine was measured and another one planned, such as a CPU host for a "
             "GPU cluster; every predicted time then describes neither."},
    CodeInfo{
        "NQD1309", "measured crossovers and the gradients' all_reduce",
        "The cluster file says which all_reduce was fastest from which payload on. The message "
        "says whether the trainer follows it for its gradient buckets, or why not: it was "
        "measured on other ranks or buffers, or names an algorithm that the trainer does not "
        "run."},
    CodeInfo{"NQD1310", "batch above the gradient noise scale",
             "Beyond the gradient noise scale a larger batch hardly makes a step better: the same "
             "loss needs more samples, so that more GPU-hours buy less time than they cost "
             "(McCandlish et al. 2018). Lower train.global_batch_size, or keep it where time is "
             "worth more than money."},
    CodeInfo{"NQD1311", "storage is slower than the run reads",
             "At the planned step time a node reads more bytes a second than its storage "
             "delivers (cluster.ingest_bytes_per_s), so that ranks wait for input. Keep the data "
             "on local disks, compress it, or use fewer ranks."},
    CodeInfo{
        "NQD1401", "the engine cannot run this config yet",
        "`nqd mesh-plan` plans more than `nqd train` runs: the engine runs dense decoders of the "
        "families gpt and llama and time-series encoders, on any mesh of dp, tp and pp; with "
        "--device cuda not those whose canonical sums are over a number of replicas that is no "
        "power of two. The message names the key to change."},
    CodeInfo{
        "NQD1402", "data and model do not fit together",
        "The config has no data.path, or the token files hold values outside model.vocab, or the "
        "time series have other steps, features or classes than the model. Prepare data with `nqd "
        "data prepare` or `nqd data synthesize` and set data.path; byte-level data needs "
        "model.vocab: 256."},
    CodeInfo{"NQD1403", "the ranks of a host need more memory than it allows",
             "The planned memory of all ranks on one host exceeds its memory, or the limit of its "
             "cgroup. Use fewer ranks a host, a smaller micro-batch, or a smaller model."},
    CodeInfo{"NQD1404", "a command that cannot be supervised",
             "`nqd supervise` starts a run again from its last save, so the command behind -- has "
             "to be a `train` of a config with `--resume auto`."},
    CodeInfo{
        "NQD1405", "hosts that cannot be supervised",
        "`nqd supervise --hosts a:2,b:2 --spares c:2` fills the hosts of each attempt into the "
        "command behind --, which has {hosts} where mpirun -host reads them and {ranks} for "
        "their number of ranks. A host is named once, with 1 to 1024 ranks behind a colon."},
    CodeInfo{"NQD1406", "no mesh for the ranks that are left",
             "`nqd supervise --elastic` asks the planner for a mesh of the hosts that are left, "
             "with the config's model and global batch. None of that many ranks or fewer fits, or "
             "the engine runs none of them."},
    CodeInfo{"NQD1407", "the ranks of a GPU need more memory than is free there",
             "Before anything is allocated, the planned buffers of all ranks on a GPU are compared "
             "with the memory that the driver says is free. Give each rank a GPU of its own, "
             "shard more (zero3, tp), recompute, use a smaller micro-batch, or end what else uses "
             "the GPU."},
    CodeInfo{
        "NQD1410", "a scaling campaign with a count of ranks that cannot be run",
        "`nqd scale` trains one config on every count of --ranks, and checks all of them before "
        "it starts. The message names each count, its regime and the rule that it breaks. Most "
        "often the global batch is no multiple of micro_batch_size · dp: set "
        "train.micro_batch_size lower."},
};

}  // namespace

std::span<const CodeInfo> mesh_codes() { return kTable; }

}  // namespace nqd::codes
