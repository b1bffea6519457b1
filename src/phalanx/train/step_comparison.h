#pragma once
// What a run's steps took, beside what was predicted of a step.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/drawing/series.h"
#include "phalanx/metrics/iteration_report.h"
#include "phalanx/start/step_forecast.h"

namespace phalanx {

class StepComparison {
 public:
  explicit StepComparison(const StepForecast& forecast) : forecast_(forecast) {}

  // Of an iteration that was trained; sets report.predicted_seconds. False: it is another than what
  // was predicted, since its batch is or it was skipped.
  bool add(IterationReport& report);
  // The parts of the iterations since the last call, of all ranks, by kMeasuredParts; the first
  // iteration is not in them. Empty where some of these were other iterations, or there were none.
  std::vector<StepPart> take_parts(const std::vector<std::vector<double>>& of_ranks);

  // Iterations behind the first.
  std::int64_t steps() const { return steps_; }
  // "a step was predicted to take 1.2 s and took 1.3 s (median of 90, +8.3 %); most of it: ...".
  std::string to_text() const;
  // {"seconds", "low", "high", "measured", "steps", "rank", "parts": {"products": {"predicted",
  // "measured"}, ...}}: the median of the steps, and the means of their parts.
  std::string to_json() const;

 private:
  std::vector<StepPart> mean_parts() const;

  StepForecast forecast_;
  bool is_first_ = true;
  std::int64_t steps_ = 0;
  Series seconds_{256};  // by iteration
  // Since parts were taken.
  struct Interval {
    std::int64_t steps = 0;
    double seconds = 0.0;
    bool is_usual = true;
  };
  Interval interval_;
  // Of all intervals, times their steps.
  std::vector<StepPart> sums_;
  std::int64_t steps_with_parts_ = 0;
};

// The JSON object with another member; `value` is JSON. An empty text is an empty object.
std::string with_member(const std::string& object, const std::string& name,
                        const std::string& value);

}  // namespace phalanx
