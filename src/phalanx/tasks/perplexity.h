#pragma once
// How well a GPT predicts a text file: the loss of each token in windows that overlap, as
// Megatron-LM's WIKITEXT103 task has it (tasks/zeroshot_gpt).

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/inference/scoring.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// The tokens of a benchmark's file, from its text as it was before the benchmark changed it.
struct EvaluationText {
  std::vector<std::int32_t> tokens;
  std::int64_t words = 0;  // between blanks, in the unchanged file
};
// `detokenizer` as detokenize() has it. DataError names a file that is not UTF-8, cannot be encoded
// or has fewer than two tokens or words, too few for a mean.
EvaluationText read_evaluation_text(const std::string& path, const std::string& detokenizer,
                                    const Tokenizer& tokenizer);

// How many windows Megatron counts: one for every `overlap` tokens of the `targets` = tokens - 1.
// The last ones have no new token: Megatron computes them, Phalanx does not.
std::int64_t perplexity_windows(std::int64_t targets, std::int64_t overlap);

struct Perplexity {
  double loss = 0.0;          // mean over all tokens but the first
  double ppl = 0.0;           // exp(min(20, loss))
  double adjusted_ppl = 0.0;  // per word: exp(min(20, loss * token_ratio))
  double token_ratio = 0.0;   // (tokens - 1) / (words - 1)
};
Perplexity perplexity_of(double loss, const EvaluationText& text);

// " validation results on NAME | avg loss: ... |", digits as Python writes them.
std::string result_line(const std::string& name, const Perplexity& result);

// A number as Python's str() writes a float.
std::string python_float(double value);

}  // namespace phalanx
