#include "phalanx/metrics/rate.h"

namespace phalanx {

void MovingRate::add(double amount, double seconds) {
  steps_[next_] = {amount, seconds};
  next_ = (next_ + 1) % kWindow;
}

double MovingRate::per_second() const {
  Step sum;
  for (const auto& step : steps_) {
    sum.amount += step.amount;
    sum.seconds += step.seconds;
  }
  return sum.seconds > 0 ? sum.amount / sum.seconds : 0.0;
}

}  // namespace phalanx
