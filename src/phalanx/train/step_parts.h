#pragma once
// What the steps of a rank on a host go into, measured op by op and wait by wait, in the parts of
// which a prediction is made.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "phalanx/rank/rank.h"
#include "phalanx/start/step_forecast.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {

// The waits for messages of a group are "tp" and so on. "pipeline" is waiting for other stages: for
// their messages and for their passes, which a rank cannot tell apart.
inline constexpr std::array<std::string_view, 10> kMeasuredParts = {
    "products", "attention", "memory", "tp", "cp", "ep", "dp", "pipeline", "optimizer", "disk"};

// The same parts of a forecast, and the rest as the last: what it says of the host.
std::array<double, kMeasuredParts.size() + 1> parts_of(const StepForecast& forecast);

// To be called by the rank's own thread.
class StepParts {
 public:
  // On a device enqueueing is what takes the host time: nothing is measured there.
  static bool can_measure(const Backend& backend) { return is_host(backend.space()); }
  // The rank must outlive it.
  explicit StepParts(Rank& rank) : rank_(rank) {}

  // Around the iterations that the pipeline runs in one go, and their updates.
  void begin();
  void end(std::int64_t iterations);
  void update_begins() { update_ = recorder_.events().size(); }
  void update_ends();

  // Seconds of an iteration by kMeasuredParts, the mean since the last call. The first iterations
  // of the run do not count.
  std::vector<double> take();

 private:
  enum class Part : std::uint8_t {
    kProducts,
    kAttention,
    kMemory,
    kTensor,
    kContext,
    kExpert,
    kData,
    kPipeline,
    kOptimizer,
    kDisk
  };
  void add(Part part, double seconds) { seconds_[static_cast<std::size_t>(part)] += seconds; }
  static Part part_of(const MessageGroup& group);
  // Adds what was recorded since the last call.
  void count(bool is_update);

  Rank& rank_;
  Recorder recorder_;
  std::size_t counted_ = 0;  // events
  std::size_t update_ = 0;   // the first event of an update
  // What began and is not awaited yet, by its number.
  std::map<std::uint64_t, Part> under_way_;
  std::array<double, kMeasuredParts.size()> seconds_{};
  std::int64_t iterations_ = 0;
  bool is_first_ = true;  // of the run: what is slow once is not measured
};

}  // namespace phalanx
