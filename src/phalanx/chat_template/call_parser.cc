// What is called by name in an expression: functions, macros, methods, filters and tests.

#include <utility>

#include "phalanx/chat_template/builtins.h"
#include "phalanx/chat_template/expression_parser.h"

namespace phalanx::jinja {
namespace {

using Kind = Expression::Kind;

}  // namespace

ExpressionPointer ExpressionParser::call(ExpressionPointer from) {
  const int line = from->line;
  if (from->kind == Kind::kName) {
    Expression whole = made(Kind::kCall, line);
    whole.name = from->name;
    if (whole.name == "loop") {
      tokens_.place().refuse(line, "loop() of recursive loops is not supported");
    }
    if (find_function(whole.name).is_none()) calls_.emplace_back(whole.name, line);
    arguments(whole);
    return finish(std::move(whole));
  }
  if (from->kind != Kind::kAttribute) {
    tokens_.place().refuse(line, "only functions, macros and methods can be called");
  }
  Expression whole = made(Kind::kMethod, line);
  whole.name = from->name;
  whole.method = find_method(whole.name);
  if (whole.method == nullptr) {
    tokens_.place().refuse(line, "the method '{}' is not supported", whole.name);
  }
  whole.parts.push_back(std::move(from->parts[0]));
  arguments(whole);
  return finish(std::move(whole));
}

void ExpressionParser::arguments(Expression& into) {
  tokens_.expect_operator("(");
  bool is_first = true;
  while (!tokens_.is_operator(")")) {
    if (!is_first) tokens_.expect_operator(",");
    if (tokens_.is_operator(")")) break;
    is_first = false;
    if (tokens_.is_operator("*") || tokens_.is_operator("**")) {
      tokens_.place().refuse(tokens_.line(), "{} in a call is not supported",
                             tokens_.current().text);
    }
    if (tokens_.current().kind == TokenKind::kName &&
        tokens_.next().is(TokenKind::kOperator, "=")) {
      std::string name = tokens_.take().text;
      tokens_.take();
      into.named.emplace_back(std::move(name), expression());
      continue;
    }
    if (!into.named.empty()) {
      tokens_.place().reject(tokens_.line(), "an argument without a name behind one with a name");
    }
    into.parts.push_back(expression());
  }
  tokens_.expect_operator(")");
}

ExpressionPointer ExpressionParser::filters(ExpressionPointer from) {
  while (tokens_.is_operator("|")) from = filter(std::move(from));
  return from;
}

ExpressionPointer ExpressionParser::filter(ExpressionPointer from) {
  tokens_.expect_operator("|");
  Expression whole = made_of(Kind::kFilter, tokens_.line(), std::move(from));
  whole.name = tokens_.expect_name();
  while (tokens_.skip_operator(".")) whole.name += '.' + tokens_.expect_name();
  whole.filter = find_filter(whole.name);
  if (whole.filter == nullptr) {
    tokens_.place().refuse(whole.line, "the filter '{}' is not supported", whole.name);
  }
  if (tokens_.is_operator("(")) arguments(whole);
  check_named_entries(whole);
  return finish(std::move(whole));
}

// Filters and tests that a filter calls by name.
void ExpressionParser::check_named_entries(const Expression& filter) const {
  const auto text_at = [&](std::size_t i) -> const Text* {
    return i < filter.parts.size() ? filter.parts[i]->constant.text() : nullptr;
  };
  if (filter.name == "map") {
    const Text* name = text_at(1);
    if (name != nullptr && find_filter(name->bytes) == nullptr) {
      tokens_.place().refuse(filter.line, "the filter '{}' is not supported", name->bytes);
    }
  }
  const bool by_attribute = filter.name == "selectattr" || filter.name == "rejectattr";
  if (by_attribute || filter.name == "select" || filter.name == "reject") {
    const Text* name = text_at(by_attribute ? 2 : 1);
    if (name != nullptr && find_test(name->bytes) == nullptr) {
      tokens_.place().refuse(filter.line, "the test '{}' is not supported", name->bytes);
    }
  }
}

ExpressionPointer ExpressionParser::test(ExpressionPointer from) {
  const int line = tokens_.line();
  tokens_.take();
  const bool is_negated = tokens_.skip_name("not");
  Expression whole = made_of(Kind::kTest, line, std::move(from));
  whole.name = tokens_.expect_name();
  while (tokens_.skip_operator(".")) whole.name += '.' + tokens_.expect_name();
  whole.test = find_test(whole.name);
  if (whole.test == nullptr) {
    tokens_.place().refuse(line, "the test '{}' is not supported", whole.name);
  }
  const TokenKind kind = tokens_.current().kind;
  if (tokens_.is_operator("(")) {
    arguments(whole);
  } else if (kind == TokenKind::kString || kind == TokenKind::kInteger ||
             kind == TokenKind::kFloat || tokens_.is_operator("[") || tokens_.is_operator("{") ||
             (kind == TokenKind::kName && !tokens_.is_name("else") && !tokens_.is_name("or") &&
              !tokens_.is_name("and"))) {
    if (tokens_.is_name("is")) tokens_.place().reject(line, "'is' behind a test");
    whole.parts.push_back(postfix(primary()));
  }
  const std::size_t expected = whole.test->takes_argument ? 2 : 1;
  if (whole.parts.size() != expected || !whole.named.empty()) {
    tokens_.place().reject(line, "the test '{}' takes {}", whole.name,
                           expected == 2 ? "one argument" : "no argument");
  }
  ExpressionPointer tested = finish(std::move(whole));
  return is_negated ? finish(made_of(Kind::kNot, line, std::move(tested))) : std::move(tested);
}

}  // namespace phalanx::jinja
