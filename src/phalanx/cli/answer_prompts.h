#pragma once
// What a run of `finetune chat` is asked while it is trained.

#include <filesystem>

#include "phalanx/settings/train_config.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// Writes some conversations that `config` evaluates and does not train to `file`, as
// --answer-prompts reads them. False where there are none: then nothing is written.
bool write_answer_prompts(const TrainConfig& config, const Tokenizer& tokenizer,
                          const std::filesystem::path& file);

}  // namespace phalanx
