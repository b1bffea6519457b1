#include "phalanx/chat_template/expression_parser.h"

#include <algorithm>
#include <array>
#include <optional>

namespace phalanx::jinja {
namespace {

using Kind = Expression::Kind;

using Written = std::pair<std::string_view, Operator>;
constexpr auto kSums = std::to_array<Written>({{"+", Operator::kAdd}, {"-", Operator::kSubtract}});
constexpr auto kProducts = std::to_array<Written>({{"*", Operator::kMultiply},
                                                   {"/", Operator::kDivide},
                                                   {"//", Operator::kFloorDivide},
                                                   {"%", Operator::kModulo}});
constexpr auto kPowers = std::to_array<Written>({{"**", Operator::kPower}});
constexpr auto kComparisons = std::to_array<Written>({{"==", Operator::kEqual},
                                                      {"!=", Operator::kUnequal},
                                                      {"<", Operator::kLess},
                                                      {"<=", Operator::kLessEqual},
                                                      {">", Operator::kGreater},
                                                      {">=", Operator::kGreaterEqual}});

template <std::size_t kSize>
std::optional<Operator> skip_one_of(TokenStream& tokens,
                                    const std::array<Written, kSize>& written) {
  for (const auto& [text, meaning] : written) {
    if (tokens.skip_operator(text)) return meaning;
  }
  return std::nullopt;
}

}  // namespace

bool TokenStream::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  take();
  return true;
}

bool TokenStream::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

void TokenStream::expect_operator(std::string_view text) {
  if (!skip_operator(text)) unexpected(text);
}

std::string TokenStream::expect_name() {
  if (current().kind != TokenKind::kName) unexpected("a name");
  return take().text;
}

void TokenStream::unexpected(std::string_view expected) const {
  place_.reject(line(), "{} where {} is expected", current().text, expected);
}

// One expression more around what is read.
class ExpressionParser::Deeper {
 public:
  explicit Deeper(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.nested_ > kMostNested) {
      parser_.tokens_.place().refuse(parser_.tokens_.line(),
                                     "expressions are nested more than {} deep", kMostNested);
    }
  }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  ~Deeper() { --parser_.nested_; }

 private:
  ExpressionParser& parser_;
};

ExpressionPointer ExpressionParser::finish(Expression&& made) const {
  const auto deepen = [&](const ExpressionPointer& part) {
    if (part != nullptr) made.depth = std::max(made.depth, part->depth + 1);
  };
  for (const auto& part : made.parts) deepen(part);
  for (const auto& [name, part] : made.named) deepen(part);
  if (made.depth > kMostNested) {
    tokens_.place().refuse(made.line, "expressions are nested more than {} deep", kMostNested);
  }
  return std::make_unique<Expression>(std::move(made));
}

ExpressionPointer ExpressionParser::expression() {
  const Deeper deeper(*this);
  const int line = tokens_.line();
  ExpressionPointer value = or_expression();
  while (tokens_.skip_name("if")) {
    ExpressionPointer condition = or_expression();
    ExpressionPointer otherwise;
    if (tokens_.skip_name("else")) otherwise = expression();
    value = finish(made_of(Kind::kConditional, line, std::move(condition), std::move(value),
                           std::move(otherwise)));
  }
  return value;
}

ExpressionPointer ExpressionParser::simple_expression() {
  const Deeper deeper(*this);
  return or_expression();
}

ExpressionPointer ExpressionParser::or_expression() {
  const int line = tokens_.line();
  ExpressionPointer left = and_expression();
  while (tokens_.skip_name("or")) {
    left = finish(made_of(Kind::kOr, line, std::move(left), and_expression()));
  }
  return left;
}

ExpressionPointer ExpressionParser::and_expression() {
  const int line = tokens_.line();
  ExpressionPointer left = not_expression();
  while (tokens_.skip_name("and")) {
    left = finish(made_of(Kind::kAnd, line, std::move(left), not_expression()));
  }
  return left;
}

ExpressionPointer ExpressionParser::not_expression() {
  const int line = tokens_.line();
  if (!tokens_.skip_name("not")) return comparison();
  const Deeper deeper(*this);
  return finish(made_of(Kind::kNot, line, not_expression()));
}

ExpressionPointer ExpressionParser::comparison() {
  Expression compared = made(Kind::kComparison, tokens_.line());
  compared.parts.push_back(sum());
  for (;;) {
    std::optional<Operator> found = skip_one_of(tokens_, kComparisons);
    if (!found && tokens_.skip_name("in")) found = Operator::kIn;
    if (!found && tokens_.is_name("not") && tokens_.next().is(TokenKind::kName, "in")) {
      tokens_.take();
      tokens_.take();
      found = Operator::kNotIn;
    }
    if (!found) break;
    compared.operators.push_back(*found);
    compared.parts.push_back(sum());
  }
  if (compared.operators.empty()) return std::move(compared.parts[0]);
  return finish(std::move(compared));
}

