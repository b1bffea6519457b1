#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

using enum ResumeClass;

constexpr TrainFlag kTokenizerRows[] = {
    works<&TokenizerOptions::tokenizer_type>(kTokenizer, "--tokenizer-type",
                                             "What makes ids of text",
                                             {.choices = kTokenizerTypes, .resume = kShape}),
    works<&TokenizerOptions::vocab_file>(kTokenizer, "--vocab-file",
                                         "vocab.json or vocab.txt, the same one on resume",
                                         {.value_name = "FILE"}),
    works<&TokenizerOptions::merge_file>(
        kTokenizer, "--merge-file", "merges.txt, the same one on resume", {.value_name = "FILE"}),
    works<&TokenizerOptions::tokenizer_model>(
        kTokenizer, "--tokenizer-model",
        "Of SentencePiece, tiktoken or Hugging Face; the same one on resume",
        {.value_name = "PATH"}),
    works<&TokenizerOptions::vocab_size>(
        kTokenizer, "--vocab-size",
        "Ids of a NullTokenizer, end-of-document not counted; of a TikTokenizer, all of them",
        {.range = from_to(0, kMostInt32 - 1), .resume = kShape}),
    works<&TokenizerOptions::vocab_extra_ids>(kTokenizer, "--vocab-extra-ids",
                                              "Sentinels (<extra_id_0>, ...) behind the vocabulary",
                                              {.range = from_to(0, 1 << 20), .resume = kShape}),
    works<&TokenizerOptions::vocab_file_only>(
        kTokenizer, "--vocab-file-only",
        "No [BOS] and [EOS] behind the lines of a vocab.txt: [SEP] closes a document, as Hugging "
        "Face's BERT has it",
        {.resume = kShape}),
    works<&TokenizerOptions::tiktoken_pattern>(
        kTokenizer, "--tiktoken-pattern", "How a tiktoken tokenizer cuts text into words",
        {.choices = "v1 v2 gpt2 cl100k o200k llama3 qwen2", .resume = kFixed}),
    works<&TokenizerOptions::tiktoken_num_special_tokens>(
        kTokenizer, "--tiktoken-num-special-tokens", "Special tokens before the others",
        {.range = from_to(0, 1 << 20), .resume = kShape}),
    works<&TokenizerOptions::tiktoken_special_tokens>(
        kTokenizer, "--tiktoken-special-tokens",
        "Their names, tiktoken's also NAME=ID (default: Megatron's; of tiktoken, none)",
        {.value_name = "TOKEN", .resume = kShape}),
};

}  // namespace

std::span<const TrainFlag> tokenizer_flags() { return kTokenizerRows; }

}  // namespace phalanx
