#include "base/codes.h"

#include <algorithm>
#include <array>

namespace nqd {
namespace {

constexpr std::array kCodes = {
    // 1000: YAML and typed values
    CodeInfo{"NQD1001", "config file cannot be read",
             "The path given does not name a readable file. Check the spelling and permissions."},
    // 1200: mesh rules
    // 1300: memory and advice
    CodeInfo{"NQD1301", "the plan does not fit into the device's memory",
             "The worst pipeline stage needs more bytes than cluster.memory_bytes. The message names "
             "the largest category; the hint lists changes that were planned in turn and fit. State "
             "(weights, gradients, master, moments) shrinks by sharding (zero1, zero2, zero3), "
             "activations by recomputation or a smaller micro-batch, both by tp and pp."},
    CodeInfo{"NQD1302", "much of the step is pipeline bubble",
             "With p stages and m micro-batches a stage waits (p-1)/(m+p-1) of the step. Raise "
             "global_batch_size, so that m is at least 4p, or use fewer stages, or interleave."},
    CodeInfo{"NQD1303", "only the state of this model is planned",
             "A model of family state gives a parameter count and no shapes: weights, gradients and "
             "optimizer state follow from it, activations and arithmetic do not."},
    CodeInfo{"NQD1304", "the device's memory is unknown",
             "Without cluster.memory_bytes the plan lists bytes but cannot say whether they fit."},
    CodeInfo{"NQD1305", "a calibrated curve is used beyond its measured sizes",
             "The payload of a collective lies outside the sweep that was measured. The nearest piece "
             "of the curve is continued, which may be far off where the algorithm changes."},
    CodeInfo{"NQD1306", "the step time is unknown",
             "A rate that the time depends on is not given: the matrix product rate, the memory "
             "bandwidth, or the bandwidth of a link. nqd prints no partial time."},
    CodeInfo{"NQD1307", "the plan fits with little to spare",
             "The plan counts tensors. The device context, the allocator's fragmentation and library "
             "workspaces come on top, commonly 0.5 to 2 GB."},
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
    CodeInfo{"NQD2040", "token outside the vocabulary",
             "A token or target of the batch is not below model.vocab, so it has no embedding row. "
             "The token file was prepared for a larger vocabulary than the model has."},
    CodeInfo{"NQD2041", "batch does not fit the model",
             "The model's buffers are laid out for micro_batch_size sequences of model.sequence "
             "tokens; every batch must have exactly that many tokens and targets."},
    CodeInfo{"NQD2102", "no such algorithm for this collective",
             "Each collective has the algorithms that collectives/cost.h lists: ring or tree for "
             "all_reduce, one each for the others. `library` is MPI_Allreduce, so it needs the "
             "mpi backend, and MPI has no bfloat16."},
    CodeInfo{"NQD2103", "the arguments of a collective do not fit",
             "Input and output must hold the same whole number of elements, a shard must have "
             "the size of chunk_of(total, ranks, rank), a peer must be a rank of the group, and "
             "an average needs a floating type."},
    // 3000: environment and launch
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
    CodeInfo{"NQD4006", "the MPI library reported an error",
             "A call into MPI failed. The message holds the library's own text."},
};

}  // namespace

std::span<const CodeInfo> all_codes() { return kCodes; }

const CodeInfo* find_code(std::string_view code) {
  const auto* found = std::find_if(kCodes.begin(), kCodes.end(),
                                   [&](const CodeInfo& info) { return info.code == code; });
  return found == kCodes.end() ? nullptr : found;
}

}  // namespace nqd
