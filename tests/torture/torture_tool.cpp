// What scripts/torture asks of nqd's reader and writer without starting a process each time:
//
//   torture_tool rot ROOT FLIPS PAGES SEED SECONDS
//   torture_tool save FOLDER BYTES FILES
//   torture_tool load FOLDER
//
// Prints one "NAME VALUE" a line; ends with 1 when something throws.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/torture/bit_rot.h"
#include "tests/torture/disk_rate.h"

namespace nqd::testing {
namespace {

void print(const BitRotResult& result) {
  std::cout << "flips " << result.flips << "\npages " << result.pages << '\n';
  for (const std::string& file : result.files) std::cout << "file " << file << '\n';
  for (const std::string& missed : result.missed) std::cout << "missed " << missed << '\n';
}

void print(const DiskRate& rate) {
  std::cout << "bytes " << rate.bytes << "\nsave_s " << rate.save_s << "\nread_back_s "
            << rate.read_back_s << "\ncpu_s " << rate.cpu_s << '\n';
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 6 && words[0] == "rot") {
    print(rot({words[1], std::stoll(words[2]), std::stoll(words[3]), std::stoull(words[4]),
               std::stod(words[5])}));
    return 0;
  }
  if (words.size() == 4 && words[0] == "save") {
    print(measure_save(words[1], std::stoull(words[2]), std::stoi(words[3])));
    return 0;
  }
  if (words.size() == 2 && words[0] == "load") {
    std::cout << "load_s " << measure_load(words[1]) << '\n';
    return 0;
  }
  std::cerr
      << "torture_tool rot ROOT FLIPS PAGES SEED SECONDS | save FOLDER BYTES FILES | load FOLDER\n";
  return 2;
}

}  // namespace
}  // namespace nqd::testing

int main(int argc, char** argv) {
  try {
    return nqd::testing::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
