#include "collectives/waiting.h"

namespace nqd::collectives {
namespace {

thread_local double t_waited_s = 0;
thread_local int t_depth = 0;

}  // namespace

double waited_s() { return t_waited_s; }

Waiting::Waiting() : start_(std::chrono::steady_clock::now()) { ++t_depth; }

Waiting::~Waiting() {
  if (--t_depth > 0) return;
  t_waited_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace nqd::collectives
