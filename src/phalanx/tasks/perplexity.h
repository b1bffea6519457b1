#pragma once
// How well a GPT predicts a text file: the loss of each token in windows that overlap, as
// Megatron-LM's WIKITEXT103 task has it (tasks/zeroshot_gpt).

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/inference/scoring.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// A file whose text was cut for a benchmark, as tokens of the text before that.
struct EvaluationText {
  std::vector<std::int32_t> tokens;
  std::int64_t words = 0;  // between blanks, in the file as it is
};
// `detokenizer` as detokenize() has it. DataError names the file where it is no UTF-8, cannot be
// encoded or has less than two tokens or words: there is nothing to average over.
EvaluationText read_evaluation_text(const std::string& path, const std::string& detokenizer,
                                    const Tokenizer& tokenizer);

// Windows that Megatron counts: one each `overlap` tokens over the `targets` = tokens - 1. It reads
// the last ones, too, in which no token is new; here they are not computed.
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
