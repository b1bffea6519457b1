#pragma once
// Tokenizers: text to token ids and back. A Tokenizer is immutable after construction, so any
// number of threads may share one. Which types there are and what makes them is in registry.h.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx {

// The ids of tokens that have a meaning of their own; absent where a type has no such token.
struct SpecialTokens {
  std::optional<std::int32_t> unk, cls, sep, mask, pad, bos, eos;
  std::optional<std::int32_t> eod;            // closes a document
  std::optional<std::int32_t> decoder_start;  // what a decoder reads first, where files say it
  std::vector<std::int32_t> sentinels;        // <extra_id_0>, <extra_id_1>, ...
};

// How text becomes ids. As it stands text is data: nothing in it is read as a special token, and
// none is added (NullTokenizer, whose text is the ids themselves, excepted).
struct EncodeOptions {
  bool parse_special = false;  // special tokens written in the text become their ids
  bool add_special = false;    // adds the tokens that the type puts around a text
};

struct DecodeOptions {
  bool skip_special = false;  // leaves special tokens out of the text
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The --tokenizer-type it answers to.
  virtual std::string_view name() const = 0;
  // Number of ids, before any padding; ids are 0 .. vocab_size() - 1.
  virtual std::int64_t vocab_size() const = 0;
  virtual const SpecialTokens& special_tokens() const = 0;
  // A token as its vocabulary writes it; empty for an id between the others that no token has.
  // DataError for an id outside 0 .. vocab_size() - 1.
  virtual std::string piece(std::int32_t id) const = 0;

  // DataError where the text has no encoding.
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const {
    return encode_text(text, options);
  }
  // DataError for an id outside 0 .. vocab_size() - 1.
  std::string decode(std::span<const std::int32_t> ids, const DecodeOptions& options = {}) const {
    return decode_ids(ids, options);
  }
  // The id that closes a document; -1 where there is none.
  std::int32_t end_of_document() const { return special_tokens().eod.value_or(-1); }

 protected:
  void expect_known(std::int32_t id) const {
    if (id >= 0 && id < vocab_size()) return;
    throw DataError("{}: token id {} is outside the vocabulary, 0 to {}", name(), id,
                    vocab_size() - 1);
  }

 private:
  virtual std::vector<std::int32_t> encode_text(std::string_view text,
                                                const EncodeOptions& options) const = 0;
  virtual std::string decode_ids(std::span<const std::int32_t> ids,
                                 const DecodeOptions& options) const = 0;
};

}  // namespace phalanx
