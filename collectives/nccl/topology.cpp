#include "collectives/nccl/topology.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <system_error>

#include "collectives/bench/machine_record.h"

namespace nqd::collectives {
namespace {

// NVML's ABI as far as it is used (NVIDIA, "NVML API Reference Guide"): a device is a pointer,
// results and enumerations are int, 0 is success.
struct NvmlDevice;
constexpr int kNvmlNvLink = 2;       // NVML_P2P_CAPS_INDEX_NVLINK
constexpr unsigned kMostLinks = 18;  // NVML_NVLINK_MAX_LINKS

class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), close) {
    // Where it does not start, every call says so.
    if (const auto init = function<int (*)()>("nvmlInit_v2"); init != nullptr) init();
  }

  NvmlDevice* device(const std::string& bus_id) const {
    const auto find =
        function<int (*)(const char*, NvmlDevice**)>("nvmlDeviceGetHandleByPciBusId_v2");
    NvmlDevice* found = nullptr;
    return find != nullptr && find(bus_id.c_str(), &found) == 0 ? found : nullptr;
  }
  std::string driver() const {
    const auto read = function<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
    std::array<char, 96> text{};
    return read != nullptr && read(text.data(), text.size()) == 0 ? text.data() : "";
  }
  int number(const char* name, NvmlDevice* device) const {
    const auto read = function<int (*)(NvmlDevice*, unsigned*)>(name);
    unsigned value = 0;
    return device != nullptr && read != nullptr && read(device, &value) == 0
               ? static_cast<int>(value)
               : -1;
  }
  int active_links(NvmlDevice* device) const {
    const auto read = function<int (*)(NvmlDevice*, unsigned, int*)>("nvmlDeviceGetNvLinkState");
    if (device == nullptr || read == nullptr) return -1;
    int active = 0;
    for (unsigned link = 0; link < kMostLinks; ++link) {
      int state = 0;
      if (read(device, link, &state) == 0 && state == 1) ++active;
    }
    return active;
  }
  std::string relation(NvmlDevice* a, NvmlDevice* b) const {
    if (a == nullptr || b == nullptr) return "?";
    const auto links =
        function<int (*)(NvmlDevice*, NvmlDevice*, int, int*)>("nvmlDeviceGetP2PStatus");
    int status = -1;
    if (links != nullptr && links(a, b, kNvmlNvLink, &status) == 0 && status == 0) return "NVL";
    const auto ancestor =
        function<int (*)(NvmlDevice*, NvmlDevice*, int*)>("nvmlDeviceGetTopologyCommonAncestor");
    int level = -1;
    if (ancestor == nullptr || ancestor(a, b, &level) != 0) return "?";
    switch (level) {  // nvmlGpuTopologyLevel_t
      case 0:
      case 10:
        return "PIX";
      case 20:
        return "PXB";
      case 30:
        return "PHB";
      case 40:
        return "NODE";
      case 50:
        return "SYS";
      default:
        return "?";
    }
  }

 private:
  static void close(void* library) {
    if (library != nullptr) ::dlclose(library);
  }
  template <typename Function>
  Function function(const char* name) const {
    if (library_ == nullptr) return nullptr;
    return reinterpret_cast<Function>(::dlsym(library_.get(), name));
  }

  std::unique_ptr<void, void (*)(void*)> library_;
};

int number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  int value = -1;
  file >> value;
  return file ? value : -1;
}

// Of a link to a device, from the first "pci" folder on; empty when there is none.
std::string pci_path(const std::filesystem::path& link) {
  std::error_code error;
  const std::string path = std::filesystem::canonical(link, error).string();
  const std::size_t begin = path.find("/pci");
  return error || begin == std::string::npos ? "" : path.substr(begin + 1);
}

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(path)};
  for (std::string part; std::getline(stream, part, '/');) parts.push_back(part);
  return parts;
}

DeviceRecord own_record(int rank, const std::string& host, const Nvml& nvml, DeviceApi& device,
                        int ordinal, const SystemRoots& roots) {
  const DeviceIdentity identity = device.identity(ordinal);
  DeviceRecord mine;
  mine.rank = rank;
  mine.host = host;
  mine.ordinal = ordinal;
  mine.uuid = uuid_text(identity.uuid);
  mine.name = identity.name;
  mine.bus_id = identity.bus_id;
  std::transform(mine.bus_id.begin(), mine.bus_id.end(), mine.bus_id.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  NvmlDevice* const managed = nvml.device(mine.bus_id);
  mine.driver = nvml.driver();
  mine.pcie_generation = nvml.number("nvmlDeviceGetCurrPcieLinkGeneration", managed);
  mine.pcie_width = nvml.number("nvmlDeviceGetCurrPcieLinkWidth", managed);
  mine.nvlinks = nvml.active_links(managed);
  const std::filesystem::path pci = roots.sys / "bus/pci/devices" / mine.bus_id;
  mine.numa_node = number_in(pci / "numa_node");
  const std::string path = pci_path(pci);
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(roots.sys / "class/infiniband", error)) {
    const std::string other = pci_path(entry.path() / "device");
    if (path.empty() || other.empty()) continue;
    mine.adapters.emplace_back(
        entry.path().filename().string(),
        pci_relation(path, mine.numa_node, other, number_in(entry.path() / "device/numa_node")));
  }
  std::sort(mine.adapters.begin(), mine.adapters.end());
  return mine;
}

