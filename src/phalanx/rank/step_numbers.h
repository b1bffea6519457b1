#pragma once
// The numbers of a step that its host wants to know. They lie side by side in one tensor, which is
// copied to the host as a whole when the step has been enqueued, and waited for when somebody asks:
// meanwhile the host may enqueue the next step.

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "phalanx/optim/optimizer.h"
#include "phalanx/rank/later_scalar.h"
#include "phalanx/rank/step.h"

namespace phalanx {

// Where they lie.
class StepNumbers {
 public:
  struct Sizes {
    std::int64_t losses = 1;
    std::int64_t auxiliary_losses = 0;
    std::int64_t updates = 1;  // the most of a program
    DType full = DType::kF32;  // of norm, skip and biases
    std::int64_t routers = 0;  // of the whole model
    std::int64_t experts = 0;  // of each
    bool expert_bias = false;
    bool counts_zeros = false;     // --log-num-zeros-in-grad
    bool parameters_norm = false;  // --log-params-norm
  };
  StepNumbers(const Sizes& sizes, Arena& arena);

  // u8: all of them.
  const Tensor& all() const { return all_; }
  // f64, [2 * losses * updates]: by loss, sum and count, update.
  const Tensor& loss_sums() const { return loss_sums_; }
  // f64, [auxiliary losses * updates]; absent where there are none.
  const Tensor& auxiliary_sums() const { return auxiliary_sums_; }
  // i32, [routers, experts], and biases in full precision; absent where there are none.
  const Tensor& router_counts() const { return router_counts_; }
  const Tensor& expert_biases() const { return expert_biases_; }
  const OptimizerResults& of_optimizer() const { return of_optimizer_; }
  // [1] f64, of the parameters after the last update; absent without parameters_norm.
  const Tensor& parameter_squares() const { return parameter_squares_; }

  // A tensor of those above, in a copy of all() on the host.
  std::vector<double> read(const Tensor& part, std::span<const std::byte> all) const;

 private:
  Tensor all_, loss_sums_, auxiliary_sums_, parameter_squares_, router_counts_, expert_biases_;
  OptimizerResults of_optimizer_;
};

// The results of the iterations of a program, on their way to the host.
class StepsUnderWay {
 public:
  // Makes results of a copy of StepNumbers::all().
  using Reader = std::function<std::vector<StepResult>(std::span<const std::byte>)>;
  // `skips`: of the program's updates but the last.
  StepsUnderWay(ReadBack numbers, LaterFaults faults, std::vector<LaterScalar> skips, Reader reader)
      : numbers_(std::move(numbers)),
        faults_(std::move(faults)),
        skips_(std::move(skips)),
        reader_(std::move(reader)) {}

  // By iteration. Waits for the device. InternalError where a kernel has found a fault in its data.
  std::vector<StepResult> wait();

 private:
  ReadBack numbers_;
  LaterFaults faults_;
  std::vector<LaterScalar> skips_;
  Reader reader_;
};

}  // namespace phalanx
