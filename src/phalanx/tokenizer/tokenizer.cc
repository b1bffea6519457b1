#include "phalanx/tokenizer/tokenizer.h"

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/gpt2_bpe.h"
#include "phalanx/tokenizer/null_tokenizer.h"

namespace phalanx {
namespace {

std::unique_ptr<Tokenizer> make_gpt2_bpe(const TokenizerOptions& options) {
  if (options.vocab_file.empty()) {
    throw ConfigError("--vocab-file is missing: {} reads a vocab.json", options.type);
  }
  if (options.merge_file.empty()) {
    throw ConfigError("--merge-file is missing: {} reads a merges.txt", options.type);
  }
  auto tokenizer =
      std::make_unique<Gpt2BpeTokenizer>(read_bpe_files(options.vocab_file, options.merge_file));
  if (options.vocab_size != 0 && options.vocab_size != tokenizer->vocab_size()) {
    throw ConfigError("--vocab-size {} contradicts {}, which has {} tokens; leave the flag out",
                      options.vocab_size, options.vocab_file.string(), tokenizer->vocab_size());
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> make_null(const TokenizerOptions& options) {
  if (!options.vocab_file.empty() || !options.merge_file.empty()) {
    throw ConfigError("--{}-file does not belong to {}, which reads no file; leave it out",
                      options.vocab_file.empty() ? "merge" : "vocab", options.type);
  }
  if (options.vocab_size == 0) {
    throw ConfigError("--vocab-size is missing: {} needs the number of ids", options.type);
  }
  return std::make_unique<NullTokenizer>(options.vocab_size);
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options) {
  if (options.type == Gpt2BpeTokenizer::kName) return make_gpt2_bpe(options);
  if (options.type == NullTokenizer::kName) return make_null(options);
  throw ConfigError("--tokenizer-type '{}' is not one of {}, {}", options.type,
                    Gpt2BpeTokenizer::kName, NullTokenizer::kName);
}

}  // namespace phalanx
