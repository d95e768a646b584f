// The hosts that a supervised run is placed on, and those that may take the place of one.
#pragma once

#include <string>
#include <vector>

namespace nqd::cli {

struct HostSlots {
  std::string name;
  int slots = 1;  // ranks
};

// "a:2,b" of a flag. Throws Error (kUsage, NQD1405) for an empty name, one that is there twice, or
// slots that are no number from 1 to 1024.
std::vector<HostSlots> parse_hosts(const std::string& flag, const std::string& text);

// Whether the name that a host gives itself is this one: equal, or with a domain behind it.
bool is_host(const std::string& listed, const std::string& reported);

class HostPool {
 public:
  // Throws Error (kUsage, NQD1405) for a spare that is one of the hosts.
  HostPool(std::vector<HostSlots> hosts, std::vector<HostSlots> spares);

  // What the next attempt has.
  const std::vector<HostSlots>& hosts() const { return hosts_; }
  int slots() const;
  std::string text() const;  // "a:2,b:2", as mpirun -host reads it
  const std::vector<std::string>& left_out() const { return left_out_; }

  // The listed name of a host that the run is on; empty for another.
  std::string listed(const std::string& reported) const;
  // Whether `ranks` ranks have room once the host is left out and spares have taken its place.
  bool can_spare(const std::string& name, int ranks) const;
  // Leaves a listed host out. Spares, in their order, take its place until `ranks` ranks have room.
  void leave_out(const std::string& name, int ranks);

 private:
  std::vector<HostSlots> hosts_;
  std::vector<HostSlots> spares_;
  std::vector<std::string> left_out_;
};

// A command with every "{hosts}" and "{ranks}" filled in.
std::vector<std::string> filled_in(const std::vector<std::string>& command, const HostPool& pool,
                                   int ranks);

}  // namespace nqd::cli
