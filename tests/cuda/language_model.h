#pragma once
// A language model without attention: embeddings of words and positions, sub-layers with an MLP,
// and the head with its cross entropy, all of them the layers that GPT has, in the flat buffers and
// with the optimizer that a rank has.

#include "machines.h"

namespace phalanx {

struct LanguageModel {
  DType storage = DType::kF32;
  // Tied, layer norms, GeLU, dropout; or untied, RMS norms, SwiGLU, no bias.
  bool llama = false;
  int steps = 10;

  TrainingResult train(TrainingMachine& machine) const;
};

}  // namespace phalanx
