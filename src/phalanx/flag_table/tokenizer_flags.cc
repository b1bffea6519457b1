#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

constexpr TrainFlag kTokenizerRows[] = {
    works<&TokenizerOptions::tokenizer_type>(kTokenizer, {.name = "--tokenizer-type",
                                                          .help = "What makes ids of text",
                                                          .choices = kTokenizerTypes,
                                                          .resume = ResumeClass::kShape}),
    works<&TokenizerOptions::vocab_file>(kTokenizer,
                                         {.name = "--vocab-file",
                                          .help = "vocab.json or vocab.txt, the same one on resume",
                                          .value_name = "FILE"}),
    works<&TokenizerOptions::merge_file>(kTokenizer, {.name = "--merge-file",
                                                      .help = "merges.txt, the same one on resume",
                                                      .value_name = "FILE"}),
    works<&TokenizerOptions::tokenizer_model>(
        kTokenizer, {.name = "--tokenizer-model",
                     .help = "Of SentencePiece, tiktoken or Hugging Face; the same one on resume",
                     .value_name = "PATH"}),
    works<&TokenizerOptions::vocab_size>(
        kTokenizer, {.name = "--vocab-size",
                     .help = "Ids of a NullTokenizer, end-of-document not counted; of a "
                             "TikTokenizer, all of them",
                     .range = from_to(0, kMostInt32 - 1),
                     .resume = ResumeClass::kShape}),
    works<&TokenizerOptions::vocab_extra_ids>(
        kTokenizer, {.name = "--vocab-extra-ids",
                     .help = "Sentinels (<extra_id_0>, ...) behind the vocabulary",
                     .range = from_to(0, 1 << 20),
                     .resume = ResumeClass::kShape}),
    works<&TokenizerOptions::vocab_file_only>(
        kTokenizer, {.name = "--vocab-file-only",
                     .help = "No [BOS] and [EOS] behind the lines of a vocab.txt: [SEP] closes a "
                             "document, as Hugging Face's BERT has it",
                     .resume = ResumeClass::kShape}),
    works<&TokenizerOptions::tiktoken_pattern>(
        kTokenizer, {.name = "--tiktoken-pattern",
                     .help = "How a tiktoken tokenizer cuts text into words",
                     .choices = "v1 v2 gpt2 cl100k o200k llama3 qwen2",
                     .resume = ResumeClass::kFixed}),
    works<&TokenizerOptions::tiktoken_num_special_tokens>(
        kTokenizer, {.name = "--tiktoken-num-special-tokens",
                     .help = "Special tokens before the others",
                     .range = from_to(0, 1 << 20),
                     .resume = ResumeClass::kShape}),
    works<&TokenizerOptions::tiktoken_special_tokens>(
        kTokenizer, {.name = "--tiktoken-special-tokens",
                     .help = "Their names, tiktoken's also NAME=ID (default: "
                             "Megatron's; of tiktoken, none)",
                     .value_name = "TOKEN",
                     .resume = ResumeClass::kShape}),
};

}  // namespace

std::span<const TrainFlag> tokenizer_flags() { return kTokenizerRows; }

}  // namespace phalanx
