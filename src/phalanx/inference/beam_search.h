#pragma once
// Beam search: the search goes on with the few continuations that are most probable as a whole. How
// answers are scored and when the search ends is as in the transformers library.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "phalanx/inference/generation.h"
#include "phalanx/inference/sequence_model.h"

namespace phalanx {

struct BeamOptions {
  int beams = 1;
  // A finished answer's score is the sum of its log probabilities / tokens^length_penalty.
  double length_penalty = 1.0;
  // True: the search ends when there are as many finished answers as beams. False: it also goes on
  // until the best unfinished answer, as it is, is no better than the worst finished one.
  bool early_stopping = false;
  double repetition_penalty = 1.0;  // of log probabilities (sampling.h)
  std::vector<std::int32_t> end_tokens;
};

struct BeamAnswer {
  std::vector<std::int32_t> tokens;  // the end token included, if there is one
  double score = 0.0;
  bool ended = false;  // with an end token
};

// The best answer of at most `most` tokens, at least 1; of fewer where the model's capacity ends.
// The model must keep as many sequences as there are beams, and forgets its earlier ones. `go_on`
// is called before each token; if it returns false, the search ends with the answers so far.
BeamAnswer beam_search(SequenceModel& model, std::span<const std::int32_t> prompt,
                       std::int64_t most, const BeamOptions& options, GenerationRates& rates,
                       const std::function<bool()>& go_on);

}  // namespace phalanx
