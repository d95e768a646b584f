// Checks, member by member, that what was read back is what was written.
#pragma once

#include "collectives/bench/bench.h"
#include "engine/records.h"
#include "reports/evidence.h"

namespace nqd::reports::testing {

void check_equal(const Envelope& a, const Envelope& b);
void check_equal(const collectives::BenchRow& a, const collectives::BenchRow& b);
void check_equal(const collectives::BenchOptions& a, const collectives::BenchOptions& b);
void check_equal(const engine::AuditRow& a, const engine::AuditRow& b);

}  // namespace nqd::reports::testing
