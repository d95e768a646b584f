#include "cli/progress.h"

#include <array>
#include <cstdio>
#include <iostream>

#include "base/log.h"

namespace nqd::cli {

Progress::Progress(std::int64_t steps, std::chrono::milliseconds interval)
    : steps_(steps), interval_(interval), terminal_(log::is_terminal()) {}

Progress::~Progress() { end_line(); }

void Progress::end_line() {
  if (line_open_) std::cerr << '\n';
  line_open_ = false;
}

void Progress::step(const engine::StepRecord& record) {
  const double rate = record.step_s > 0 ? static_cast<double>(record.tokens) / record.step_s : 0;
  tokens_per_s_ = tokens_per_s_ == 0 ? rate : 0.9 * tokens_per_s_ + 0.1 * rate;
  const auto now = Clock::now();
  const bool due = now - last_ >= (terminal_ ? std::chrono::milliseconds(100) : interval_);
  if (!due && record.step != steps_) return;
  last_ = now;
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  const double left_s =
      elapsed_s / static_cast<double>(record.step) * static_cast<double>(steps_ - record.step);
  std::array<char, 200> line{};
  std::snprintf(line.data(), line.size(),
                "step %5lld/%lld  loss %.4f  lr %.2e  norm %.3f  %.0f tokens/s  %.0f s left",
                static_cast<long long>(record.step), static_cast<long long>(steps_), record.loss,
                record.lr, record.grad_norm, tokens_per_s_, left_s);
  std::cerr << (terminal_ ? "\r\033[K" : "") << line.data();
  if (terminal_) {
    line_open_ = true;
    std::cerr << std::flush;
  } else {
    std::cerr << '\n';
  }
}

void Progress::evaluation(const engine::EvalRecord& record) {
  end_line();
  std::array<char, 120> line{};
  std::snprintf(line.data(), line.size(), "held-out loss %.4f after %lld steps (%lld tokens)\n",
                record.loss, static_cast<long long>(record.step),
                static_cast<long long>(record.tokens));
  std::cerr << line.data();
}

}  // namespace nqd::cli
