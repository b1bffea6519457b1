#pragma once
// A language model: embeddings of words and positions, layers with or without attention, and the
// head with its cross entropy, all of them GPT's, in the flat buffers and with the optimizer that a
// rank has.

#include "machines.h"

namespace phalanx {

struct LanguageModel {
  DType storage = DType::kF32;
  // Tied, layer norms, GeLU, dropout; or untied, RMS norms, SwiGLU, no bias.
  bool llama = false;
  bool attention = false;  // whole layers, else their MLPs alone
  int steps = 10;

  TrainingResult train(TrainingMachine& machine) const;
};

}  // namespace phalanx
