#include "phalanx/train/forecasting.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "phalanx/base/file.h"
#include "phalanx/base/machine.h"
#include "phalanx/planner/step_calibration.h"
#include "phalanx/planner/step_time.h"

namespace phalanx {
namespace {

constexpr std::size_t kMeasuredSteps = 10;

// What predict_step() reads of a plan.
RunPlan plan_of(const RunSetup& setup) {
  return {.config = setup.config,
          .grids = setup.grids,
          .placement = setup.programs.placement(),
          .stages = {},
          .model = setup.model,
          .kernels = setup.device.choice(),
          .groups = {},
          .disk = setup.disk};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace

StepForecast forecast_step(const RunSetup& setup) {
  const std::string& file = setup.config.run.write_device_file;
  // Beside it, and removed at once.
  if (!file.empty()) const DurableFile probe(file);
  const StepPrediction step = predict_step(plan_of(setup), machine_of(setup.config.run.cluster));
  StepForecast forecast{.machine = step.machine,
                        .seconds = step.seconds,
                        .low = step.low,
                        .high = step.high,
                        .global_batch = setup.length.batches().last(),
                        .rank = step.rank,
                        .parts = {},
                        .basis = to_text(step.basis)};
  if (!forecast.basis.empty()) forecast.basis.pop_back();
  for (int i = 0; i < kTimeParts; ++i) {
    const double seconds = step.parts.at(static_cast<std::size_t>(i));
    forecast.parts.push_back(
        {.name = std::string(name_of(static_cast<TimePart>(i))), .seconds = seconds});
  }
  return forecast;
}

std::int64_t DeviceFile::missing() const {
  return static_cast<std::int64_t>(kMeasuredSteps - seconds_.size());
}

std::string DeviceFile::add(double seconds) {
  if (is_written_ || std::exchange(is_first_, false)) return {};
  seconds_.push_back(seconds);
  if (seconds_.size() < kMeasuredSteps) return {};
  is_written_ = true;
  const double measured = median(seconds_);
  const RunConfig& run = setup_.config.run;
  const CalibratedDevice found =
      calibrated_device(plan_of(setup_), machine_of(run.cluster), measured,
                        fmt::format("phalanx: the median of {} steps of a run on {}, {:.4g} s",
                                    kMeasuredSteps, host_name(), measured));
  write_file_durably(run.write_device_file, yaml_of(found.device));
  return fmt::format(
      "{} is written: {} steps took {:.4g} s (median), predicted were {:.4g} s; all times of the "
      "device x {:.4g} predict what was measured",
      run.write_device_file, kMeasuredSteps, measured, setup_.forecast->seconds, found.factor);
}

}  // namespace phalanx
