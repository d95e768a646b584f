#include <array>

#include "base/codes/tables.h"

namespace nqd::codes {
namespace {

constexpr std::array kTable = {
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
    CodeInfo{
        "NQD2005", "data file damaged or foreign",
        "The file is empty, truncated, of another format, holds a value that it must not, or its "
        "content no longer has the SHA-256 that its header states. Training on it would give "
        "figures that nobody can reproduce. Write it again with `nqd data prepare` or `nqd "
        "data synthesize`."},
    CodeInfo{
        "NQD2006", "dataset index missing or damaged",
        "dataset.json describes the data files beside it; without it nqd does not know what "
        "they hold. Write the dataset again with `nqd data prepare` or `nqd data synthesize`."},
    CodeInfo{
        "NQD2007", "dataset shorter than one sequence",
        "A sample is model.sequence tokens and the one that follows. Prepare more text or lower "
        "model.sequence."},
    CodeInfo{
        "NQD2008", "held-out share out of range",
        "--heldout-fraction is the share of bytes kept from training: more than 0, so that "
        "there is something to judge by, and less than 1, so that there is something to learn."},
    CodeInfo{"NQD2009", "options of synthetic data out of range",
             "Synthetic samples lie in regions, of which some are held out as wholes: there must "
             "be at least two, each with a sample, and a share between 0 and 1."},
    CodeInfo{"NQD2010", "another run is using the folder",
             "A run locks its output folder, checkpoint.path and checkpoint.durable_path, so that "
             "two runs do not mix their metrics or remove one another's checkpoints. Wait for it, "
             "or give other folders. The lock vanishes with the process that holds it."},
    CodeInfo{"NQD2040", "token outside the vocabulary",
             "A token or target of the batch is not below model.vocab (of a time-series encoder, a "
             "class not below model.output_features), so it has no row in the model. The data was "
             "prepared for a larger vocabulary than the model has."},
    CodeInfo{"NQD2041", "batch does not fit the model",
             "The model's buffers are laid out for micro_batch_size sequences of model.sequence "
             "tokens or time steps; every batch must have exactly that many inputs and targets."},
    CodeInfo{"NQD2050", "the store of weights and gradients was misused",
             "The part of the program that runs a training step asked for weights or gave "
             "gradients in an order that cannot be right: more micro-batches than a step has, a "
             "unit released that was not acquired, groups of another size than the mesh. It is a "
             "fault of nqd; please report it with the config."},
    CodeInfo{"NQD2060", "a table of published rows is not JSON",
             "validate-model reads tables as JSON; the place is where the text stops being that."},
    CodeInfo{"NQD2061", "JSON that is no table of published rows",
             "A table is an object with a list \"rows\", or that list alone. docs/accuracy.md has "
             "the fields of a row; a row that cannot be represented is no error."},
    CodeInfo{
        "NQD2062", "no constant of that name",
        "Constants are members of GPU, stack and cluster presets. A fit can only free those of "
        "presets that its rows use."},
    CodeInfo{"NQD2070", "not a safetensors file",
             "The file is truncated, another format, or its header contradicts itself or the "
             "file's length; the message names the tensor. Nothing was read from it."},
    CodeInfo{"NQD2071", "weights that do not fit the model",
             "A tensor of the model is missing in the files, has another shape or type there, or "
             "the files have a tensor that the model does not: training would start from something "
             "else than these weights. `nqd import --from hf config.json` writes the model section "
             "that they have."},
    CodeInfo{"NQD2072", "a model without a Hugging Face form",
             "nqd reads and writes the weights of GPT-2 (LayerNorm, learned positions, biases) and "
             "of Llama (RMSNorm, rotary positions, gated MLP; with biases of queries, keys and "
             "values it is Qwen2). The model section describes neither."},
    CodeInfo{"NQD2073", "config.json of another model",
             "The config.json beside the weights has other sizes than the model section, or a "
             "function that nqd's engine does not compute: another activation, epsilon of the "
             "norms, base or scaling of the rotary positions, or a window of attention. The "
             "weights would give other outputs than in transformers."},
    CodeInfo{"NQD2080", "no complete checkpoint generation",
             "A generation counts once its manifest does, which is written last: this folder has "
             "none, or one that contradicts itself. A save that was cut short leaves such a "
             "folder; the generation before it is whole. `nqd checkpoint list` shows all."},
    CodeInfo{"NQD2081", "a checkpoint of a newer format",
             "The manifest says a format version that this nqd does not know. Older versions are "
             "always read."},
    CodeInfo{"NQD2082", "a checkpoint is damaged",
             "Bytes on the disk are not those that were written: every block of a megabyte has a "
             "checksum, and the manifest has a digest. The message names file, bytes and the "
             "tensors that lie there. Nothing was loaded from it."},
    CodeInfo{"NQD2083", "a file of a checkpoint is missing or cut",
             "The manifest lists a file that is not in the folder, or has another length."},
    CodeInfo{"NQD2084", "a checkpoint of another run",
             "The model, the data, the seed, the global batch or the arithmetic of the config are "
             "not those of the checkpoint, so that training would not go on but become another "
             "run. The message lists each with both values; --allow-changed names those that may "
             "differ."},
    CodeInfo{"NQD2085", "checkpoints of another run",
             "A run that starts anew, or goes on from a generation of another run, would write its "
             "generations among those of an earlier one and move LATEST to them."},
    CodeInfo{
        "NQD2086", "one folder for generations and their copies",
        "checkpoint.durable_path is where complete generations are copied to. It is the folder "
        "that the run saves to, so that a copy would overwrite what it reads."},
    CodeInfo{
        "NQD2101", "evidence cannot be read",
        "The file is truncated, no JSON, JSON of another program, an nqd document with a member "
        "missing or of the wrong type, a bench row whose times are not those of its samples, or "
        "one that a newer nqd wrote. The message names the byte or the member. Give the file as "
        "nqd bench, train, calibrate or doctor wrote it, or loss curves as docs/evidence.md says."},
    CodeInfo{"NQD2102", "no such algorithm for this collective",
             "nqd runs ring or tree for all_reduce, and one algorithm each for the others; it "
             "prices more (`nqd calc comm`). `library` is the MPI library's own, so it needs "
             "the mpi backend, and MPI reduces no bfloat16. Some algorithms need a power of two of "
             "ranks, or "
             "equal nodes. Canonical numerics leave only those that add in one fixed tree: direct, "
             "pairwise, and some others for float32 and float64."},
    CodeInfo{"NQD2103", "the arguments of a collective do not fit",
             "Input and output must hold the same whole number of elements, a shard must have "
             "the size of chunk_of(total, ranks, rank), a peer must be a rank of the group, and "
             "an average needs a floating type. The contributions of a canonical sum belong to one "
             "rank each, without gaps, and are all added before it starts."},
    CodeInfo{"NQD2104", "a bench sweep that cannot be run",
             "The sizes, type, operator, algorithm or iterations given do not make a sweep: sizes "
             "grow from --begin to --end by --factor or --step, and the smallest holds at least "
             "one element."},
    CodeInfo{
        "NQD2105", "a collective that cannot be simulated",
        "`nqd simulate collective` runs nqd's own algorithms over virtual ranks, so it shows "
        "only what nqd can run. Other algorithms have a price (`nqd calc comm`) and no code to "
        "show."},
    CodeInfo{"NQD2106", "a row that nccl-tests does not print",
             "A line begins like a row of nccl-tests' table, and goes on otherwise: a column is "
             "missing, added or no number. The message has line and column. A row that the text "
             "ends in, or that another line was torn into, is left out without an error."},
    CodeInfo{"NQD2107", "nothing here to diagnose",
             "`nqd diagnose` reads tables and JSON of nccl-tests, logs made with NCCL_DEBUG=INFO, "
             "and evidence of `nqd bench`. The file holds none of them."},
    CodeInfo{
        "NQD2108", "a table that cannot calibrate",
        "A curve belongs to a collective and a number of ranks. Versions of nccl-tests before "
        "2.16.7 do not print the collective's name, and the device lines give the ranks: keep the "
        "command line and the header. One rank exchanges nothing."},
    CodeInfo{
        "NQD2109", "a file of thresholds cannot be read",
        "`nqd bench --expect` reads YAML or JSON: expect, a list of entries with a collective, "
        "an optional algorithm, min_bytes and max_bytes, and min_busbw_gbps or max_p50_s or "
        "both. The message names the file, the line and the column."},
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
};

}  // namespace

std::span<const CodeInfo> files_codes() { return kTable; }

}  // namespace nqd::codes
