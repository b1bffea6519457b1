#pragma once
// The tokenizer of a folder of Hugging Face's: which of ours reads it, and which files say it
// there.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/hugging_face/import.h"
#include "phalanx/checkpoint/input_file.h"
#include "phalanx/tokenizer/registry.h"
#include "phalanx/train/config.h"

namespace phalanx {

// What reads the files that lie in the folder: tokenizer.json before vocab.json with merges.txt,
// a SentencePiece model or vocab.txt. Without any, or where it is not wanted, text is ids.
TokenizerOptions folder_tokenizer(const hugging_face::Import& model, bool is_wanted);

// The options as a manifest has them, by flag.
std::map<std::string, std::string> tokenizer_arguments(const TokenizerOptions& options);

// The files that a folder has for the tokenizer of a checkpoint; none where it has no counterpart
// there, with a warning where it is more than ids. What they say of tokens that begin and end a
// text becomes a setting unless there is one.
std::vector<InputCopy> exported_tokenizer(const CheckpointReader& checkpoint, TrainConfig config,
                                          hugging_face::Settings& settings);

}  // namespace phalanx