ExpressionPointer ExpressionParser::sum() {
  const int line = tokens_.line();
  ExpressionPointer left = concatenation();
  while (const auto found = skip_one_of(tokens_, kSums)) {
    Expression whole = made_of(Kind::kArithmetic, line, std::move(left), concatenation());
    whole.operators = {*found};
    left = finish(std::move(whole));
  }
  return left;
}

ExpressionPointer ExpressionParser::concatenation() {
  Expression joined = made_of(Kind::kConcat, tokens_.line(), product());
  while (tokens_.skip_operator("~")) joined.parts.push_back(product());
  if (joined.parts.size() == 1) return std::move(joined.parts[0]);
  return finish(std::move(joined));
}

ExpressionPointer ExpressionParser::product() {
  const int line = tokens_.line();
  ExpressionPointer left = power();
  while (const auto found = skip_one_of(tokens_, kProducts)) {
    Expression whole = made_of(Kind::kArithmetic, line, std::move(left), power());
    whole.operators = {*found};
    left = finish(std::move(whole));
  }
  return left;
}

ExpressionPointer ExpressionParser::power() {
  const int line = tokens_.line();
  ExpressionPointer left = unary(true);
  while (const auto found = skip_one_of(tokens_, kPowers)) {
    Expression whole = made_of(Kind::kArithmetic, line, std::move(left), unary(true));
    whole.operators = {*found};
    left = finish(std::move(whole));
  }
  return left;
}

