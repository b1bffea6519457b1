#pragma once
// The tokenizer of a folder of Hugging Face's: which of our tokenizers reads it, and from which
// files.

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

// Chooses a tokenizer by the files of the folder: tokenizer.json, else vocab.json with merges.txt,
// a SentencePiece model or vocab.txt. If none is wanted, text is ids; the same, with a warning, if
// the folder has none. InputMissingError if it has only some files of one.
TokenizerOptions folder_tokenizer(const hugging_face::Import& model, bool is_wanted);

// The options by flag, as a manifest keeps them.
std::map<std::string, std::string> tokenizer_arguments(const TokenizerOptions& options);

// The files of an exported folder besides config.json and weights: those that the checkpoint kept
// from the folder that it was imported from, and those of its tokenizer (none if transformers has
// no such tokenizer, with a warning unless text is ids). What they say about tokens that begin and
// end a text becomes a setting, unless that is set already.
std::vector<InputCopy> exported_files(const CheckpointReader& checkpoint, TrainConfig config,
                                      ModelArguments& settings);

}  // namespace phalanx
