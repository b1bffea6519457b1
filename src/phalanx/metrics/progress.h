#pragma once
// The progress bar of a training run: one line at the bottom of a terminal, redrawn in place, with
// the time left, the loss and the speed. Nothing is drawn if standard error is not a terminal.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/base/ready_output.h"
#include "phalanx/metrics/rate.h"
#include "phalanx/metrics/run_sink.h"

namespace phalanx {

// What the bar shows.
struct ProgressLine {
  std::int64_t iteration = 0;  // done so far
  std::int64_t total = 0;
  double loss = 0;
  double tokens_per_second = 0;
  double seconds_left = 0;  // negative: not known yet
};

// The bar as text of at most `columns` characters. A narrow terminal has no bar, a narrower one
// lacks also the values on the right. " 42% [=====>    ] 420/1000 | loss 3.2145 | 4,012 tokens/s |
// 2m 24s left".
std::string format_progress(const ProgressLine& progress, int columns);
// "48s", "2m 24s", "3h 07m", "2d 04h".
std::string format_duration(double seconds);

class ProgressBar {
 public:
  using Clock = std::chrono::steady_clock;

  // Draws on `descriptor` (standard error) if it is a terminal that can erase a line.
  explicit ProgressBar(std::int64_t total_iterations, int descriptor = 2);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  // Erases the bar.
  ~ProgressBar();

  // After an iteration. Redraws at most ten times a second.
  void advance(std::int64_t iteration, double loss, std::int64_t tokens, double seconds,
               Clock::time_point now = Clock::now());
  // Erases the bar, before a line is printed; the next advance() draws it again at once.
  void clear();

  bool is_active() const { return active_; }

 private:
  int columns() const;
  void put(std::string_view text) const;

  std::int64_t total_;
  int descriptor_;
  bool active_;
  ReadyOutput output_;
  bool drawn_ = false;
  Clock::time_point next_draw_;
  MovingRate tokens_;
  MovingRate iterations_;
};

// The last of the sinks, so that the bar is below the lines of others.
class ProgressSink final : public RunSink {
 public:
  std::string name() const override { return "the progress bar"; }
  void begin(const RunBegin& begin) override { bar_.emplace(begin.last_iteration); }
  void iteration(const IterationReport& report) override;
  void pause() override;

 private:
  std::optional<ProgressBar> bar_;
};

}  // namespace phalanx
