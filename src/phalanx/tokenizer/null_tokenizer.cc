#include "phalanx/tokenizer/null_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "phalanx/base/error.h"
#include "phalanx/base/parse_number.h"

namespace phalanx {
namespace {

constexpr std::string_view kWhitespace = " \t\n\v\f\r";
constexpr std::size_t kLongestShownWord = 40;

}  // namespace

NullTokenizer::NullTokenizer(std::int64_t vocab_size) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  if (vocab_size < 1 || vocab_size >= kLimit) {
    throw ConfigError("--vocab-size {} is out of range: {} takes 1 to {}", vocab_size, kName,
                      kLimit - 1);
  }
  special_.eod = static_cast<std::int32_t>(vocab_size);
}

std::vector<std::int32_t> NullTokenizer::encode_text(std::string_view text,
                                                     const EncodeOptions& /*options*/) const {
  std::vector<std::int32_t> ids;
  std::size_t begin = text.find_first_not_of(kWhitespace);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kWhitespace, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const auto id = parse_number<std::int32_t>(word);
    if (!id || *id < 0 || *id > *special_.eod) {
      throw DataError("{}: '{}' (word {}, byte {}) is not an integer from 0 to {}", kName,
                      word.substr(0, kLongestShownWord), ids.size() + 1, begin, *special_.eod);
    }
    ids.push_back(*id);
    begin = text.find_first_not_of(kWhitespace, end);
  }
  return ids;
}

std::string NullTokenizer::piece(std::int32_t id) const {
  if (id < 0 || id > *special_.eod) {
    throw DataError("{}: token id {} is outside 0 to {}", kName, id, *special_.eod);
  }
  return std::to_string(id);
}

std::string NullTokenizer::decode_ids(std::span<const std::int32_t> ids,
                                      const DecodeOptions& options) const {
  std::string text;
  for (const auto id : ids) {
    const std::string word = piece(id);
    if (options.skip_special && id == *special_.eod) continue;
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

std::unique_ptr<Tokenizer> make_null_tokenizer(const TokenizerOptions& options) {
  return std::make_unique<NullTokenizer>(options.vocab_size);
}

}  // namespace phalanx
