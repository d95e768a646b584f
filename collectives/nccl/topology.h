// Where the GPUs of a job are, and how far from each other and from the network adapters: what the
// driver's management library (NVML, opened when it is there) and sysfs say.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "collectives/communicator.h"
#include "collectives/device/device_api.h"

namespace nqd::collectives {

// The device of one rank. Numbers are -1, and texts empty, where nobody says.
struct DeviceRecord {
  int rank = 0;
  std::string host;
  int ordinal = 0;  // among the devices that the rank sees
  std::string uuid;
  std::string name;
  std::string bus_id;
  std::string driver;  // "580.65.06"
  int numa_node = -1;
  int pcie_generation = -1;  // of the link as it is now
  int pcie_width = -1;       // lanes
  int nvlinks = -1;          // active
  // To the device of every rank, by rank, in the words of `nvidia-smi topo`: "X" itself, "NVL" over
  // NVLink, "PIX" one PCIe switch, "PXB" several, "PHB" the host bridge, "NODE" within a NUMA node,
  // "SYS" between them, "NET" on another host; "?" unknown.
  std::vector<std::string> peers;
  std::vector<std::pair<std::string, std::string>> adapters;  // "mlx5_0": "PIX"
};

// Collective over `world`. Every rank's record, by rank. Never throws for what is missing.
std::vector<DeviceRecord> gather_devices(Communicator& world, DeviceApi& device, int ordinal,
                                         const SystemRoots& roots);

// Of the devices of one host: "4 GPUs, 6 pairs: 4 NVL, 2 SYS".
std::string pairs_text(const std::vector<DeviceRecord>& devices);

// The relation of two PCI devices by their paths below sys/devices ("pci0000:15/0000:15:01.0/…")
// and NUMA nodes (-1 unknown): "PIX", "PXB", "PHB", "NODE" or "SYS".
std::string pci_relation(std::string_view a, int numa_a, std::string_view b, int numa_b);

}  // namespace nqd::collectives
