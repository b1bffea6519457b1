#pragma once
// Where a rank's time goes: one clock per part of a step, with Megatron's names and levels. The
// thread that leads the rank reads the clocks on the host. They count from the start of the run;
// log output takes differences. No decision depends on them.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace phalanx {

// In the order in which Megatron prints them, then those without a row in Megatron.
enum class StepTimer : std::uint8_t {
  kForwardBackward,     // all passes and messages of a step, reductions included
  kForwardCompute,      // forward passes
  kBackwardCompute,     // backward passes, recomputation included
  kBatchGenerator,      // microbatches: read, brought to the device, sent to tensor-parallel peers
  kForwardReceive,      // a stage's input
  kForwardSend,         // a stage's output
  kBackwardReceive,     // the gradient of a stage's output
  kBackwardSend,        // the gradient of a stage's input
  kLayerNormGradients,  // the sum of sequence-parallel partial gradients
  kEmbeddingGradients,  // waiting for sums of parameters that pipeline ranks share
  kAllGradients,        // waiting for reductions over data-parallel ranks
  // For a distributed optimizer. With --overlap-param-gather only its start, because forward passes
  // wait for the rest.
  kGatherParameters,
  kOptimizerCountZeros,  // with --log-num-zeros-in-grad
  kOptimizerClip,        // norm, clip factor, and whether all gradients are finite
  kOptimizerInnerStep,   // Adam, writing 16-bit parameters included
  kOptimizer,            // the three above
  kModelSetup,           // arenas, model and optimizer; weights drawn or loaded
  kDataSetup,            // data sets and their order
  kLoadCheckpoint,       // reading what the run begins with
  kSaveCheckpoint,
  kEvaluation,  // forward passes of evaluations
  kMessages,    // within all others: waiting for messages of any group, barriers included
  kData,        // within kBatchGenerator: waiting for microbatches that are not read yet
  kFiles,       // within all others: waiting for states to come from files and to go there
  kSnapshot,    // within kOptimizerInnerStep: what a save under way still reads is copied first
};
inline constexpr std::size_t kStepTimers = 25;

// "forward-backward".
std::string_view name_of(StepTimer timer);
// The lowest --timing-log-level at which Megatron prints the row; 3: never.
int level_of(StepTimer timer);

class StepTimers {
 public:
  using Clock = std::chrono::steady_clock;
  using Times = std::array<double, kStepTimers>;  // seconds, by timer

  void add(StepTimer timer, Clock::duration time) { clock(timer) += time; }
  double seconds(StepTimer timer) const {
    return std::chrono::duration<double>(clocks_[static_cast<std::size_t>(timer)]).count();
  }
  Clock::duration elapsed(StepTimer timer) const {
    return clocks_[static_cast<std::size_t>(timer)];
  }
  Times times() const {
    Times all{};
    for (std::size_t i = 0; i < kStepTimers; ++i) all[i] = seconds(static_cast<StepTimer>(i));
    return all;
  }

 private:
  Clock::duration& clock(StepTimer timer) { return clocks_[static_cast<std::size_t>(timer)]; }

  std::array<Clock::duration, kStepTimers> clocks_{};
};

// Counts until the scope ends, also by an exception. Null counts nothing.
class TimerScope {
 public:
  TimerScope(StepTimers* timers, StepTimer timer) : timers_(timers), timer_(timer) {
    if (timers_ != nullptr) begin_ = StepTimers::Clock::now();
  }
  TimerScope(const TimerScope&) = delete;
  TimerScope& operator=(const TimerScope&) = delete;
  ~TimerScope() {
    if (timers_ != nullptr) timers_->add(timer_, StepTimers::Clock::now() - begin_);
  }

 private:
  StepTimers* timers_;
  StepTimer timer_;
  StepTimers::Clock::time_point begin_;
};

}  // namespace phalanx
