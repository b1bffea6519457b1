#pragma once
// The prediction of the last word of a passage, which depends on the whole passage: the LAMBADA
// task as in Megatron-LM (tasks/zeroshot_gpt). A prediction is right if the most likely token is
// the expected one at each place of the target.

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

// Reads a file of JSON lines {"text": ...}. The target is the last token of the text or, if
// `strict`, the tokens of " " and its last word; the context is the text before it without white
// space at its ends. DataError names a line that has no text, or a text that is too short.
std::vector<ClozeExample> read_cloze(const std::string& path, const Tokenizer& tokenizer,
                                     bool strict);

// Passages of more than `positions` + 1 tokens lose their begin; returns how many there are.
// DataError where a target alone is longer.
std::int64_t shorten(std::vector<ClozeExample>& examples, std::int64_t positions);

struct ClozeResult {
  std::int64_t examples = 0;
  std::int64_t correct = 0;
  double log_probability = 0.0;  // of the targets, summed over the examples
};
// `on_example` gets the number of examples that are done.
ClozeResult evaluate_cloze(SequenceModel& model, const std::vector<ClozeExample>& examples,
                           const std::function<void(std::int64_t)>& on_example);

// " validation results on NAME | number correct: ... | total examples: ... | avg accuracy: ...".
std::string result_line(const std::string& name, const ClozeResult& result);

}  // namespace phalanx
