// NCCL's functions in terms of the library that is found when the first of them is called: the
// program also starts where NCCL is missing, and a newer NCCL is used by naming its folder in
// LD_LIBRARY_PATH. nccl_library() says what was found.
#include <dlfcn.h>
#include <nccl.h>

#include <string>

namespace {

class Library {
 public:
  // Opened once, and for good: communicators may outlive whoever asked first.
  static const Library& get() {
    static const Library library;
    return library;
  }

  void* find(const char* name) const { return handle_ != nullptr ? dlsym(handle_, name) : nullptr; }
  const std::string& reason() const { return reason_; }  // why there is none

 private:
  Library() {
    const std::string name = "libnccl.so." + std::to_string(NCCL_MAJOR);
    // Beside what the loader finds, where the toolkit installs itself.
    for (const std::string& path : {name, "/usr/local/cuda/lib64/" + name}) {
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      if (reason_.empty()) reason_ = dlerror();
    }
  }

  void* handle_ = nullptr;
  std::string reason_;
};

template <auto kDeclared>
auto library_function(const char* name) {
  static const auto found = reinterpret_cast<decltype(kDeclared)>(Library::get().find(name));
  return found;
}

// ncclSystemError where the library, or this function of an older one, is missing.
template <auto kDeclared, typename... Arguments>
ncclResult_t call(const char* name, Arguments... arguments) {
  const auto found = library_function<kDeclared>(name);
  return found != nullptr ? found(arguments...) : ncclSystemError;
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  const auto found = library_function<&ncclGetErrorString>("ncclGetErrorString");
  return found != nullptr ? found(result) : Library::get().reason().c_str();
}
const char* ncclGetLastError(ncclComm_t comm) {
  const auto found = library_function<&ncclGetLastError>("ncclGetLastError");
  return found != nullptr ? found(comm) : Library::get().reason().c_str();
}

ncclResult_t ncclGetVersion(int* version) {
  return call<&ncclGetVersion>("ncclGetVersion", version);
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return call<&ncclGetUniqueId>("ncclGetUniqueId", id);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return call<&ncclCommInitRankConfig>("ncclCommInitRankConfig", comm, ranks, id, rank, config);
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config) {
  return call<&ncclCommSplit>("ncclCommSplit", comm, color, key, part, config);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  return call<&ncclCommGetAsyncError>("ncclCommGetAsyncError", comm, state);
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return call<&ncclCommFinalize>("ncclCommFinalize", comm);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return call<&ncclCommDestroy>("ncclCommDestroy", comm);
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return call<&ncclCommAbort>("ncclCommAbort", comm); }

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  return call<&ncclMemAlloc>("ncclMemAlloc", memory, bytes);
}
ncclResult_t ncclMemFree(void* memory) { return call<&ncclMemFree>("ncclMemFree", memory); }
ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, size_t bytes, void** handle) {
  return call<&ncclCommRegister>("ncclCommRegister", comm, memory, bytes, handle);
}
ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  return call<&ncclCommDeregister>("ncclCommDeregister", comm, handle);
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call<&ncclAllReduce>("ncclAllReduce", in, out, count, type, op, comm, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return call<&ncclAllGather>("ncclAllGather", in, out, count, type, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call<&ncclReduceScatter>("ncclReduceScatter", in, out, count, type, op, comm, stream);
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return call<&ncclReduce>("ncclReduce", in, out, count, type, op, root, comm, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return call<&ncclBroadcast>("ncclBroadcast", in, out, count, type, root, comm, stream);
}
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call<&ncclSend>("ncclSend", in, count, type, peer, comm, stream);
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call<&ncclRecv>("ncclRecv", out, count, type, peer, comm, stream);
}
ncclResult_t ncclGroupStart() { return call<&ncclGroupStart>("ncclGroupStart"); }
ncclResult_t ncclGroupEnd() { return call<&ncclGroupEnd>("ncclGroupEnd"); }
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return call<&ncclGroupSimulateEnd>("ncclGroupSimulateEnd", info);
}

}  // extern "C"
