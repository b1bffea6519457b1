#pragma once
// The factor that keeps small fp16 gradients from vanishing: constant, or dynamic as Megatron-LM's.
// It multiplies the loss before backward and is divided out of the gradients again.

#include <cstdint>

namespace phalanx {

// Dynamic: an overflow (any gradient not finite) ends the clean run and uses up one hysteresis;
// when none is left the scale is halved, at every further overflow again. `window` clean steps in a
// row double it and give the hysteresis back.
class LossScaler {
 public:
  struct Dynamic {
    double initial = 4294967296.0;  // 2^32
    double minimum = 1.0;
    std::int64_t window = 1000;
    std::int64_t hysteresis = 2;
  };
  // What a checkpoint keeps.
  struct State {
    double scale = 1.0;
    std::int64_t clean_steps = 0;  // since the scale last changed, or the last overflow
    // Which overflow from here on halves the scale; at 1 and below it is the next.
    std::int64_t hysteresis = 0;
    friend bool operator==(const State&, const State&) = default;
  };

  static LossScaler constant(double scale);
  static LossScaler dynamic(const Dynamic& settings);

  // Of the next step.
  double scale() const { return state_.scale; }
  bool is_dynamic() const { return dynamic_; }
  // After a step: whether its gradients overflowed, so that nothing was updated.
  void update(bool overflow);

  const State& state() const { return state_; }
  // Continues from a checkpoint; a constant scale stays what the flags say.
  void restore(const State& state);

 private:
  bool dynamic_ = false;
  Dynamic settings_;
  State state_;
};

}  // namespace phalanx
