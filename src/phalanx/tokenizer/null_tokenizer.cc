#include "phalanx/tokenizer/null_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

constexpr std::string_view kWhitespace = " \t\n\v\f\r";
constexpr std::size_t kLongestShownWord = 40;

}  // namespace

NullTokenizer::NullTokenizer(std::int64_t vocab_size) : end_of_document_(0) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  if (vocab_size < 1 || vocab_size >= kLimit) {
    throw ConfigError("--vocab-size {} is out of range: {} takes 1 to {}", vocab_size, kName,
                      kLimit - 1);
  }
  end_of_document_ = static_cast<std::int32_t>(vocab_size);
}

std::vector<std::int32_t> NullTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  std::size_t begin = text.find_first_not_of(kWhitespace);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kWhitespace, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    std::int32_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc{} || stop != word.data() + word.size() || id < 0 ||
        id > end_of_document_) {
      throw DataError("{}: '{}' (word {}, byte {}) is not an integer from 0 to {}", kName,
                      word.substr(0, kLongestShownWord), ids.size() + 1, begin, end_of_document_);
    }
    ids.push_back(id);
    begin = text.find_first_not_of(kWhitespace, end);
  }
  return ids;
}

std::string NullTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const auto id : ids) {
    if (id < 0 || id > end_of_document_) {
      throw DataError("{}: token id {} is outside 0 to {}", kName, id, end_of_document_);
    }
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : " ", id);
  }
  return text;
}

}  // namespace phalanx
