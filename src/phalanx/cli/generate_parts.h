#pragma once
// What the two ways of continuing a text have in common.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/cli/generate.h"
#include "phalanx/inference/cached_model.h"
#include "phalanx/inference/generation.h"

namespace phalanx {

// Tokens that end a text: the tokenizer's end of document, and those of the checkpoint. DataError
// where these are no ids.
std::vector<std::int32_t> end_tokens(const GenerateOptions& options, const TrainedModel& trained);

// Prints the plan, for --plan.
void print_plan(const GenerateOptions& options, const TrainedModel& trained,
                const CachedModel& model);

// "prompt 12 tokens, 345.6 tokens/s; answers 128 tokens, 23.4 tokens/s"; those of the answers are
// the ones behind the first, which comes of the prompt.
std::string text_of(const GenerationRates& rates);

}  // namespace phalanx
