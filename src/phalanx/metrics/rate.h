#pragma once
// The present speed of a run: amounts per second over the last few steps.

#include <array>
#include <cstddef>

namespace phalanx {

class MovingRate {
 public:
  // One step: `amount` (tokens, iterations, floating-point operations) took `seconds`.
  void add(double amount, double seconds);
  // Over the last kWindow steps; 0 before the first.
  double per_second() const;

 private:
  static constexpr std::size_t kWindow = 32;
  struct Step {
    double amount = 0;
    double seconds = 0;
  };
  std::array<Step, kWindow> steps_{};
  std::size_t next_ = 0;
};

}  // namespace phalanx
