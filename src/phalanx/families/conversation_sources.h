#pragma once
// The sources of a GPT's samples where data paths name files of conversations (--sft).

#include <cstdint>
#include <memory>

#include "phalanx/chat/template_file.h"
#include "phalanx/chat_data/chosen_conversations.h"
#include "phalanx/chat_data/conversation_tokens.h"
#include "phalanx/data/data_sources.h"
#include "phalanx/data/gpt_sources.h"
#include "phalanx/families/family_sources.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tokenizer/registry.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// What the data flags say of the samples of a GPT, but for batch options and packing; also of text.
GptSourceOptions sample_options(const DataConfig& data, const SourceSeed& seed,
                                std::int64_t vocabulary_size, std::int64_t document_multiple);
// As ChatSources; ConfigError where there is no chat template.
std::unique_ptr<DataSources> chat_sources(const DataConfig& data, const SourceSeed& seed,
                                          const TokenizerOptions& tokenizer_options,
                                          const Tokenizer& tokenizer,
                                          std::int64_t document_multiple = 1);
// What decides the ids and masks of conversations. ConfigError as above, and for a day that is
// none.
ConversationOptions conversation_options(const DataConfig& data,
                                         const TokenizerOptions& tokenizer_options,
                                         const Tokenizer& tokenizer);
Truncation truncation_of(const DataConfig& data);
// The template of --chat-template, or the one beside the tokenizer's files.
TemplateText chat_template_text(const DataConfig& data, const TokenizerOptions& tokenizer_options);

}  // namespace phalanx
