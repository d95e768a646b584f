// `nqd canary`: its evidence document, its table, and what a supervisor reads of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/canary/canary.h"
#include "reports/envelope.h"

namespace nqd::reports {

// {…envelope, "calibration", "devices": [{rank, host, gemm_gflops, gemm_gflops_per_cpu_s,
// cpu_share, copy_gbps, copy_gb_per_cpu_s}], "links": [{a, b, latency_s, bandwidth_gbps}],
// "expected": {gemm_gflops, copy_gbps, inside_link_gbps, across_link_gbps}, "findings": [{test,
// rank, host, peer, peer_host, measured, expected, against, score}], "slow_hosts", "busy_hosts",
// "healthy", "passes", "seconds", "machine", "verdicts"}. Of the findings rates are in FLOP or
// bytes a second.
std::string canary_json(const Envelope& envelope, const engine::CanaryResult& result);

// A line a device and a line a link, with what was expected of them; last "healthy" or what is not.
// Ends in a newline.
std::string canary_text(const engine::CanaryResult& result);

// "slow_hosts" of such a document. Throws as read_evidence.
std::vector<std::string> read_slow_hosts(const std::filesystem::path& path);

}  // namespace nqd::reports
