#include "base/codes.h"

#include <algorithm>
#include <array>

namespace nqd {
namespace {

constexpr std::array kCodes = {
    // 1000: YAML and typed values
    CodeInfo{"NQD1001", "config file cannot be read",
             "The path given does not name a readable file. Check the spelling and permissions."},
    CodeInfo{"NQD1002", "YAML syntax",
             "The text is not YAML. The place is where the parser gave up, which may be a line "
             "after the mistake. Keys of one section start in the same column, each is "
             "followed by a colon and a space, and a value that itself contains a colon is "
             "quoted."},
    CodeInfo{"NQD1003", "empty config",
             "The file holds nothing but comments or blank lines. The smallest config is "
             "`model: {preset: gpt2-124m}`."},
    CodeInfo{"NQD1004", "not a mapping",
             "A config file, and each section in it, is a mapping of `key: value` lines. A "
             "single value or a list stands where a mapping belongs; for a preset write "
             "`model: {preset: NAME}`."},
    CodeInfo{"NQD1005", "unknown section",
             "The sections of a config are model, cluster, parallel, train and data. Anything "
             "else is refused rather than ignored, since an ignored setting is a run that "
             "nobody asked for."},
    CodeInfo{"NQD1006", "unknown key",
             "The section has no such key. Unknown keys are refused rather than ignored, since "
             "a misspelt setting would silently take its default. `nqd schema reference` lists "
             "every key."},
    CodeInfo{"NQD1007", "duplicate key",
             "A key is given twice in one section. YAML readers silently keep one of the two, "
             "and not all the same one. Keep the value that you mean."},
    CodeInfo{"NQD1008", "wrong type",
             "The value has another type than the key needs. Quotes make a text: \"8\" is not "
             "the number 8."},
    CodeInfo{"NQD1009", "value out of range",
             "The value has the right type but lies outside what the key accepts. The message "
             "shows the range and the nearest legal value."},
    CodeInfo{"NQD1010", "not one of the choices",
             "The key accepts a fixed list of words, which the message shows."},
    CodeInfo{"NQD1011", "calibration file not usable",
             "The file named by `--cluster` or `cluster: {calibration: FILE}` is unreadable or "
             "is not what `nqd calibrate` writes. It is read strictly, since a rate that is "
             "wrong by a unit makes every prediction wrong. Paths are relative to the folder "
             "in which nqd runs."},
    CodeInfo{"NQD1012", "unknown preset",
             "There is no shipped preset of that name. `nqd schema reference` lists them; "
             "without a preset, write the values themselves."},
    CodeInfo{"NQD1013", "not a quantity",
             "A size, bandwidth, rate or duration is a plain number in the base unit or a "
             "number with a unit, such as 25 MB (10^6), 64 MiB (2^20), 450 GB/s, 400 Gb/s "
             "(bits), 989 TFLOP/s or 3 us. Letter case matters: GB are bytes, Gb are bits."},
    CodeInfo{"NQD1014", "required key missing",
             "The model cannot be planned without the keys that the message names. Add them or "
             "start from a preset."},
    CodeInfo{"NQD1015", "malformed override",
             "`--set` takes KEY=VALUE with the dotted path of a key, such as `--set "
             "train.steps=50`."},
    CodeInfo{"NQD1016", "unknown key in an override",
             "`--set` names a key that does not exist. Use its full dotted path, such as "
             "parallel.tp; `nqd schema reference` lists every key."},
    CodeInfo{"NQD1017", "number not finite",
             "Infinity and NaN are no settings. A rate or size that is not known is left out."},
    CodeInfo{"NQD1018", "indented with tabs",
             "YAML does not allow tabs in indentation, since their width is not defined. "
             "Indent with spaces."},
    CodeInfo{"NQD1019", "YAML feature not supported",
             "Anchors (&), aliases (*), merge keys (<<) and tags (!) are refused: they make a "
             "value come from somewhere else than the line on which it is read. Presets and "
             "`--set` do their work with a named origin."},
    CodeInfo{"NQD1020", "model without preset or shape",
             "The model section gives neither a preset nor a shape. A GPT-like model needs "
             "layers, hidden, heads, vocab and sequence; a model of family state needs "
             "parameters."},
    CodeInfo{"NQD1021", "key does not apply to this model family",
             "A gpt model is given by its shape and its parameters are counted; a state model "
             "is known by its parameter count alone, so a shape would be ignored. Remove the "
             "key or change the family."},
    CodeInfo{"NQD1022", "YAML 1.1 boolean",
             "yes, no, on and off are booleans to some YAML readers and text to others. nqd "
             "accepts true and false alone."},
    CodeInfo{"NQD1023", "integer written as a float",
             "1e3 and 8.0 are floating-point numbers in YAML. Write the integer with all its "
             "digits."},
    CodeInfo{"NQD1024", "config too large or too deep",
             "A config is at most 1 MiB and nested at most 16 deep. The file is probably not a "
             "config."},
    CodeInfo{"NQD1025", "more than one YAML document",
             "A `---` line starts a second document, which nqd would have to ignore. Use one "
             "file a config."},
    CodeInfo{"NQD1026", "not UTF-8 text",
             "The file holds bytes that are not UTF-8 text: it may be a binary file or be "
             "saved in another encoding."},
    CodeInfo{"NQD1027", "key belongs in another section",
             "The section has no such key, but another one has. The hint says which."},
    CodeInfo{"NQD1028", "no model",
             "Nothing can be planned without a model section. The smallest is `model: {preset: "
             "gpt2-124m}`."},
    CodeInfo{"NQD1029", "key without a value",
             "The key is followed by nothing, or by null. Write a value, or remove the key to "
             "take its default."},
    CodeInfo{"NQD1030", "not an axis of a plan",
             "`nqd search --fix` and `--why` take a list such as tp=8,pp=4,engine=zero1. Its keys "
             "are those of a plan in the JSON document, its values those of a config file."},
    CodeInfo{"NQD1031", "findings left out",
             "Only the first 50 findings of a file are shown. Mend those, and run the command "
             "again."},
    CodeInfo{"NQD1032", "no such code",
             "`nqd explain` knows the codes that nqd prints, such as NQD1203. Without a code "
             "it lists them all."},
    CodeInfo{"NQD1033", "keys of the model disagree",
             "Each key is possible, but not with the others: more experts a token than there are, "
             "half of the keys of multi-head latent attention, patches that do not tile a picture. "
             "The message says which."},
    CodeInfo{"NQD1034", "not a sweep",
             "`nqd search --sweep` takes a key of the config file and its values, such as "
             "nodes=8,16,32 or model.sequence=8192,32768. A key without dots stands for the one "
             "path that ends in it; where several do, write the whole path."},
    CodeInfo{"NQD1090", "figures that do not go together",
             "Each flag of the calculation is right by itself, and together they describe nothing: "
             "ranks that do not fill nodes, a cost without a price. The message says which."},
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
    CodeInfo{"NQD1220", "minimum learning rate above the peak",
             "The cosine decay would raise the rate."},
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
    CodeInfo{"NQD1224", "mesh too large", "nqd plans for up to 1,048,576 ranks."},
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
        "NQD1305", "a calibrated curve is used beyond its measured sizes",
        "The payload of a collective lies outside the sweep that was measured. The nearest piece "
        "of the curve is continued, which may be far off where the algorithm changes."},
    CodeInfo{"NQD1306", "the step time is unknown",
             "A rate that the time depends on is not given: the matrix product rate, the memory "
             "bandwidth, or the bandwidth of a link. nqd prints no partial time."},
    CodeInfo{
        "NQD1307", "the plan fits with little to spare",
        "The plan counts tensors. The device context, the allocator's fragmentation and library "
        "workspaces come on top, commonly 0.5 to 2 GB."},
    CodeInfo{"NQD1308", "a calibrated rate is far below the stated peak",
             "The matrix product rate of the calibration is below 5 % of cluster.peak_flops. Most "
             "likely one machine was measured and another one planned, such as a CPU host for a "
             "GPU cluster; every predicted time then describes neither."},
    CodeInfo{"NQD1310", "batch above the gradient noise scale",
             "Beyond the gradient noise scale a larger batch hardly makes a step better: the same "
             "loss needs more samples, so that more GPU-hours buy less time than they cost "
             "(McCandlish et al. 2018). Lower train.global_batch_size, or keep it where time is "
             "worth more than money."},
    CodeInfo{"NQD1311", "storage is slower than the run reads",
             "At the planned step time a node reads more bytes a second than its storage "
             "delivers (cluster.ingest_bytes_per_s), so that ranks wait for input. Keep the data "
             "on local disks, compress it, or use fewer ranks."},
    CodeInfo{"NQD1401", "the engine cannot run this config yet",
             "`nqd mesh-plan` plans more than `nqd train` runs: the engine runs a gpt model in "
             "float32 with data parallelism. The message names the key to change."},
    CodeInfo{
        "NQD1402", "data and model do not fit together",
        "The config has no data.path, or the token files hold values outside model.vocab. Prepare "
        "data with `nqd data prepare` and set data.path; byte-level data needs model.vocab: 256."},
    CodeInfo{"NQD1403", "the ranks of a host need more memory than it allows",
             "The planned memory of all ranks on one host exceeds its memory, or the limit of its "
             "cgroup. Use fewer ranks a host, a smaller micro-batch, or a smaller model."},
    // 2000: files and data
    CodeInfo{"NQD2001", "input file cannot be read",
             "The file is missing, a folder, or not readable by this user."},
    CodeInfo{"NQD2002", "output cannot be written",
             "nqd opens every output before it starts work, so that a long run is not lost at its "
             "end. Give a path in a folder that exists and that this user may write."},
    CodeInfo{
        "NQD2003", "nothing to prepare",
        "`nqd data prepare` found no file with content. Give text files, or a folder that holds "
        "some; sub-folders are not entered."},
    CodeInfo{
        "NQD2004", "not enough text for two splits",
        "The held-out text must never be seen in training, so it is whole files, or the end of "
        "a single file after a line end. What was given cannot be divided that way: give more "
        "files, a longer text, or a smaller --heldout-fraction."},
    CodeInfo{"NQD2005", "token file damaged or foreign",
             "The file is empty, truncated, of another format, or its content no longer has the "
             "SHA-256 that its header states. Training on it would give figures that nobody can "
             "reproduce. Write it again with `nqd data prepare`."},
    CodeInfo{"NQD2006", "dataset index missing or damaged",
             "dataset.json describes the token files beside it; without it nqd does not know what "
             "they hold. Write the dataset again with `nqd data prepare --output FOLDER`."},
    CodeInfo{
        "NQD2007", "dataset shorter than one sequence",
        "A sample is model.sequence tokens and the one that follows. Prepare more text or lower "
        "model.sequence."},
    CodeInfo{
        "NQD2008", "held-out share out of range",
        "--heldout-fraction is the share of bytes kept from training: more than 0, so that "
        "there is something to judge by, and less than 1, so that there is something to learn."},
    CodeInfo{"NQD2010", "another run is using the output folder",
             "A run locks its folder, so that two runs do not mix their metrics. Wait for it, or "
             "give another --output-dir. The lock vanishes with the process that holds it."},
    CodeInfo{"NQD2040", "token outside the vocabulary",
             "A token or target of the batch is not below model.vocab, so it has no embedding row. "
             "The token file was prepared for a larger vocabulary than the model has."},
    CodeInfo{"NQD2041", "batch does not fit the model",
             "The model's buffers are laid out for micro_batch_size sequences of model.sequence "
             "tokens; every batch must have exactly that many tokens and targets."},
    CodeInfo{"NQD2060", "a table of published rows is not JSON",
             "validate-model reads tables as JSON; the place is where the text stops being that."},
    CodeInfo{"NQD2061", "JSON that is no table of published rows",
             "A table is an object with a list \"rows\", or that list alone. docs/accuracy.md has "
             "the fields of a row; a row that cannot be represented is no error."},
    CodeInfo{
        "NQD2062", "no constant of that name",
        "Constants are members of GPU, stack and cluster presets. A fit can only free those of "
        "presets that its rows use."},
    CodeInfo{
        "NQD2101", "evidence cannot be read",
        "The file is truncated, no JSON, JSON of another program, an nqd document with a member "
        "missing or of the wrong type, a bench row whose times are not those of its samples, or "
        "one that a newer nqd wrote. The message names the byte or the member. Give the file as "
        "nqd bench, train, calibrate or doctor wrote it."},
    CodeInfo{"NQD2102", "no such algorithm for this collective",
             "nqd runs ring or tree for all_reduce, and one algorithm each for the others; it "
             "prices more (`nqd calc comm`). `library` is MPI_Allreduce, so it needs the mpi "
             "backend, and MPI has no bfloat16. Some algorithms need a power of two of ranks, or "
             "equal nodes."},
    CodeInfo{"NQD2103", "the arguments of a collective do not fit",
             "Input and output must hold the same whole number of elements, a shard must have "
             "the size of chunk_of(total, ranks, rank), a peer must be a rank of the group, and "
             "an average needs a floating type."},
    CodeInfo{"NQD2104", "a bench sweep that cannot be run",
             "The sizes, type, operator, algorithm or iterations given do not make a sweep: sizes "
             "grow from --begin to --end by --factor or --step, and the smallest holds at least "
             "one element."},
    CodeInfo{
        "NQD2105", "a collective that cannot be simulated",
        "`nqd simulate collective` runs nqd's own algorithms over virtual ranks, so it shows "
        "only what nqd can run. Other algorithms have a price (`nqd calc comm`) and no code to "
        "show."},
    CodeInfo{"NQD2201", "nothing to fit a curve to",
             "An alpha-beta curve needs measured times of at least two payload sizes."},
    CodeInfo{
        "NQD2202", "samples measured in two ways",
        "One curve through samples of two transports, element types, operators, hosts, or in place "
        "and out of place describes none of them. Calibrate each way from its own documents into "
        "its own cluster file."},
    CodeInfo{"NQD2203", "nothing to show in a report",
             "The documents hold no rows, steps, curves or checks. Give evidence of nqd bench or "
             "train, or the --json of calibrate or doctor."},
    CodeInfo{"NQD2204", "the output is one of the inputs",
             "`nqd calibrate` and `nqd report` derive a file from documents. Written over one of "
             "them, it would destroy raw samples that cannot be made again."},
    // 3000: environment and launch
    CodeInfo{"NQD2301", "no arguments of Megatron-LM in this script",
             "`nqd import` reads a launch script without running it: variables, arrays and quoting "
             "are followed, programs are not. The script cannot be read, or no command in it has "
             "arguments such as --num-layers. Give the files that it sources before it, and the "
             "variables that it takes from outside with --define NAME=VALUE."},
    CodeInfo{"NQD2302", "not JSON",
             "The text is not JSON from the place shown on. JSON has no comments, no comma after a "
             "last value, and double quotes around every key and text."},
    CodeInfo{"NQD2303", "not TOML",
             "The text is not TOML, or gives a key or section twice. The message is that of the "
             "TOML reader."},
    CodeInfo{"NQD2304", "unknown model",
             "The foreign config names a model whose sizes or layout nqd does not know. Write the "
             "model section yourself, or give a config of one that the message lists."},
    CodeInfo{"NQD2310", "two precisions at once",
             "The foreign config asks for two precisions that exclude each other, or for fp8 "
             "without the 16-bit type that everything else stays in."},
    CodeInfo{"NQD2311", "layers that no stage would get",
             "Megatron-LM divides layers by stages, and stages by virtual stages, and rounds down "
             "both times: with 80 layers, 16 stages and 2 virtual stages of 2 layers it trains 64 "
             "layers and says nothing. Choose sizes that divide, or give the layers of the first "
             "and last stage."},
    CodeInfo{"NQD2312", "batch sizes contradict each other",
             "DeepSpeed's train_batch_size is train_micro_batch_size_per_gpu · "
             "gradient_accumulation_steps · data-parallel ranks. Give two of the three."},
    CodeInfo{"NQD2313", "argument without effect",
             "The foreign tool would accept this argument and then not use it: it needs another "
             "one, or a later one replaces it. What is imported is what the tool would do."},
    CodeInfo{"NQD2314", "not represented",
             "nqd's config has no place for this key of the foreign config. The line says why, and "
             "the written config repeats it as a comment."},
    CodeInfo{"NQD2315", "the imported config is not complete",
             "The foreign files do not say all that a plan needs: a DeepSpeed config says nothing "
             "of the model, and few files say how many ranks there are."},
    CodeInfo{"NQD2316", "known only when the script runs",
             "A branch, a sourced file or the number of nodes depends on something outside of the "
             "script. The first branch is read; --define NAME=VALUE gives a variable a value."},
    CodeInfo{
        "NQD2317", "argument that may be misspelt",
        "The argument is not one that nqd knows, and is close to one that it does. Megatron-LM "
        "stops at a misspelt argument."},
    CodeInfo{"NQD2318", "parameters that are not counted",
             "The model has a few weights beyond those that nqd's shapes count; the message says "
             "which."},
    CodeInfo{"NQD2320", "not expressed",
             "The tool that the config is exported for has no way to say this value. The exported "
             "text leaves it out, or says the nearest that it can, as the line tells."},
    CodeInfo{"NQD3001", "the number of ranks asked for is not the number started",
             "A run on another number of ranks than asked is another experiment, so it does not "
             "start. Start the launcher with that number (mpirun -n N), or ask for what was "
             "started. When MPI itself sees one rank where the launcher says more, the launcher "
             "belongs to another MPI library than nqd was built with."},
    CodeInfo{"NQD3002", "MPI without MPI_THREAD_MULTIPLE",
             "Buckets are reduced by a second thread while the first computes, so nqd needs an "
             "MPI library that allows calls from several threads. Open MPI 4 and MPICH 4 do by "
             "default."},
    CodeInfo{"NQD3003", "launched as several processes without MPI",
             "A launcher started this process as one rank of many, but this build has no MPI to "
             "reach the others. Build with -DNQD_WITH_MPI=ON, or start one process and let its "
             "ranks be threads (--ranks N)."},
    CodeInfo{"NQD3004", "two launchers disagree about rank or world size",
             "The environment holds the variables of two launchers with different numbers, so "
             "one of them is left over from an outer job. `env | grep -E "
             "'OMPI_COMM|PMI_|RANK|SLURM_'` shows them."},
    CodeInfo{"NQD3005", "a collective of one rank",
             "One rank has nobody to exchange data with, so there is no bandwidth to measure. "
             "The usual causes: started without mpirun, or by the mpirun of another MPI library, "
             "which starts N worlds of one rank."},
    CodeInfo{"NQD3006", "MPI cannot be started twice in one process",
             "MPI_Init may be called once in the life of a process. One command runs one world."},
    // 4000: run-time faults
    CodeInfo{"NQD4001", "a rank was lost or failed",
             "A rank of the job died, or reported an error, while others needed it. The message "
             "names the rank and host. Look at that rank's own output first, then at its host: "
             "out of memory kills, hardware."},
    CodeInfo{"NQD4002", "a wait passed its deadline",
             "Some rank did not take part in a collective in time. Ranks whose heartbeat stands "
             "still are named first: they are stopped or their host hangs. A rank with a "
             "heartbeat is merely late, and is named with the call that it is in."},
    CodeInfo{"NQD4003", "writing a file failed",
             "The file system refused the bytes, most often because it is full. The file's earlier "
             "content, if any, is untouched: nqd writes a temporary file and renames it last."},
    CodeInfo{"NQD4004", "a system library failed", "libcrypto could not compute a digest."},
    CodeInfo{"NQD4005", "ranks disagree about a message",
             "A message arrived with another length than its receiver expected: the ranks made "
             "different calls, or the same call with different counts or types."},
    CodeInfo{"NQD4006", "loss or gradient is not finite",
             "The update would have made every weight useless. The weights of the step before were "
             "the last good ones: lower the learning rate, lengthen the warm-up, or look at the "
             "data of that step."},
    CodeInfo{"NQD4010", "the MPI library reported an error",
             "A call into MPI failed. The message holds the library's own text."},
    CodeInfo{"NQD4040", "the matrix library refused a product",
             "oneDNN returned an error instead of a result, most often because memory for its "
             "packed operands could not be had."},
};

}  // namespace

std::span<const CodeInfo> all_codes() { return kCodes; }

const CodeInfo* find_code(std::string_view code) {
  const auto* found = std::find_if(kCodes.begin(), kCodes.end(),
                                   [&](const CodeInfo& info) { return info.code == code; });
  return found == kCodes.end() ? nullptr : found;
}

}  // namespace nqd
