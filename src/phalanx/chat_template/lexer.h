#pragma once
// A template's text, cut into tokens. Here blanks around tags go (trim_blocks, lstrip_blocks, - and
// +), and comments.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/chat_template/place.h"

namespace phalanx::jinja {

enum class TokenKind {
  kText,        // between tags
  kBlockBegin,  // {%
  kBlockEnd,
  kPrintBegin,  // {{
  kPrintEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // of a string its value, without quotes and escapes
  int line = 0;
  std::int64_t integer = 0;
  double real = 0;

  bool is(TokenKind what, std::string_view written) const {
    return kind == what && text == written;
  }
};

// The last token is kEnd. DataError where a tag has no end or a character belongs to nothing.
std::vector<Token> tokens_of(std::string_view source, const Place& place);

}  // namespace phalanx::jinja
