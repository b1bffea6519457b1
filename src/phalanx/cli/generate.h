#pragma once
// What `generate` is told, and what it does by the family of the model.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/cli/model_flags.h"
#include "phalanx/inference/sampling.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

struct GenerateOptions {
  ModelFlags model;
  std::vector<std::string> prompts;
  std::string prompts_file;
  bool interactive = false;
  std::int64_t context = 0;  // positions of what is interactive; 0: the model's
  EncodeOptions encoding;
  std::int64_t max_tokens = 128;
  std::vector<std::string> stops;
  bool ignore_eos = false;
  SamplingOptions sampling;
  std::int64_t seed = 1234;
  std::int64_t beams = 1;
  double length_penalty = 1.0;
  bool early_stopping = false;
  std::int64_t batch_size = 8;
  bool plan = false;
  bool json = false;
};

// A BERT: the likeliest tokens in the places of [MASK], each by itself, the others as the text has
// them.
int fill_masks(const GenerateOptions& options, const TrainedModel& trained);
// A T5: what it says about the text, a token at a time, up to [EOS].
int answer_text(const GenerateOptions& options, const TrainedModel& trained);
// A GPT: what follows the prompts.
int continue_texts(const GenerateOptions& options, const TrainedModel& trained);
// What follows each line of standard input, all that was said before it.
int converse(const GenerateOptions& options, const TrainedModel& trained);

}  // namespace phalanx
