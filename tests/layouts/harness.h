#pragma once
// Trains a tiny model of any family on a layout, one thread for every rank, without files of data:
// batches are functions of the sample's number. What comes back is free of the layout: global
// tensors, put together from what the ranks hold.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "layout.h"
#include "phalanx/rehearsal/memory_plan.h"

namespace phalanx {

// Values of whole parameters, or of what belongs to them, by name; row-major, without padding.
using GlobalValues = std::map<std::string, std::vector<float>>;

// One rank in the step that is measured, with everything that it began.
struct MeasuredStep {
  MessageTotals planned, recorded;
  TransferTotals planned_transfers, transfers;  // from and to files
  std::int64_t bytes_moved = 0;                 // that the transport read from the rank's tensors
  Trace trace;                                  // what it did, in its order
};

struct TrainingResult {
  std::vector<double> losses;      // all of a step, then those of the next
  std::vector<double> grad_norms;  // by step
  std::vector<bool> skipped;       // likewise: a gradient was not finite
  GlobalValues initial_weights;    // of trained parameters, in full precision
  GlobalValues initial_stored;     // of all parameters, as forward reads them
  // Step 1:
  GlobalValues first_gradients;               // sums, before the factor that makes them an average
  double first_factor = 1.0;                  // which is this, with the loss scale in addition
  GlobalValues first_weights, first_exp_avg;  // behind it, in full precision
  GlobalValues weights;                       // at the end, in full precision
  GlobalValues stored_weights;                // as forward reads them
  GlobalValues exp_avg, exp_avg_sq;
  std::vector<MeasuredStep> measured;  // by rank
  // What must not be: ranks that disagree about a number all have, elements that nobody has,
  // padding that is not zero.
  std::vector<std::string> faults;
};

inline constexpr int kTrainingSteps = 10;
inline constexpr double kLearningRate = 5e-3;
inline constexpr double kWeightDecay = 0.1;

// What the gradients hold before every step: the first pass over each must overwrite it. With NaN
// microbatches' memory holds it too.
enum class LeftGradients : std::uint8_t { kNan, kZeros };

// `config` must be resolved. Checks every arena's high-water mark: InternalError where one is not
// the plan's.
TrainingResult train(const TrainConfig& config, int steps = kTrainingSteps,
                     LeftGradients left = LeftGradients::kNan);

}  // namespace phalanx
