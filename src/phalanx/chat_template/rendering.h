#pragma once
// Walks the tree of a template and writes its text.

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/chat_template/arguments.h"
#include "phalanx/chat_template/chat_template.h"
#include "phalanx/chat_template/context.h"
#include "phalanx/chat_template/syntax.h"

namespace phalanx::jinja {

// Names in one block; others are looked up around it.
struct Scope {
  const Scope* around = nullptr;
  std::vector<std::pair<std::string_view, Value>> names = {};

  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

struct Macro {
  const Statement* statement = nullptr;
  const Scope* defined_in = nullptr;
};

class Rendering {
 public:
  Rendering(const Program& program, const TemplateVariables& variables);
  Rendering(const Rendering&) = delete;
  Rendering& operator=(const Rendering&) = delete;

  RenderedChat run();

 private:
  static constexpr int kMostCalls = 100;        // macros in each other
  static constexpr int kMostEvaluations = 600;  // expressions and statements in each other

  class Deeper;
  class OwnScope;
  enum class Flow { kNext, kBreak, kContinue };

  void set_variables(const TemplateVariables& variables);
  Value message_value(const ChatMessage& message);
  void set_arguments(const TemplateVariables& variables);
  void tell_keys();

  // Statements.
  Flow run_block(const Block& block, Scope& scope);
  Flow run_statement(const Statement& statement, Scope& scope);
  Flow run_if(const Statement& statement, Scope& scope);
  void run_for(const Statement& statement, Scope& scope);
  void run_set_block(const Statement& statement, Scope& scope);
  void run_generation(const Statement& statement, Scope& scope);
  void assign(const Expression& target, Value value, Scope& scope);
  std::string captured(const Block& block, Scope& scope);
  void write(std::string_view text);

  // Expressions.
  Value evaluate(const Expression& expression, const Scope& scope);
  Value evaluate_parts(const Expression& expression, const Scope& scope);
  Value look_up(std::string_view name, const Scope& scope);
  void note_argument(std::string_view name, const Value& found);
  Value make_dict(const Expression& expression, const Scope& scope);
  Value slice(const Expression& expression, const Scope& scope);
  Value comparison(const Expression& expression, const Scope& scope);
  Value concatenation(const Expression& expression, const Scope& scope);
  Value conditional(const Expression& expression, const Scope& scope);
  Value call(const Expression& expression, const Scope& scope);
  Value call_method(const Expression& expression, const Scope& scope);
  Value call_macro(const Macro& macro, const Arguments& arguments);
  Value filtered(const Expression& expression, const Scope& scope);
  bool tested(const Expression& expression, const Scope& scope);
  // From part `first` on.
  Arguments arguments_of(const Expression& expression, std::size_t first, const Scope& scope);

  const Program& program_;
  Context context_;
  Scope variables_;
  std::vector<std::pair<std::string, Value>> arguments_;
  std::vector<std::pair<std::string, Value>> conversation_arguments_;
  bool watches_keys_;
  bool watches_arguments_ = false;
  std::vector<Value> watched_messages_;
  std::set<std::string, std::less<>> read_arguments_;
  std::deque<Scope> scopes_;
  std::deque<Macro> macros_;
  RenderedChat rendered_;
  std::string* out_;
  int depth_ = 0;
  int calls_ = 0;
};

// The scope of a block. One that a macro was defined in stays as long as the macros.
class Rendering::OwnScope {
 public:
  OwnScope(Rendering& rendering, const Scope& around);
  OwnScope(const OwnScope&) = delete;
  OwnScope& operator=(const OwnScope&) = delete;
  ~OwnScope();
  Scope& operator*() { return *scope_; }
  Scope* operator->() { return scope_; }

 private:
  Rendering& rendering_;
  std::size_t macros_before_;
  Scope* scope_ = nullptr;
};

}  // namespace phalanx::jinja
