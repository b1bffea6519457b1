#include "phalanx/planner/step_calibration.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/clock/device_scale.h"
#include "phalanx/planner/step_time.h"

namespace phalanx {
namespace {

constexpr double kLeastFactor = 1e-3, kMostFactor = 1e4;
constexpr double kExact = 1e-7;  // of the seconds
constexpr int kMostTries = 60;

}  // namespace

CalibratedDevice calibrated_device(const RunPlan& plan, const Machine& machine, double seconds,
                                   const std::string& source) {
  const auto device_of = [&](double factor) {
    return scaled(machine.device, factor,
                  fmt::format("{}, times of {} x {:.4g}", source, machine.device.name, factor));
  };
  // ln(predicted / measured), which grows with the logarithm of the factor.
  const auto miss = [&](double log_factor) {
    const Machine tried = machine.with(device_of(std::exp(log_factor)));
    return std::log(predict_step(plan, tried).seconds / seconds);
  };
  struct End {
    double at = 0.0;
    double missed = 0.0;
  };
  const double least = std::log(kLeastFactor), most = std::log(kMostFactor);
  End before{.at = 0.0, .missed = miss(0.0)};
  End end = before;
  // Away from where the prediction was, until the root lies between.
  while (end.missed * before.missed > 0.0 && std::abs(end.missed) > kExact) {
    const double to = std::clamp(end.at - 1.2 * end.missed, least, most);
    if (to == end.at) {
      throw ConfigError(
          "no factor on the times of {} makes the predicted step take {:.4g} s: messages alone "
          "decide; measure the cluster with phalanx bench cluster",
          machine.device.name, seconds);
    }
    before = end;
    end = {.at = to, .missed = miss(to)};
  }
  // False position (Illinois).
  for (int tries = 0; std::abs(end.missed) > kExact && tries < kMostTries; ++tries) {
    const double at = end.at - end.missed * (end.at - before.at) / (end.missed - before.missed);
    const End next{.at = at, .missed = miss(at)};
    if (next.missed * end.missed < 0.0) {
      before = end;
    } else {
      before.missed /= 2;
    }
    end = next;
  }
  const double at = end.at;
  return {.factor = std::exp(at), .device = device_of(std::exp(at))};
}

}  // namespace phalanx
