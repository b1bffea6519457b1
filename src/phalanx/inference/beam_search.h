#pragma once
// Beam search: of all continuations the few that are most probable as a whole so far go on. Scores,
// what ends and when nothing better can come are those of the transformers library.

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
  // Ends as soon as there are as many finished answers as beams; else when the best unfinished one,
  // scored as it is, is no better than the worst of those.
  bool early_stopping = false;
  double repetition_penalty = 1.0;  // on log probabilities (sampling.h)
  std::vector<std::int32_t> end_tokens;
};

struct BeamAnswer {
  std::vector<std::int32_t> tokens;  // with the end token, if it has one
  double score = 0.0;
  bool ended = false;  // by an end token
};

// The best answer of up to `most` tokens, at least 1, fewer where the model's capacity ends. The
// model keeps as many sequences as there are beams; what it remembers is forgotten. `go_on` is
// asked before each token; where it answers false the search ends with what there is.
BeamAnswer beam_search(SequenceModel& model, std::span<const std::int32_t> prompt,
                       std::int64_t most, const BeamOptions& options, GenerationRates& rates,
                       const std::function<bool()>& go_on);

}  // namespace phalanx
