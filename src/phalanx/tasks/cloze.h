#pragma once
// The last word of a passage, which a reader guesses only from all of it: the LAMBADA task as
// Megatron-LM asks it (tasks/zeroshot_gpt). A passage is right where the most likely token is the
// expected one at each place of the target.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/inference/sequence_model.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

struct ClozeExample {
  std::vector<std::int32_t> context, target;  // neither is empty
};

// A file of JSON lines {"text": ...}. The target is the last token of the text, or, where `strict`,
// the tokens of " " and its last word; the text before it, without white space at its ends, is
// context. DataError names the line that has no such text, or too short a one.
std::vector<ClozeExample> read_cloze(const std::string& path, const Tokenizer& tokenizer,
                                     bool strict);

// Where a passage is longer than `positions` + 1 tokens its beginning is left out; how many were.
// DataError where a target alone is.
std::int64_t shorten(std::vector<ClozeExample>& examples, std::int64_t positions);

struct ClozeResult {
  std::int64_t examples = 0;
  std::int64_t correct = 0;
  double log_probability = 0.0;  // of the targets, summed over the examples
};
// `on_example` is told how many are done.
ClozeResult evaluate_cloze(SequenceModel& model, const std::vector<ClozeExample>& examples,
                           const std::function<void(std::int64_t)>& on_example);

// " validation results on NAME | number correct: ... | total examples: ... | avg accuracy: ...".
std::string result_line(const std::string& name, const ClozeResult& result);

}  // namespace phalanx
