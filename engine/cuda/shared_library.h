// A library that is opened when it is first needed, so that the program starts where it is missing.
#pragma once

#include <initializer_list>
#include <string>

namespace nqd::engine::cuda {

class SharedLibrary {
 public:
  // Opens the first of `paths` that can be. It stays open: other code of the process may use it.
  explicit SharedLibrary(std::initializer_list<std::string> paths);

  // Why it cannot be used: what the loader said of the first path, or a function that it lacks.
  // Empty where it can.
  const std::string& reason() const { return reason_; }
  void* handle() const { return handle_; }

  // Sets `function` to the library's of that name, null where there is none.
  template <typename F>
  void load(F& function, const char* name) {
    function = reinterpret_cast<F>(find(name));
  }

 private:
  void* find(const char* name);

  void* handle_ = nullptr;
  std::string reason_;
};

}  // namespace nqd::engine::cuda
