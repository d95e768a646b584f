#include <array>

#include "base/codes/tables.h"

namespace nqd::codes {
namespace {

constexpr std::array kTable = {
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
             "and last stage. A pipeline layout has a multiple of pp stages, several only with a "
             "pipeline, and as many layers as --num-layers says."},
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
             "A launcher started this process as one rank of many, but it has no MPI to reach the "
             "others: torchrun brings none, and a build may be without. Processes of one host meet "
             "by a file with `nqd train --rendezvous file:PATH`; those of several need "
             "-DNQD_WITH_MPI=ON and mpirun (or srun with PMI); or start one process and let its "
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
    CodeInfo{"NQD3007", "the backend asked for cannot run here",
             "local runs ranks as threads of one process, so not under a launcher; mpi and shm run "
             "the processes that a launcher started, shm only those of one host that share memory; "
             "nqd train --backend nccl carries messages between GPUs (--device cuda). auto takes "
             "what fits. With --rendezvous file:PATH ranks meet by that file, on one host, and run "
             "on shm: RANK and WORLD_SIZE, or a launcher's own variables, say which rank a process "
             "is. PATH is one job's alone, and what is there is replaced only if an earlier "
             "meeting left it."},
    CodeInfo{"NQD3008", "mpirun could not be started",
             "`nqd parity` runs some of its cells as processes under mpirun, and `nqd scale "
             "--launcher mpirun` all of its points. Install Open MPI or MPICH, or pass --launcher "
             "threads."},
    CodeInfo{"NQD3040", "the matrix kernel asked for cannot run here",
             "NQD_GEMM_KERNEL forces one of the kernels of canonical numerics: portable (any CPU), "
             "avx2 or avx512. All give the same bits. Unset it to let the CPU choose."},
    CodeInfo{"NQD3050", "the canary found a slow device or link",
             "`nqd train --canary` times products, memory and messages of every rank before the "
             "first step. The message names what is slower than its peers, or than the "
             "calibration, and canary.json in the run's folder has the figures. Every step waits "
             "for the slowest rank: mend it, or leave that host out."},
    CodeInfo{"NQD3060", "the CUDA device asked for cannot be used",
             "This build has no CUDA (NQD_WITH_CUDA), there is no device of that number, or no "
             "driver that sees one. CUDA_VISIBLE_DEVICES hides devices and counts the others from "
             "0. `nqd doctor` lists what is there. Ranks on CPUs need none."},
    CodeInfo{
        "NQD3061", "cuBLASLt cannot be used",
        "Matrix products in fast numerics on a GPU are those of cuBLASLt, which is opened when "
        "a run starts. It was not found, or is another version than the one that nqd was "
        "built for. Install the toolkit's libraries, or set LD_LIBRARY_PATH."},
    CodeInfo{
        "NQD3062", "a shape that a CUDA kernel does not take",
        "Attention on a GPU takes heads of at most 256 columns, a canonical product at most 15 "
        "slices of a rank, and a launch at most 2^31 - 1 blocks. The message says which limit "
        "it is."},
    CodeInfo{"NQD3063", "ranks share a GPU",
             "NCCL takes one rank a GPU (several from 2.30 on, with NCCL_MULTI_RANK_GPU_ENABLE=1). "
             "The message names the ranks and the GPU, by UUID. Start as many ranks on a host as "
             "it has GPUs, and let each see its own: all GPUs visible to all ranks, or "
             "CUDA_VISIBLE_DEVICES set by local rank. Backends that stage through the host let "
             "ranks share one."},
    CodeInfo{"NQD3064", "NCCL cannot be used",
             "The nccl backend needs a build with NQD_WITH_NCCL, and the same version of the "
             "library on all hosts. The message says what is missing, or which rank differs."},
    // 4000: run-time faults
    CodeInfo{"NQD4001", "a rank was lost or failed",
             "A rank of the job died, or reported an error, while others needed it. The message "
             "names the rank and host. Look at that rank's own output first, then at its host: "
             "out of memory kills, hardware."},
    CodeInfo{"NQD4002", "a wait passed its deadline",
             "Some rank did not take part in a collective in time. Ranks whose heartbeat stands "
             "still are named first: they are stopped or their host hangs. A rank with a "
             "heartbeat is merely late, and is named with the call that it is in. Or ranks that "
             "meet by a file (--rendezvous) did not all come to it."},
    CodeInfo{"NQD4003", "writing a file failed",
             "The file system refused the bytes, most often because it is full. The file's earlier "
             "content, if any, is untouched: nqd writes a temporary file and renames it last."},
    CodeInfo{
        "NQD4004", "a system library failed",
        "The digest that identifies a config (SHA-256, of libcrypto) could not be computed: the "
        "library refused it, as builds restricted to approved algorithms do, or memory ran out. "
        "Nothing was written. Try without OPENSSL_CONF, and look at `openssl dgst -sha256`."},
    CodeInfo{"NQD4005", "ranks disagree about a message",
             "A message arrived with another length than its receiver expected, or belongs to "
             "another call: the ranks made different calls, or the same call with different counts "
             "or types. --check-calls compares all calls and names the rank that differs."},
    CodeInfo{
        "NQD4006", "loss or gradient is not finite",
        "guard.max_skips steps in a row were skipped, because their update would have made "
        "every weight useless (or, with guard.spike_score, their loss was far above the usual). "
        "Lower the learning rate, lengthen the warm-up, or look at the data of these steps. "
        "With guard.roll_back the run goes back to its last generation and on without these "
        "batches, guard.max_roll_backs times."},
    CodeInfo{"NQD4010", "the MPI library reported an error",
             "A call into MPI failed. The message holds the library's own text."},
    CodeInfo{
        "NQD4011", "memory of another rank cannot be reached",
        "A direct collective, or a long message of the shm backend, maps shared buffers of the "
        "other ranks of a host, or reads their "
        "private memory (process_vm_readv). It worked when the group was made and fails now: "
        "most often this process has run out of memory, mappings or open files."},
    CodeInfo{"NQD4012", "NCCL reported an error",
             "A call into NCCL failed, or its asynchronous error said so. The message has the "
             "rank, the call and NCCL's own text; the communicator has been aborted. When another "
             "rank was lost, NQD4001 names it instead."},
    CodeInfo{"NQD4020", "a checkpoint did not read back",
             "What a save wrote and synced came back from the disk as something else. LATEST still "
             "names the generation before it."},
    CodeInfo{"NQD4021", "a save was given up",
             "The run ended while a checkpoint was being written. It does not count; the "
             "generation before it is whole."},
    CodeInfo{"NQD4022", "a checkpoint was not copied",
             "A file of a complete generation could not be read, or is not as it was written, when "
             "it was to be copied to checkpoint.durable_path. LATEST there still names the copy "
             "before it. The message names the file and the bytes."},
    CodeInfo{"NQD4040", "the matrix library refused a product",
             "oneDNN returned an error instead of a result, most often because memory for its "
             "packed operands could not be had."},
    CodeInfo{"NQD4041", "a product's slices do not fit it",
             "Canonical numerics adds the slices of a product in one binary tree, so the slices of "
             "a rank must be a node of that tree and cover its part of k: numerics.tp_slices a "
             "multiple of tp, both best powers of two."},
    CodeInfo{"NQD4050", "a run of a campaign under mpirun failed",
             "`nqd scale --launcher mpirun` starts each run as processes of its own; one of them "
             "ended with a fault. The message ends with what it said. Nothing was written: a "
             "campaign is whole or absent."},
    CodeInfo{"NQD4051", "a command was stopped by a signal",
             "SIGINT or SIGTERM came while `nqd parity` or `nqd scale` was running. Its runs were "
             "ended, its temporary files removed, and nothing was written. Or SIGTERM or SIGUSR1 "
             "came while `nqd train --rendezvous` waited for other ranks, before the first step."},
    CodeInfo{"NQD4060", "a call into CUDA failed",
             "The message names the call, the runtime's error, the rank, the device and the line. "
             "The process can go on using the device."},
    CodeInfo{"NQD4061", "a CUDA context is lost",
             "A kernel read or wrote where nothing is, or the device failed: every later call of "
             "this process returns the same error. Kernels run after the call that starts them, so "
             "the one that the message names may not be the one at fault: CUDA_LAUNCH_BLOCKING=1 "
             "or compute-sanitizer finds it."},
    CodeInfo{"NQD4062", "out of device memory",
             "An allocation on a GPU failed, also after the pool gave back what it kept. The "
             "message shows what is free, what this rank holds, and what the plan had foreseen; "
             "other processes on the device count too."},
    CodeInfo{
        "NQD4063", "a step cannot be recorded as a CUDA graph",
        "From its second step on a run on one GPU repeats forward and backward passes from "
        "recordings. The driver, or a library that computes products, refused one; the message "
        "ends with its word. `nqd train --no-graph` starts every operation by itself."},
};

}  // namespace

std::span<const CodeInfo> run_codes() { return kTable; }

}  // namespace nqd::codes