constexpr char kField = '\x1f';

std::string encode(const DeviceRecord& record) {
  std::ostringstream text;
  for (const std::string& field : {record.uuid, record.name, record.bus_id, record.driver}) {
    text << field << kField;
  }
  text << record.ordinal << kField << record.numa_node << kField << record.pcie_generation << kField
       << record.pcie_width << kField << record.nvlinks << kField;
  for (const auto& [name, relation] : record.adapters) text << name << kField << relation << kField;
  return text.str();
}

DeviceRecord decode(const std::string& text, int rank, const std::string& host) {
  std::vector<std::string> fields;
  std::istringstream stream(text);
  for (std::string field; std::getline(stream, field, kField);) fields.push_back(field);
  DeviceRecord record;
  record.rank = rank;
  record.host = host;
  record.uuid = fields[0];
  record.name = fields[1];
  record.bus_id = fields[2];
  record.driver = fields[3];
  record.ordinal = std::atoi(fields[4].c_str());
  record.numa_node = std::atoi(fields[5].c_str());
  record.pcie_generation = std::atoi(fields[6].c_str());
  record.pcie_width = std::atoi(fields[7].c_str());
  record.nvlinks = std::atoi(fields[8].c_str());
  for (std::size_t i = 9; i + 1 < fields.size(); i += 2) {
    record.adapters.emplace_back(fields[i], fields[i + 1]);
  }
  return record;
}

}  // namespace

std::string pci_relation(std::string_view a, int numa_a, std::string_view b, int numa_b) {
  const std::vector<std::string> one = parts_of(a);
  const std::vector<std::string> two = parts_of(b);
  const auto [end, unused] = std::mismatch(one.begin(), one.end(), two.begin(), two.end());
  const auto shared = static_cast<std::size_t>(end - one.begin());
  if (shared == 0) return numa_a >= 0 && numa_a == numa_b ? "NODE" : "SYS";
  // The first part is the host bridge; behind one switch both hang on ports of its own.
  if (shared == 1) return "PHB";
  const std::size_t deepest = std::max(one.size(), two.size()) - shared;
  return deepest <= 2 ? "PIX" : "PXB";
}

std::string pairs_text(const std::vector<DeviceRecord>& devices) {
  std::map<std::string, int> counts;
  int pairs = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t j = i + 1; j < devices[i].peers.size(); ++j, ++pairs) {
      ++counts[devices[i].peers[j]];
    }
  }
  std::string text = std::to_string(devices.size()) + " GPUs, " + std::to_string(pairs) +
                     (pairs == 1 ? " pair:" : " pairs:");
  for (const auto& [relation, count] : counts) {
    text += (text.back() == ':' ? " " : ", ") + std::to_string(count) + " " + relation;
  }
  return text;
}

std::vector<DeviceRecord> gather_devices(Communicator& world, DeviceApi& device, int ordinal,
                                         const SystemRoots& roots) {
  const Nvml nvml;
  const DeviceRecord mine =
      own_record(world.rank(), world.host(world.rank()), nvml, device, ordinal, roots);
  const std::vector<std::string> texts = gather_texts(world, encode(mine));
  std::vector<DeviceRecord> all;
  for (int rank = 0; rank < world.size(); ++rank) {
    all.push_back(decode(texts[static_cast<std::size_t>(rank)], rank, world.host(rank)));
  }
  // A rank's driver knows the devices of its own host alone.
  std::string relations;
  for (const DeviceRecord& peer : all) {
    const std::string relation = peer.host != mine.host   ? "NET"
                                 : peer.uuid == mine.uuid ? "X"
                                                          : nvml.relation(nvml.device(mine.bus_id),
                                                                          nvml.device(peer.bus_id));
    relations += relation + kField;
  }
  const std::vector<std::string> rows = gather_texts(world, relations);
  for (DeviceRecord& record : all) {
    std::istringstream stream(rows[static_cast<std::size_t>(record.rank)]);
    for (std::string field; std::getline(stream, field, kField);) record.peers.push_back(field);
  }
  return all;
}

}  // namespace nqd::collectives
