// What a cluster file says that the fabric can do: the measure for verdicts on what it did.
#pragma once

#include <string>

namespace nqd::collectives {

struct FabricPromise {
  std::string source;              // "preset dgx-h100", "cluster.yaml"; empty: nothing is promised
  double adapter_bytes_per_s = 0;  // line rate of one adapter, one direction; 0 = unknown
  int adapters_per_node = 0;       // 0 = unknown
  int gpus_per_node = 0;
  double scale_up_bytes_per_s = 0;  // of one GPU to the others of its node; 0 = unknown
  double oversubscription = 1;

  // 100 Gb/s an adapter: TCP on such links is a fallback, not a choice.
  bool rdma() const { return adapter_bytes_per_s >= 12.5e9; }
  // NVLink of the first generation gave a GPU 80 GB/s a direction, PCIe 4.0 x 16 gives 32.
  bool scale_up() const { return gpus_per_node > 1 && scale_up_bytes_per_s >= 60e9; }
};

}  // namespace nqd::collectives
