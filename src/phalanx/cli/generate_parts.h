#pragma once
// Shared by the two ways of continuing a text.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/cli/generate.h"
#include "phalanx/inference/cached_model.h"
#include "phalanx/inference/generation.h"

namespace phalanx {

// Tokens that end a text: the tokenizer's end of document, those that the checkpoint names, and the
// end of a turn where there is one (-1: none). DataError if these are not ids.
std::vector<std::int32_t> end_tokens(const GenerateOptions& options, const TrainedModel& trained,
                                     std::int32_t end_of_turn = -1);

// Prints the plan, for --plan.
void print_plan(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained,
                const CachedModel& model);

// "prompt 12 tokens, 345.6 tokens/s; answers 128 tokens, 23.4 tokens/s"; tokens of the answers
// count from the second one; the first comes from the prompt's pass.
std::string text_of(const GenerationRates& rates);

}  // namespace phalanx
