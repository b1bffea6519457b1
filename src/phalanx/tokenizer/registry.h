#pragma once
// The types of tokenizers: what each is called, the flags that it needs and takes, and what makes
// it. Names and flags are Megatron-LM's.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// Fields are named after their flags. Empty and 0: not given.
struct TokenizerOptions {
  std::string tokenizer_type = "GPT2BPETokenizer";
  std::string vocab_file = {};
  std::string merge_file = {};
  std::string tokenizer_model = {};  // a file, or a directory of Hugging Face's
  std::int64_t vocab_size = 0;
  std::int64_t vocab_extra_ids = 0;  // sentinels behind the vocabulary
  bool vocab_file_only = false;      // no [BOS] and [EOS] behind a vocab.txt
  std::string tiktoken_pattern = {};
  std::int64_t tiktoken_num_special_tokens = 1000;
  std::vector<std::string> tiktoken_special_tokens = {};
};

// A row of the registry. Flags are words between blanks: "--vocab-file --merge-file".
struct TokenizerType {
  std::string_view name;
  std::string_view help;   // a line: what it is
  std::string_view needs;  // flags without which it cannot be made
  std::string_view takes;  // and those that it may be given beside
  std::unique_ptr<Tokenizer> (*make)(const TokenizerOptions& options);
};

std::span<const TokenizerType> tokenizer_types();
// Their names between blanks, for the rows of flags.
inline constexpr std::string_view kTokenizerTypes =
    "GPT2BPETokenizer BertWordPieceLowerCase BertWordPieceCase SentencePieceTokenizer "
    "GPTSentencePieceTokenizer Llama2Tokenizer TikTokenizer tiktoken HuggingFaceTokenizer "
    "NullTokenizer";

// ConfigError names the flag that is unknown, missing or does not belong to the type; DataError and
// InputMissingError name the file.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options);

// A file that a tokenizer is read from: whoever keeps a copy of it can make the same one.
struct TokenizerFile {
  std::string flag;  // that names it
  std::string path;
  std::string name;  // of the copy
};
// The files that the options name, whether they exist or not.
std::vector<TokenizerFile> tokenizer_files(const TokenizerOptions& options);

}  // namespace phalanx
