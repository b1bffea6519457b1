#include "phalanx/chat_template/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <utility>

#include "phalanx/chat_template/expression_parser.h"
#include "phalanx/chat_template/python_text.h"

namespace phalanx::jinja {
namespace {

using Kind = Statement::Kind;

class Parser {
 public:
  Parser(std::string_view source, Program& program)
      : program_(program),
        tokens_(tokens_of(source, program.place), program.place),
        expressions_(tokens_) {}

  void run() {
    program_.body = block({}, "");
    for (const auto& [name, line] : expressions_.calls()) {
      if (!macros_.contains(name)) {
        program_.place.refuse(line, "the function '{}' is not supported", name);
      }
    }
  }

 private:
  // What a statement stands in.
  enum class Inside { kTemplate, kLoop, kGeneration, kCapture };

  // One block more around what is read.
  class Within {
   public:
    Within(Parser& parser, Inside inside) : parser_(parser) {
      parser_.inside_.push_back(inside);
      if (parser_.inside_.size() > static_cast<std::size_t>(kMostNested)) {
        parser_.program_.place.refuse(parser_.tokens_.line(), "blocks are nested more than {} deep",
                                      kMostNested);
      }
    }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;
    ~Within() { parser_.inside_.pop_back(); }

   private:
    Parser& parser_;
  };

  // Statements up to a tag with one of these names, which becomes the current token.
  Block block(std::initializer_list<std::string_view> ends, std::string_view opened,
              int opened_line = 0) {
    Block statements;
    for (;;) {
      const Token token = tokens_.current();
      if (token.kind == TokenKind::kEnd) {
        if (opened.empty()) return statements;
        program_.place.reject(opened_line, "{} has no end", opened);
      }
      tokens_.take();
      if (token.kind == TokenKind::kText) {
        statements.push_back(made(Kind::kText, token.line));
        statements.back().text = token.text;
      } else if (token.kind == TokenKind::kPrintBegin) {
        statements.push_back(made(Kind::kPrint, token.line));
        statements.back().expression = expressions_.tuple(true);
        if (tokens_.current().kind != TokenKind::kPrintEnd) tokens_.unexpected("}}");
        tokens_.take();
      } else {
        if (tokens_.current().kind != TokenKind::kName) tokens_.unexpected("the name of a tag");
        if (std::ranges::find(ends, tokens_.current().text) != ends.end()) return statements;
        statements.push_back(statement());
        end_tag();
      }
    }
  }

  static Statement made(Kind kind, int line) {
    Statement statement;
    statement.kind = kind;
    statement.line = line;
    return statement;
  }

  void end_tag() {
    if (tokens_.current().kind != TokenKind::kBlockEnd) tokens_.unexpected("%}");
    tokens_.take();
  }

  Statement statement() {
    const int line = tokens_.line();
    const std::string name = tokens_.expect_name();
    if (name == "if") return conditional(line);
    if (name == "for") return loop(line);
    if (name == "set") return assignment(line);
    if (name == "macro") return macro(line);
    if (name == "generation") return generation(line);
    if (name == "break" || name == "continue") {
      for (auto inside = inside_.rbegin(); inside != inside_.rend(); ++inside) {
        if (*inside == Inside::kLoop)
          return made(name == "break" ? Kind::kBreak : Kind::kContinue, line);
        if (*inside != Inside::kTemplate) break;
      }
      program_.place.reject(line, "{} outside of a for", name);
    }
    constexpr auto kClosing = std::to_array<std::string_view>(
        {"elif", "else", "endif", "endfor", "endset", "endmacro", "endgeneration"});
    if (std::ranges::find(kClosing, name) != kClosing.end()) {
      program_.place.reject(line, "{} closes nothing here", name);
    }
    program_.place.refuse(line, "the tag '{}' is not supported", name);
  }

