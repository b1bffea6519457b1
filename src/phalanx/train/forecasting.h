#pragma once
// The prediction of a run's own step, by the planner, and what becomes of it when steps were
// measured.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/clock/machine.h"
#include "phalanx/planner/plan.h"
#include "phalanx/start/run_setup.h"

namespace phalanx {

// Of a usual step on the machine of --cluster. ConfigError, InputMissingError, DataError as
// machine_of() and predict_step(); OutputError if --write-device-file cannot be written.
StepForecast forecast_step(const RunSetup& setup);

// --write-device-file: the device with which the forecast is what was measured.
class DeviceFile {
 public:
  explicit DeviceFile(const RunSetup& setup) : setup_(setup) {}

  // The seconds of a usual iteration that was trained. When ten behind the first are there, the
  // file is written, and the answer is what to tell; else it is empty. An Error if it cannot be.
  std::string add(double seconds);
  bool is_written() const { return is_written_; }
  // Iterations that are missing.
  std::int64_t missing() const;

 private:
  const RunSetup& setup_;
  bool is_first_ = true;
  bool is_written_ = false;
  std::vector<double> seconds_;
};

}  // namespace phalanx
