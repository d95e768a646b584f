#include "engine/cuda/shared_library.h"

#include <dlfcn.h>

namespace nqd::engine::cuda {

SharedLibrary::SharedLibrary(std::initializer_list<std::string> paths) {
  for (const std::string& path : paths) {
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) break;
    if (reason_.empty()) reason_ = dlerror();
  }
  if (handle_ != nullptr) reason_.clear();
}

void* SharedLibrary::find(const char* name) {
  if (handle_ == nullptr) return nullptr;
  void* const found = dlsym(handle_, name);
  if (found == nullptr) reason_ = "no " + std::string(name) + " in the library";
  return found;
}

}  // namespace nqd::engine::cuda
