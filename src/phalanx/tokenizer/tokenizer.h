#pragma once
// Tokenizers: text to token ids and back. A Tokenizer is immutable after construction, so any
// number of threads may share one. Type names and flags are Megatron-LM's.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The --tokenizer-type it answers to.
  virtual std::string_view name() const = 0;
  // Number of ids, before any padding; ids are 0 .. vocab_size() - 1.
  virtual std::int64_t vocab_size() const = 0;
  // The id that closes a document ("eod").
  virtual std::int32_t end_of_document() const = 0;

  // Text is data: nothing in it is read as a special token, so encode adds and finds no end of
  // document (NullTokenizer, whose text is the ids themselves, excepted). DataError where the text
  // has no encoding.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  // DataError for an id outside 0 .. vocab_size() - 1.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
};

struct TokenizerOptions {
  std::string type;                  // --tokenizer-type: GPT2BPETokenizer or NullTokenizer
  std::filesystem::path vocab_file;  // --vocab-file (GPT2BPETokenizer)
  std::filesystem::path merge_file;  // --merge-file (GPT2BPETokenizer)
  std::int64_t vocab_size = 0;       // --vocab-size (NullTokenizer); 0 = not given
};

// ConfigError names the flag that is unknown, missing or does not belong to the type; DataError and
// InputMissingError name the file.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options);

}  // namespace phalanx