ExpressionPointer ExpressionParser::unary(bool with_filters) {
  const Deeper deeper(*this);
  const int line = tokens_.line();
  ExpressionPointer value;
  if (tokens_.skip_operator("-")) {
    value = finish(made_of(Kind::kNegative, line, unary(false)));
  } else if (tokens_.skip_operator("+")) {
    value = finish(made_of(Kind::kPositive, line, unary(false)));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  while (with_filters) {
    if (tokens_.is_operator("|")) {
      value = filter(std::move(value));
    } else if (tokens_.is_name("is")) {
      value = test(std::move(value));
    } else if (tokens_.is_operator("(")) {
      value = call(std::move(value));
    } else {
      break;
    }
  }
  return value;
}

void ExpressionParser::check_name(const std::string& name, int line) const {
  constexpr auto kRefused = std::to_array<std::string_view>(
      {"caller", "varargs", "kwargs", "self", "super", "lipsum", "cycler", "joiner"});
  if (std::ranges::find(kRefused, name) != kRefused.end()) {
    tokens_.place().refuse(line, "the name '{}' is not supported", name);
  }
}

ExpressionPointer ExpressionParser::primary() {
  const Token token = tokens_.current();
  Expression value = made(Kind::kConstant, token.line);
  switch (token.kind) {
    case TokenKind::kName:
      tokens_.take();
      if (token.text == "true" || token.text == "True") {
        value.constant = Value(true);
      } else if (token.text == "false" || token.text == "False") {
        value.constant = Value(false);
      } else if (token.text != "none" && token.text != "None") {
        check_name(token.text, token.line);
        value.kind = Kind::kName;
        value.name = token.text;
      }
      return finish(std::move(value));
    case TokenKind::kString: {
      std::string text;
      while (tokens_.current().kind == TokenKind::kString) text += tokens_.take().text;
      value.constant = text_value(std::move(text));
      return finish(std::move(value));
    }
    case TokenKind::kInteger:
      value.constant = Value(tokens_.take().integer);
      return finish(std::move(value));
    case TokenKind::kFloat:
      value.constant = Value(tokens_.take().real);
      return finish(std::move(value));
    default:
      break;
  }
  if (tokens_.skip_operator("(")) {
    ExpressionPointer inside = tuple(true, true);
    tokens_.expect_operator(")");
    return inside;
  }
  if (tokens_.is_operator("[")) return list();
  if (tokens_.is_operator("{")) return dict();
  tokens_.unexpected("an expression");
}

ExpressionPointer ExpressionParser::tuple(bool with_conditional, bool may_be_empty) {
  Expression whole = made(Kind::kTuple, tokens_.line());
  bool is_tuple = false;
  for (;;) {
    if (!whole.parts.empty()) tokens_.expect_operator(",");
    const TokenKind kind = tokens_.current().kind;
    if (kind == TokenKind::kPrintEnd || kind == TokenKind::kBlockEnd || tokens_.is_operator(")")) {
      break;
    }
    whole.parts.push_back(with_conditional ? expression() : simple_expression());
    if (!tokens_.is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !whole.parts.empty()) return std::move(whole.parts[0]);
  if (!is_tuple && !may_be_empty) tokens_.unexpected("an expression");
  return finish(std::move(whole));
}

ExpressionPointer ExpressionParser::target(bool with_attribute) {
  const Deeper deeper(*this);
  Expression whole = made(Kind::kTuple, tokens_.line());
  bool is_tuple = false;
  for (;;) {
    if (!whole.parts.empty()) tokens_.expect_operator(",");
    if (tokens_.current().kind == TokenKind::kBlockEnd || tokens_.is_operator(")") ||
        tokens_.is_name("in")) {
      break;
    }
    const int line = tokens_.line();
    if (tokens_.skip_operator("(")) {
      whole.parts.push_back(target(with_attribute));
      tokens_.expect_operator(")");
    } else {
      Expression name = made(Kind::kName, line);
      name.name = tokens_.expect_name();
      check_name(name.name, line);
      constexpr auto kConstants = std::to_array<std::string_view>(
          {"true", "True", "false", "False", "none", "None", "loop"});
      if (std::ranges::find(kConstants, name.name) != kConstants.end()) {
        tokens_.place().reject(line, "nothing can be assigned to '{}'", name.name);
      }
      if (with_attribute && tokens_.skip_operator(".")) {
        Expression attribute = made_of(Kind::kAttribute, line, finish(std::move(name)));
        attribute.name = tokens_.expect_name();
        whole.parts.push_back(finish(std::move(attribute)));
      } else {
        whole.parts.push_back(finish(std::move(name)));
      }
    }
    if (!tokens_.is_operator(",")) break;
    is_tuple = true;
  }
  if (whole.parts.empty()) tokens_.unexpected("a name");
  if (!is_tuple) return std::move(whole.parts[0]);
  return finish(std::move(whole));
}

ExpressionPointer ExpressionParser::list() {
  Expression whole = made(Kind::kList, tokens_.line());
  tokens_.expect_operator("[");
  while (!tokens_.is_operator("]")) {
    if (!whole.parts.empty()) tokens_.expect_operator(",");
    if (tokens_.is_operator("]")) break;
    whole.parts.push_back(expression());
  }
  tokens_.expect_operator("]");
  return finish(std::move(whole));
}

ExpressionPointer ExpressionParser::dict() {
  Expression whole = made(Kind::kDict, tokens_.line());
  tokens_.expect_operator("{");
  while (!tokens_.is_operator("}")) {
    if (!whole.parts.empty()) tokens_.expect_operator(",");
    if (tokens_.is_operator("}")) break;
    whole.parts.push_back(expression());
    tokens_.expect_operator(":");
    whole.parts.push_back(expression());
  }
  tokens_.expect_operator("}");
  return finish(std::move(whole));
}

ExpressionPointer ExpressionParser::postfix(ExpressionPointer from) {
  for (;;) {
    if (tokens_.is_operator(".") || tokens_.is_operator("[")) {
      from = subscript(std::move(from));
    } else if (tokens_.is_operator("(")) {
      from = call(std::move(from));
    } else {
      return from;
    }
  }
}

ExpressionPointer ExpressionParser::subscript(ExpressionPointer from) {
  const int line = tokens_.line();
  if (tokens_.skip_operator("[")) {
    ExpressionPointer item = slice_or_item(std::move(from), line);
    tokens_.expect_operator("]");
    return item;
  }
  tokens_.expect_operator(".");
  if (tokens_.current().kind == TokenKind::kInteger) {
    Expression place = made(Kind::kConstant, line);
    place.constant = Value(tokens_.take().integer);
    return finish(made_of(Kind::kItem, line, std::move(from), finish(std::move(place))));
  }
  constexpr auto kOfLoop = std::to_array<std::string_view>({"cycle", "changed", "depth", "depth0"});
  const bool is_loop = from->kind == Kind::kName && from->name == "loop";
  Expression attribute = made_of(Kind::kAttribute, line, std::move(from));
  attribute.name = tokens_.expect_name();
  if (is_loop && std::ranges::find(kOfLoop, attribute.name) != kOfLoop.end()) {
    tokens_.place().refuse(line, "loop.{} is not supported", attribute.name);
  }
  return finish(std::move(attribute));
}

ExpressionPointer ExpressionParser::slice_or_item(ExpressionPointer from, int line) {
  Expression slice = made_of(Kind::kSlice, line, std::move(from));
  const auto ends = [&] { return tokens_.is_operator(":") || tokens_.is_operator("]"); };
  ExpressionPointer first;
  if (!tokens_.is_operator(":")) {
    first = expression();
    if (!tokens_.is_operator(":")) {
      return finish(made_of(Kind::kItem, line, std::move(slice.parts[0]), std::move(first)));
    }
  }
  tokens_.expect_operator(":");
  slice.parts.push_back(std::move(first));
  slice.parts.push_back(ends() ? nullptr : expression());
  slice.parts.push_back(tokens_.skip_operator(":") && !ends() ? expression() : nullptr);
  return finish(std::move(slice));
}

}  // namespace phalanx::jinja
