// The corpus through the fuzzers' entries, in every build: fuzz_corpus FOLDER.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"
#include "tests/fuzz/entries.h"

int main(int argc, char** argv) {
  using Entry = void (*)(std::string_view);
  const std::map<std::string, Entry> entries = {{"config", nqd::fuzz::config},
                                                {"megatron", nqd::fuzz::megatron},
                                                {"deepspeed", nqd::fuzz::deepspeed},
                                                {"hf", nqd::fuzz::hf},
                                                {"torchtitan", nqd::fuzz::torchtitan},
                                                {"published", nqd::fuzz::published},
                                                {"nccl_log", nqd::fuzz::nccl_log},
                                                {"safetensors", nqd::fuzz::safetensors},
                                                {"weights_config", nqd::fuzz::weights_config},
                                                {"weights_index", nqd::fuzz::weights_index}};
  if (argc != 2) return 2;
  int failures = 0;
  for (const auto& [name, entry] : entries) {
    int files = 0;
    for (const auto& file :
         std::filesystem::directory_iterator(std::string(argv[1]) + "/" + name)) {
      ++files;
      try {
        entry(nqd::read_file(file.path()));
      } catch (const std::exception& error) {
        std::printf("%s: %s\n", file.path().c_str(), error.what());
        ++failures;
      }
    }
    std::printf("%s: %d files\n", name.c_str(), files);
    if (files == 0) ++failures;
  }
  return failures == 0 ? 0 : 1;
}
