#pragma once
// Expressions of a template. Jinja's own grammar, rule by rule, so that what it refuses is refused.

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/chat_template/lexer.h"
#include "phalanx/chat_template/syntax.h"

namespace phalanx::jinja {

inline constexpr int kMostNested = 100;

// The tokens, and the place among them.
class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, const Place& place)
      : tokens_(std::move(tokens)), place_(place) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  Token take() {
    Token taken = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return taken;
  }
  bool is_operator(std::string_view text) const { return current().is(TokenKind::kOperator, text); }
  bool is_name(std::string_view text) const { return current().is(TokenKind::kName, text); }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name();
  // The current token where another is expected.
  [[noreturn]] void unexpected(std::string_view expected) const;
  const Place& place() const { return place_; }

 private:
  std::vector<Token> tokens_;
  const Place& place_;
  std::size_t at_ = 0;
};

// Expressions of these parts.
inline Expression made(Expression::Kind kind, int line) {
  Expression expression;
  expression.kind = kind;
  expression.line = line;
  return expression;
}

template <typename... Parts>
Expression made_of(Expression::Kind kind, int line, Parts... parts) {
  Expression expression = made(kind, line);
  (expression.parts.push_back(std::move(parts)), ...);
  return expression;
}

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPointer expression();
  // Without `a if b else c` of its own.
  ExpressionPointer simple_expression();
  // What commas make a tuple.
  ExpressionPointer tuple(bool with_conditional, bool may_be_empty = false);
  // kName or kTuple of them; with_attribute: or the attribute of a namespace.
  ExpressionPointer target(bool with_attribute);
  // |a|b ... applied to an expression.
  ExpressionPointer filters(ExpressionPointer from);

  // Functions that are called: (name, line) of those that must be macros of the template.
  const std::vector<std::pair<std::string, int>>& calls() const { return calls_; }

 private:
  class Deeper;

  ExpressionPointer or_expression();
  ExpressionPointer and_expression();
  ExpressionPointer not_expression();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(bool with_filters);
  ExpressionPointer primary();
  ExpressionPointer list();
  ExpressionPointer dict();
  ExpressionPointer postfix(ExpressionPointer from);
  ExpressionPointer subscript(ExpressionPointer from);
  ExpressionPointer slice_or_item(ExpressionPointer from, int line);
  ExpressionPointer call(ExpressionPointer from);
  ExpressionPointer filter(ExpressionPointer from);
  ExpressionPointer test(ExpressionPointer from);
  void arguments(Expression& into);
  void check_name(const std::string& name, int line) const;
  void check_named_entries(const Expression& filter) const;
  ExpressionPointer finish(Expression&& made) const;

  TokenStream& tokens_;
  int nested_ = 0;
  std::vector<std::pair<std::string, int>> calls_;
};

}  // namespace phalanx::jinja
