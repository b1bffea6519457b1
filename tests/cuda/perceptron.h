#pragma once
// A perceptron with a norm between its two layers, which learns to square: batches arrive while the
// step before computes, losses leave while the next does.

#include "machines.h"

namespace phalanx {

// A wait that is left out.
enum class MissingWait : std::uint8_t {
  kNone,
  kBatchHasArrived,  // before the batch is read
  kBatchIsFree,      // before it is overwritten
  kLossIsThere,      // before it is copied out
  kLossHasLeft,      // before it is overwritten
};

struct Perceptron {
  DType storage = DType::kF32;
  int steps = 10;
  MissingWait missing = MissingWait::kNone;

  TrainingResult train(TrainingMachine& machine) const;
};

}  // namespace phalanx