  Statement conditional(int line) {
    const Within within(*this, Inside::kTemplate);
    Statement whole = made(Kind::kIf, line);
    for (;;) {
      Branch branch{expressions_.tuple(false), {}};
      end_tag();
      branch.body = block({"elif", "else", "endif"}, "if", line);
      whole.branches.push_back(std::move(branch));
      const std::string next = tokens_.expect_name();
      if (next == "elif") continue;
      if (next == "else") {
        end_tag();
        whole.otherwise = block({"endif"}, "if", line);
        tokens_.take();
      }
      return whole;
    }
  }

  Statement loop(int line) {
    Statement whole = made(Kind::kFor, line);
    whole.target = expressions_.target(false);
    if (!tokens_.skip_name("in")) tokens_.unexpected("in");
    whole.expression = expressions_.tuple(false);
    if (tokens_.skip_name("if")) whole.condition = expressions_.expression();
    if (tokens_.is_name("recursive")) {
      program_.place.refuse(line, "'recursive' of for is not supported");
    }
    end_tag();
    {
      const Within within(*this, Inside::kLoop);
      whole.body = block({"endfor", "else"}, "for", line);
    }
    if (tokens_.expect_name() == "else") {
      end_tag();
      const Within within(*this, Inside::kTemplate);
      whole.otherwise = block({"endfor"}, "for", line);
      tokens_.take();
    }
    return whole;
  }

  Statement assignment(int line) {
    Statement whole = made(Kind::kSet, line);
    whole.target = expressions_.target(true);
    if (tokens_.skip_operator("=")) {
      whole.expression = expressions_.tuple(true);
      return whole;
    }
    whole.kind = Kind::kSetBlock;
    if (tokens_.is_operator("|")) {
      Expression captured;
      captured.kind = Expression::Kind::kName;
      captured.line = line;
      captured.name = kCaptured;
      whole.expression = expressions_.filters(std::make_unique<Expression>(std::move(captured)));
    }
    end_tag();
    const Within within(*this, Inside::kCapture);
    whole.body = block({"endset"}, "set", line);
    tokens_.take();
    return whole;
  }

  Statement macro(int line) {
    Statement whole = made(Kind::kMacro, line);
    whole.name = tokens_.expect_name();
    macros_.insert(whole.name);
    tokens_.expect_operator("(");
    while (!tokens_.is_operator(")")) {
      if (!whole.parameters.empty()) tokens_.expect_operator(",");
      MacroParameter parameter{tokens_.expect_name(), nullptr};
      if (tokens_.skip_operator("=")) {
        parameter.value = expressions_.expression();
      } else if (!whole.parameters.empty() && whole.parameters.back().value != nullptr) {
        program_.place.reject(line, "the argument '{}' has no value, but one before it has",
                              parameter.name);
      }
      whole.parameters.push_back(std::move(parameter));
    }
    tokens_.take();
    end_tag();
    const Within within(*this, Inside::kCapture);
    whole.body = block({"endmacro"}, "macro", line);
    tokens_.take();
    return whole;
  }

  Statement generation(int line) {
    const bool is_captured = std::ranges::any_of(inside_, [](Inside inside) {
      return inside == Inside::kCapture || inside == Inside::kGeneration;
    });
    if (is_captured) {
      program_.place.refuse(
          line, "generation in a macro, a block set or another generation is not supported");
    }
    program_.marks_generation = true;
    Statement whole = made(Kind::kGeneration, line);
    end_tag();
    const Within within(*this, Inside::kGeneration);
    whole.body = block({"endgeneration"}, "generation", line);
    tokens_.take();
    return whole;
  }

  Program& program_;
  TokenStream tokens_;
  ExpressionParser expressions_;
  std::vector<Inside> inside_;
  std::set<std::string> macros_;
};

}  // namespace

std::shared_ptr<const Program> parse_template(std::string_view source, std::string name) {
  auto program = std::make_shared<Program>(Program{Place(std::move(name))});
  if (!is_valid_utf8(source)) program->place.reject(1, "the template is not UTF-8");
  Parser(source, *program).run();
  return program;
}

}  // namespace phalanx::jinja
