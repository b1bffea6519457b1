#include "phalanx/train/skipped_steps.h"

#include <fmt/core.h>

#include <cmath>

#include "phalanx/settings/config_views.h"

namespace phalanx {

std::optional<std::string> SkippedSteps::after(std::int64_t iteration, bool was_skipped,
                                               double loss, const LossScaler& scaler) {
  loss_is_finite_ = std::isfinite(loss);
  if (!was_skipped) {
    in_a_row_ = 0;
    next_warning_ = 10;
    return std::nullopt;
  }
  ++skipped_;
  if (++in_a_row_ < next_warning_) return std::nullopt;
  next_warning_ *= 10;
  return fmt::format(
      "{} iterations in a row were skipped, to iteration {}: their gradients are not finite, so "
      "nothing was updated. {}",
      in_a_row_, iteration, reason(scaler));
}

std::string SkippedSteps::reason(const LossScaler& scaler) const {
  const OptimizerConfig& o = config_.optimizer;
  if (!loss_is_finite_) {
    return "The loss is not finite before it is scaled, either: look at the data, at the weights "
           "that the run began with, and at --lr";
  }
  if (o.loss_scale) {
    return fmt::format("The loss scale is always {} (--loss-scale): give a smaller one{}",
                       scaler.scale(),
                       config_.model.fp16 ? ", or none, and the run looks for one itself" : "");
  }
  if (!scaler.is_dynamic()) {
    return "The loss is not scaled: look at the data, at the weights that the run began with, and "
           "at --lr";
  }
  if (scaler.scale() <= o.min_loss_scale) {
    return fmt::format(
        "The loss scale is at --min-loss-scale {}: give a smaller one; if it is 1 "
        "already, gradients do not fit into fp16 at all: look at --lr and the data, or give --bf16",
        o.min_loss_scale);
  }
  const std::int64_t until = scaler.state().hysteresis;
  return fmt::format(
      "The loss scale is {} (--initial-loss-scale {}) and is halved by {}; a smaller "
      "--initial-loss-scale saves these iterations",
      scaler.scale(), o.initial_loss_scale,
      until <= 1
          ? "every further one"
          : fmt::format("the {}th of them from here on (--hysteresis {})", until, o.hysteresis));
}

}  // namespace phalanx
