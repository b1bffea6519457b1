#include "phalanx/optim/loss_scaler.h"

#include <algorithm>
#include <cmath>

#include "phalanx/base/error.h"

namespace phalanx {

LossScaler LossScaler::constant(double scale) {
  PHALANX_CHECK(scale > 0.0 && std::isfinite(scale), "a loss scale of {}", scale);
  LossScaler scaler;
  scaler.state_.scale = scale;
  return scaler;
}

LossScaler LossScaler::dynamic(const Dynamic& settings) {
  PHALANX_CHECK(settings.minimum > 0.0 && settings.initial >= settings.minimum &&
                    std::isfinite(settings.initial) && settings.window >= 1 &&
                    settings.hysteresis >= 1,
                "a loss scale from {}, at least {}, window {}, hysteresis {}", settings.initial,
                settings.minimum, settings.window, settings.hysteresis);
  LossScaler scaler;
  scaler.dynamic_ = true;
  scaler.settings_ = settings;
  scaler.state_ = {.scale = settings.initial, .clean_steps = 0, .hysteresis = settings.hysteresis};
  return scaler;
}

void LossScaler::update(bool overflow) {
  if (!dynamic_) return;
  if (overflow) {
    state_.clean_steps = 0;
    --state_.hysteresis;
    if (state_.hysteresis <= 0) state_.scale = std::max(0.5 * state_.scale, settings_.minimum);
    return;
  }
  // At the window or beyond: a run may be resumed with a shorter window.
  if (++state_.clean_steps < settings_.window) return;
  state_.clean_steps = 0;
  state_.hysteresis = settings_.hysteresis;
  state_.scale *= 2.0;
}

void LossScaler::restore(const State& state) {
  if (dynamic_) state_ = state;
}

}  // namespace phalanx
