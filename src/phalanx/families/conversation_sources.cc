#include "phalanx/families/conversation_sources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

#include "phalanx/base/hash.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/chat_data/chat_sources.h"

namespace phalanx {
namespace {

DocumentPacking chat_packing_of(const DataConfig& data) {
  if (data.sft_packing == "none") return DocumentPacking::kSingle;
  return data.sft_packing == "next-fit" ? DocumentPacking::kGreedy : DocumentPacking::kBestFit;
}

ChatLoss chat_loss_of(const DataConfig& data) {
  if (data.sft_loss == "last") return ChatLoss::kLast;
  if (data.sft_loss == "all") return ChatLoss::kAll;
  return data.sft_loss == "completion" ? ChatLoss::kCompletion : ChatLoss::kAssistant;
}

// Beside these files the template is.
const std::string& place_of(const TokenizerOptions& tokenizer) {
  return tokenizer.tokenizer_model.empty() ? tokenizer.vocab_file : tokenizer.tokenizer_model;
}

// Of the same options and files.
std::string identity_of(const TokenizerOptions& o) {
  std::string text = fmt::format(
      "{} {} {} {} {} {} {}", o.tokenizer_type, o.vocab_size, o.vocab_extra_ids, o.vocab_file_only,
      o.tiktoken_pattern, o.tiktoken_num_special_tokens, fmt::join(o.tiktoken_special_tokens, " "));
  for (const TokenizerFile& file : tokenizer_files(o)) {
    text += fmt::format(" {} {}", file.name, digest_to_text(digest_file(file.path).xxh3));
  }
  return text;
}

}  // namespace

GptSourceOptions sample_options(const DataConfig& data, const SourceSeed& seed,
                                std::int64_t vocabulary_size, std::int64_t document_multiple) {
  return {.schema = gpt_batch_schema(data.seq_length),
          .batch = {},
          .sequence_length = data.seq_length,
          .vocabulary_size = vocabulary_size,
          .seed = seed.seed,
          .order = data.data_order == "sequential" ? DataOrder::kSequential : DataOrder::kMegatron,
          .document_multiple = document_multiple,
          .poll = seed.poll,
          .cache = data.data_cache_path.empty() ? nullptr : seed.cache};
}

std::unique_ptr<DataSources> chat_sources(const DataConfig& data, const SourceSeed& seed,
                                          const TokenizerOptions& tokenizer_options,
                                          const Tokenizer& tokenizer,
                                          std::int64_t document_multiple) {
  ChatSourceOptions options{
      .samples = sample_options(data, seed, tokenizer.vocab_size(), document_multiple),
      .conversations = conversation_options(data, tokenizer_options, tokenizer),
      .truncation = truncation_of(data)};
  options.samples.is_quiet = seed.is_quiet;
  options.samples.batch.averages_documents = data.sft_average == "sample";
  options.samples.packing = chat_packing_of(data);
  return std::make_unique<ChatSources>(tokenizer, std::move(options));
}

ConversationOptions conversation_options(const DataConfig& data,
                                         const TokenizerOptions& tokenizer_options,
                                         const Tokenizer& tokenizer) {
  ConversationOptions options{
      .chat_template = chat_template_text(data, tokenizer_options),
      .settings = {.special_tokens = template_tokens(tokenizer, place_of(tokenizer_options)),
                   .arguments = data.chat_template_args,
                   .loss = chat_loss_of(data)},
      .parses_special_tokens = data.sft_special_tokens_in_content == "parse",
      .drops_incomplete = data.sft_drop_incomplete,
      .tokenizer_identity = identity_of(tokenizer_options),
      .threads = usable_cores().count};
  if (!data.chat_template_date.empty()) {
    options.settings.date = template_day(data.chat_template_date);
  }
  return options;
}

TemplateText chat_template_text(const DataConfig& data, const TokenizerOptions& tokenizer_options) {
  return find_template_text(data.chat_template, place_of(tokenizer_options));
}

Truncation truncation_of(const DataConfig& data) {
  if (data.sft_truncation == "error") return Truncation::kError;
  if (data.sft_truncation == "end") return Truncation::kEnd;
  return data.sft_truncation == "start" ? Truncation::kStart : Truncation::kDrop;
}

}  // namespace phalanx
