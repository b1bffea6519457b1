#pragma once
// The options of `generate`, and what it does for each model family.

#include <cstdint>
#include <string>
#include <vector>

#include "phalanx/cli/chat_prompts.h"
#include "phalanx/cli/model_flags.h"
#include "phalanx/inference/sampling.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

struct GenerateOptions {
  ModelFlags model;
  std::vector<std::string> prompts;
  std::string prompts_file;
  bool interactive = false;
  std::int64_t context = 0;  // positions of an interactive dialogue; 0: the model's
  EncodeOptions encoding;
  ChatOptions chat;
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

// A BERT: the likeliest tokens at each [MASK]; each is predicted alone, with the rest of the text
// as given.
int fill_masks(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained);
// A T5: its answer to the text, a token at a time, up to [EOS].
int answer_text(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained);
// A GPT: continues the prompts.
int continue_texts(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained);
// Answers each line of the input, given all lines and answers before it.
int converse(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained);
// The same with the messages of a conversation: --interactive --chat.
int chat(CommandIo& io, const GenerateOptions& options, const TrainedModel& trained);

}  // namespace phalanx
