#pragma once
// The tokenizer of a folder of Hugging Face's: which of ours reads it, and which files say it
// there.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/input_file.h"
#include "phalanx/hugging_face/import.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tokenizer/registry.h"

namespace phalanx {

// What reads the files that lie in the folder: tokenizer.json before vocab.json with merges.txt,
// a SentencePiece model or vocab.txt. Where it is not wanted text is ids, and, with a warning,
// where the folder has none. InputMissingError where it has only parts of one.
TokenizerOptions folder_tokenizer(const hugging_face::Import& model, bool is_wanted);

// The options as a manifest has them, by flag.
std::map<std::string, std::string> tokenizer_arguments(const TokenizerOptions& options);

// The files that a folder gets beside config.json and weights: those that the checkpoint keeps of
// the one that it was imported from, and those of its tokenizer; none of these where it has no
// counterpart there, with a warning where it is more than ids. What they say of tokens that begin
// and end a text becomes a setting unless there is one.
std::vector<InputCopy> exported_files(const CheckpointReader& checkpoint, TrainConfig config,
                                      ModelArguments& settings);

}  // namespace phalanx
