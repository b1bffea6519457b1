#include "phalanx/tokenizer/registry.h"

#include <algorithm>
#include <array>

#include "phalanx/base/error.h"
#include "phalanx/base/lfs_pointer.h"
#include "phalanx/tokenizer/gpt2_bpe.h"
#include "phalanx/tokenizer/hf/hf_tokenizer.h"
#include "phalanx/tokenizer/null_tokenizer.h"
#include "phalanx/tokenizer/sentencepiece_tokenizer.h"
#include "phalanx/tokenizer/tiktoken.h"
#include "phalanx/tokenizer/wordpiece_tokenizer.h"

namespace phalanx {
namespace {

constexpr std::array kTypes = {
    TokenizerType{.name = Gpt2BpeTokenizer::kName,
                  .help = "GPT-2's byte-level BPE (vocab.json and merges.txt)",
                  .needs = "--vocab-file --merge-file",
                  .takes = "--vocab-size",
                  .make = make_gpt2_bpe_tokenizer},
    TokenizerType{.name = WordPieceTokenizer::kLowerCaseName,
                  .help = "BERT's WordPiece (vocab.txt), text in lower case without accents",
                  .needs = "--vocab-file",
                  .takes = "--vocab-extra-ids --vocab-file-only",
                  .make = make_wordpiece_lower_case_tokenizer},
    TokenizerType{.name = WordPieceTokenizer::kCaseName,
                  .help = "BERT's WordPiece (vocab.txt), text as it is",
                  .needs = "--vocab-file",
                  .takes = "--vocab-extra-ids --vocab-file-only",
                  .make = make_wordpiece_case_tokenizer},
    TokenizerType{.name = SentencePieceTokenizer::kMegatronName,
                  .help = "A SentencePiece model (.model), with special tokens behind its pieces",
                  .needs = "--tokenizer-model",
                  .takes = "--vocab-extra-ids",
                  .make = make_sentencepiece_tokenizer},
    TokenizerType{.name = SentencePieceTokenizer::kGptName,
                  .help = "A SentencePiece model (.model) as it is",
                  .needs = "--tokenizer-model",
                  .takes = "--vocab-extra-ids",
                  .make = make_gpt_sentencepiece_tokenizer},
    TokenizerType{.name = SentencePieceTokenizer::kLlama2Name,
                  .help = "A SentencePiece model (.model) in Llama 2's way",
                  .needs = "--tokenizer-model",
                  .takes = "",
                  .make = make_llama2_tokenizer},
    TokenizerType{.name = TiktokenTokenizer::kMegatronName,
                  .help = "Megatron-LM's tiktoken (a JSON list of ranks)",
                  .needs = "--tokenizer-model --tiktoken-pattern",
                  .takes = "--vocab-size --tiktoken-num-special-tokens --tiktoken-special-tokens",
                  .make = make_megatron_tiktoken_tokenizer},
    TokenizerType{.name = TiktokenTokenizer::kOpenAiName,
                  .help = "OpenAI's tiktoken (lines of a token in base64 and its rank)",
                  .needs = "--tokenizer-model --tiktoken-pattern",
                  .takes = "--tiktoken-special-tokens",
                  .make = make_tiktoken_tokenizer},
    TokenizerType{.name = HuggingFaceTokenizer::kName,
                  .help = "Hugging Face's tokenizer.json, or a model's directory that holds one",
                  .needs = "--tokenizer-model",
                  .takes = "",
                  .make = make_hugging_face_tokenizer},
    TokenizerType{.name = NullTokenizer::kName,
                  .help = "Text is ids between blanks",
                  .needs = "--vocab-size",
                  .takes = "",
                  .make = make_null_tokenizer},
};

// A flag of the options, and whether it is given.
struct Given {
  std::string_view flag;
  bool (*is_given)(const TokenizerOptions& options);
};
constexpr std::array kFlags = {
    Given{"--vocab-file", [](const TokenizerOptions& o) { return !o.vocab_file.empty(); }},
    Given{"--merge-file", [](const TokenizerOptions& o) { return !o.merge_file.empty(); }},
    Given{"--tokenizer-model",
          [](const TokenizerOptions& o) { return !o.tokenizer_model.empty(); }},
    Given{"--vocab-size", [](const TokenizerOptions& o) { return o.vocab_size != 0; }},
    Given{"--vocab-extra-ids", [](const TokenizerOptions& o) { return o.vocab_extra_ids != 0; }},
    Given{"--vocab-file-only", [](const TokenizerOptions& o) { return o.vocab_file_only; }},
    Given{"--tiktoken-pattern",
          [](const TokenizerOptions& o) { return !o.tiktoken_pattern.empty(); }},
    Given{"--tiktoken-num-special-tokens",
          [](const TokenizerOptions& o) {
            return o.tiktoken_num_special_tokens != TokenizerOptions{}.tiktoken_num_special_tokens;
          }},
    Given{"--tiktoken-special-tokens",
          [](const TokenizerOptions& o) { return !o.tiktoken_special_tokens.empty(); }},
};

bool names(std::string_view list, std::string_view flag) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == flag) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

void check_flags(const TokenizerType& type, const TokenizerOptions& options) {
  for (const Given& known : kFlags) {
    const bool given = known.is_given(options);
    const bool needed = names(type.needs, known.flag);
    if (needed && !given) {
      throw ConfigError("{} is missing: {} needs it", known.flag, type.name);
    }
    if (given && !needed && !names(type.takes, known.flag)) {
      throw ConfigError("{} does not belong to {}; leave it out", known.flag, type.name);
    }
  }
}

// The first file opens the copies; the others are in the same directory.
void add_hugging_face_files(const std::string& model, std::vector<TokenizerFile>& files) {
  if (model.empty()) return;
  for (const auto& file : hugging_face_tokenizer_files(model)) {
    const std::string name = files.empty() ? "tokenizer.json" : file.filename().string();
    files.push_back({"--tokenizer-model", file.string(), name});
  }
}

}  // namespace

std::span<const TokenizerType> tokenizer_types() { return kTypes; }

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options) {
  const auto type = std::ranges::find(kTypes, options.tokenizer_type, &TokenizerType::name);
  if (type == kTypes.end()) {
    throw ConfigError("--tokenizer-type '{}' is not one of {}", options.tokenizer_type,
                      kTokenizerTypes);
  }
  check_flags(*type, options);
  for (const TokenizerFile& file : tokenizer_files(options)) refuse_lfs_pointer(file.path);
  return type->make(options);
}

std::vector<TokenizerFile> tokenizer_files(const TokenizerOptions& options) {
  std::vector<TokenizerFile> files;
  const auto add = [&](const char* flag, const std::string& path, const char* name) {
    if (!path.empty()) files.push_back({flag, path, name});
  };
  const bool is_wordpiece = options.tokenizer_type.starts_with("BertWordPiece");
  add("--vocab-file", options.vocab_file, is_wordpiece ? "vocab.txt" : "vocab.json");
  add("--merge-file", options.merge_file, "merges.txt");
  if (options.tokenizer_type == HuggingFaceTokenizer::kName) {
    add_hugging_face_files(options.tokenizer_model, files);
  } else {
    add("--tokenizer-model", options.tokenizer_model, "tokenizer.model");
  }
  return files;
}

}  // namespace phalanx
