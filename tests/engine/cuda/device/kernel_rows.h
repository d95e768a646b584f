// What nqd_kernel_bench has measured, and how it says so.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace nqd::tests {

struct Row {
  std::string name;
  std::string shape;
  double work;  // bytes or operations of a call
  double seconds;

  double rate() const { return work / seconds; }
};

struct KernelRows {
  std::vector<Row> passes;  // the first is a copy
  std::vector<Row> products;

  double copy_rate() const { return passes.front().rate(); }
};

inline void print_json(const std::string& device, const std::string& attention,
                       const KernelRows& rows) {
  std::printf("{\"device\": \"%s\", \"attention\": \"%s\", \"copy_bytes_per_s\": %.6g,\n",
              device.c_str(), attention.c_str(), rows.copy_rate());
  const auto print = [&](const char* name, const std::vector<Row>& all, const char* work) {
    std::printf(" \"%s\": [", name);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Row& row = all[i];
      std::printf(
          "%s\n  {\"name\": \"%s\", \"shape\": \"%s\", \"%s\": %.0f, \"seconds\": %.6g, "
          "\"%s_per_s\": %.6g",
          i == 0 ? "" : ",", row.name.c_str(), row.shape.c_str(), work, row.work, row.seconds, work,
          row.rate());
      if (&all == &rows.passes) {
        std::printf(", \"share_of_copy\": %.4g", row.rate() / rows.copy_rate());
      }
      std::printf("}");
    }
    std::printf("]");
  };
  print("passes", rows.passes, "bytes");
  std::printf(",\n");
  print("products", rows.products, "operations");
  std::printf("}\n");
}

inline void print_table(const KernelRows& rows) {
  for (const Row& row : rows.passes) {
    std::printf("%-30s %-26s %12.3f us %9.2f GB/s %6.1f %% of a copy\n", row.name.c_str(),
                row.shape.c_str(), 1e6 * row.seconds, 1e-9 * row.rate(),
                100 * row.rate() / rows.copy_rate());
  }
  for (const Row& row : rows.products) {
    std::printf("%-30s %-26s %12.3f us %9.2f TFLOP/s\n", row.name.c_str(), row.shape.c_str(),
                1e6 * row.seconds, 1e-12 * row.rate());
  }
}

}  // namespace nqd::tests
