#include <array>
#include <cstdio>
#include <string>

#include "base/units.h"
#include "collectives/bench/pair_matrix.h"
#include "engine/canary/canary.h"
#include "engine/canary/judge.h"

namespace nqd::engine {
namespace {

std::string rank_text(int rank, const std::string& host) {
  return "rank " + std::to_string(rank) + " on host " + host;
}

std::string figure(CanaryTest test, double value) {
  std::array<char, 48> text{};
  switch (test) {
    case CanaryTest::kGemm:
      std::snprintf(text.data(), text.size(), "%.4g GFLOP/s", 1e-9 * value);
      return text.data();
    case CanaryTest::kCpuShare:
      std::snprintf(text.data(), text.size(), "%.0f %% of a CPU", 100 * value);
      return text.data();
    case CanaryTest::kCopy:
    case CanaryTest::kBandwidth:
      std::snprintf(text.data(), text.size(), "%.4g GB/s", value / kGB);
      return text.data();
    case CanaryTest::kLatency:
      return format_seconds(value);
  }
  return {};
}

const char* what(CanaryTest test) {
  switch (test) {
    case CanaryTest::kGemm:
      return "matrix products";
    case CanaryTest::kCpuShare:
      return "time on a CPU";
    case CanaryTest::kCopy:
      return "memory copy";
    case CanaryTest::kLatency:
      return "latency of a message";
    case CanaryTest::kBandwidth:
      return "bandwidth of messages";
  }
  return "";
}

struct Advice {
  const char* cause;
  const char* next_step;
};

Advice advice(const CanaryFinding& found) {
  if (found.peer >= 0) {
    return {"a cable, adapter or switch port between the two, or other traffic on the way",
            "look at the link's errors and negotiated speed (ethtool, ibstat); run without one of "
            "the two hosts"};
  }
  switch (found.test) {
    case CanaryTest::kCpuShare:
      return {"other work runs on its CPU, two ranks are bound to one CPU, or a quota holds it",
              "look at top on that host, at the binding (mpirun --report-bindings) and at the "
              "cgroup's cpu.max"};
    case CanaryTest::kGemm:
      return {found.against_calibration
                  ? "other work on its CPU, or a CPU at a lower clock: governor, temperature, power"
                  : "its CPU runs at a lower clock (governor, temperature, power), or is another "
                    "one",
              "look at its clock, governor and temperature (nqd doctor, sensors); run without the "
              "host"};
    case CanaryTest::kCopy:
      return {"memory of another NUMA node, a missing or slower memory module, or other work",
              "bind memory with the rank (mpirun --bind-to core), look at the host's modules "
              "(dmidecode -t memory) and its load"};
    case CanaryTest::kLatency:
    case CanaryTest::kBandwidth:
      return {"that rank's host, adapter, port or CPU is slower than its peers'",
              "look at other work on that host, its adapter and cable; run without it"};
  }
  return {"", ""};
}

collectives::Verdict verdict_of(const CanaryFinding& found) {
  const bool link = found.peer >= 0;
  const bool of_link = found.test == CanaryTest::kLatency || found.test == CanaryTest::kBandwidth;
  std::string who = rank_text(found.rank, found.host);
  if (link) who = "between " + who + " and " + rank_text(found.peer, found.peer_host);
  if (of_link && !link) who += ", in all of its links";
  std::array<char, 96> threshold{};
  std::snprintf(threshold.data(), threshold.size(), "within a factor of %g of %s",
                of_link ? collectives::kSlowPair : kSlowDevice,
                found.against_calibration ? "the calibration" : "the median of its peers");
  const Advice advised = advice(found);
  return {of_link ? "slow-link" : "slow-device",
          "error",
          "likely",
          std::string(what(found.test)) + " " + (link ? "" : "of ") + who + ": " +
              figure(found.test, found.measured) + ", where " +
              (found.against_calibration ? "the calibration has " : "its peers have ") +
              figure(found.test, found.expected),
          threshold.data(),
          advised.cause,
          advised.next_step};
}

}  // namespace

std::string_view name(CanaryTest test) {
  switch (test) {
    case CanaryTest::kGemm:
      return "gemm";
    case CanaryTest::kCpuShare:
      return "cpu_share";
    case CanaryTest::kCopy:
      return "copy";
    case CanaryTest::kLatency:
      return "latency";
    case CanaryTest::kBandwidth:
      return "bandwidth";
  }
  return "";
}

std::vector<collectives::Verdict> canary_verdicts(const CanaryResult& result) {
  std::vector<collectives::Verdict> verdicts;
  for (const CanaryFinding& found : result.findings) verdicts.push_back(verdict_of(found));
  for (const std::string& host : result.busy_hosts) {
    verdicts.push_back(
        {"busy-host", "warning", "certain",
         "ranks on host " + host + " had a CPU for less than two thirds of the time, most of them",
         "half of a host's ranks have a CPU for 2/3 of the time",
         "more ranks than CPUs, or other work: they are not compared with others",
         "run the canary when nothing else runs there, with at most a rank a CPU"});
  }
  return verdicts;
}

}  // namespace nqd::engine
