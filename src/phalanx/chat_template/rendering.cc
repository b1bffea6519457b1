#include "phalanx/chat_template/rendering.h"

#include <algorithm>
#include <array>

#include "phalanx/chat_template/builtins.h"
#include "phalanx/chat_template/json_values.h"
#include "phalanx/chat_template/operations.h"

namespace phalanx::jinja {
namespace {

constexpr std::string_view kArgumentsFlag = "--chat-template-args";
constexpr std::string_view kConversationArguments = "chat_template_kwargs";

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->around) {
    for (const auto& [there, value] : scope->names) {
      if (there == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [there, old] : names) {
    if (there == name) {
      old = std::move(value);
      return;
    }
  }
  names.emplace_back(name, std::move(value));
}

// One statement or expression more around what is walked.
class Rendering::Deeper {
 public:
  Deeper(Rendering& rendering, int line) : rendering_(rendering) {
    rendering_.context_.set_line(line);
    rendering_.context_.step();
    if (++rendering_.depth_ > kMostEvaluations) {
      --rendering_.depth_;
      rendering_.context_.fail("calls are nested too deep");
    }
  }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  ~Deeper() { --rendering_.depth_; }

 private:
  Rendering& rendering_;
};

Rendering::OwnScope::OwnScope(Rendering& rendering, const Scope& around)
    : rendering_(rendering), macros_before_(rendering.macros_.size()) {
  rendering_.context_.charge(sizeof(Scope));
  rendering_.scopes_.push_back({&around});
  scope_ = &rendering_.scopes_.back();
}

Rendering::OwnScope::~OwnScope() {
  if (rendering_.macros_.size() == macros_before_) rendering_.scopes_.pop_back();
}

Rendering::Rendering(const Program& program, const TemplateVariables& variables)
    : program_(program),
      context_(program.place, variables.date),
      watches_keys_(variables.watches_keys),
      out_(&rendered_.text) {
  set_variables(variables);
}

void Rendering::set_variables(const TemplateVariables& variables) {
  std::vector<Value> messages;
  for (const ChatMessage& message : variables.messages) {
    messages.push_back(message_value(message));
    if (!watches_keys_ || message.fields.empty()) continue;
    messages.back().dict()->watch();
    watched_messages_.push_back(messages.back());
  }
  variables_.set("messages", context_.list(std::move(messages)));
  variables_.set("add_generation_prompt", Value(variables.add_generation_prompt));
  variables_.set("tools", Value());
  variables_.set("documents", Value());
  for (const auto& [name, text] : variables.special_tokens) {
    variables_.set(name, text_value(text));
  }
  set_arguments(variables);
}

// Keys of the conversation itself are free.
Value Rendering::message_value(const ChatMessage& message) {
  const Value role = text_value("role");
  const Value content = text_value("content");
  if (message.fields.empty()) {
    return context_.dict(
        {{role, text_value(message.role)}, {content, text_value(message.content)}});
  }
  Dict::Entries entries;
  for (auto& [key, value] : members_of_json(context_, message.fields, "a message")) {
    if (key == "role") {
      entries.emplace_back(role, text_value(message.role));
    } else if (key == "content") {
      entries.emplace_back(content, text_value(message.content));
    } else {
      entries.emplace_back(text_value(std::move(key)), std::move(value));
    }
  }
  return context_.dict(std::move(entries));
}

void Rendering::set_arguments(const TemplateVariables& variables) {
  if (!variables.arguments.empty()) {
    arguments_ = members_of_json(context_, variables.arguments, kArgumentsFlag);
  }
  if (!variables.conversation_arguments.empty()) {
    conversation_arguments_ =
        members_of_json(context_, variables.conversation_arguments, kConversationArguments);
  }
  watches_arguments_ = watches_keys_ && (!arguments_.empty() || !conversation_arguments_.empty());
  for (const auto& [name, value] : arguments_) variables_.set(name, value);
  for (const auto& [name, value] : conversation_arguments_) {
    const auto said = std::ranges::find(arguments_, name, &std::pair<std::string, Value>::first);
    if (said != arguments_.end() && !equal(context_, said->second, value)) {
      throw ConfigError("\"{}\" has another \"{}\" than {}: leave one of them out",
                        kConversationArguments, name, kArgumentsFlag);
    }
    variables_.set(name, value);
  }
}

void Rendering::tell_keys() {
  for (const Value& message : watched_messages_) {
    message.dict()->for_each_watched([&](const std::string& key, const Value& value, bool is_read) {
      const bool is_empty = value.is_none() || (!value.is_number() && !truth(value));
      if (is_empty || key == "role" || key == "content") return;
      rendered_.message_keys.push_back({key, is_read});
    });
  }
  const auto tell = [&](const auto& from, std::vector<KeyUse>& to) {
    for (const auto& entry : from)
      to.push_back({entry.first, read_arguments_.contains(entry.first)});
  };
  tell(arguments_, rendered_.arguments);
  tell(conversation_arguments_, rendered_.conversation_arguments);
}

RenderedChat Rendering::run() {
  {
    OwnScope scope(*this, variables_);
    run_block(program_.body, *scope);
  }
  if (watches_keys_) tell_keys();
  return std::move(rendered_);
}

Rendering::Flow Rendering::run_block(const Block& block, Scope& scope) {
  for (const Statement& statement : block) {
    const Flow flow = run_statement(statement, scope);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Rendering::Flow Rendering::run_statement(const Statement& statement, Scope& scope) {
  const Deeper deeper(*this, statement.line);
  switch (statement.kind) {
    case Statement::Kind::kText:
      write(statement.text);
      return Flow::kNext;
    case Statement::Kind::kPrint: {
      const Value value = evaluate(*statement.expression, scope);
      if (const Text* text = value.text()) {
        write(text->bytes);
      } else {
        write(printed(context_, value));
      }
      return Flow::kNext;
    }
    case Statement::Kind::kIf:
      return run_if(statement, scope);
    case Statement::Kind::kFor:
      run_for(statement, scope);
      return Flow::kNext;
    case Statement::Kind::kSet:
      assign(*statement.target, evaluate(*statement.expression, scope), scope);
      return Flow::kNext;
    case Statement::Kind::kSetBlock:
      run_set_block(statement, scope);
      return Flow::kNext;
    case Statement::Kind::kMacro:
      context_.charge(sizeof(Macro));
      macros_.push_back({&statement, &scope});
      scope.set(statement.name, Value(static_cast<const Macro*>(&macros_.back())));
      return Flow::kNext;
    case Statement::Kind::kGeneration:
      run_generation(statement, scope);
      return Flow::kNext;
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Rendering::Flow Rendering::run_if(const Statement& statement, Scope& scope) {
  for (const Branch& branch : statement.branches) {
    if (truth(evaluate(*branch.condition, scope))) return run_block(branch.body, scope);
  }
  return run_block(statement.otherwise, scope);
}

void Rendering::run_for(const Statement& statement, Scope& scope) {
  Loop loop{items_of(context_, evaluate(*statement.expression, scope))};
  if (statement.condition != nullptr) {
    std::vector<Value> kept;
    for (const Value& item : loop.items) {
      OwnScope own(*this, scope);
      assign(*statement.target, item, *own);
      if (truth(evaluate(*statement.condition, *own))) kept.push_back(item);
    }
    loop.items = std::move(kept);
  }
  const auto shared = std::make_shared<Loop>(std::move(loop));
  bool runs_otherwise = true;  // until a body has come to its end, as in Jinja
  for (std::size_t i = 0; i < shared->items.size(); ++i) {
    OwnScope own(*this, scope);
    shared->index = i;
    own->set("loop", Value(std::shared_ptr<const Loop>(shared)));
    assign(*statement.target, shared->items[i], *own);
    const Flow flow = run_block(statement.body, *own);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) runs_otherwise = false;
  }
  if (!runs_otherwise || statement.otherwise.empty()) return;
  OwnScope own(*this, scope);
  run_block(statement.otherwise, *own);
}

void Rendering::run_set_block(const Statement& statement, Scope& scope) {
  OwnScope own(*this, scope);
  Value value = context_.text(captured(statement.body, *own));
  if (statement.expression != nullptr) {
    own->set(kCaptured, std::move(value));
    value = evaluate(*statement.expression, *own);
  }
  assign(*statement.target, std::move(value), scope);
}

void Rendering::run_generation(const Statement& statement, Scope& scope) {
  TextSpan span{out_->size(), 0};
  OwnScope own(*this, scope);
  run_block(statement.body, *own);
  span.end = out_->size();
  rendered_.generation.push_back(span);
}

void Rendering::assign(const Expression& target, Value value, Scope& scope) {
  context_.set_line(target.line);
  if (target.kind == Expression::Kind::kName) {
    scope.set(target.name, std::move(value));
    return;
  }
  if (target.kind == Expression::Kind::kAttribute) {
    Namespace* name_space = look_up(target.parts[0]->name, scope).name_space();
    if (name_space == nullptr) {
      context_.fail("'{}' is no namespace, and its attribute cannot be set", target.parts[0]->name);
    }
    name_space->set(target.name, std::move(value));
    return;
  }
  const auto items = items_of(context_, value);
  if (items.size() != target.parts.size()) {
    context_.fail("{} names for {} values", target.parts.size(), items.size());
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i], scope);
}

std::string Rendering::captured(const Block& block, Scope& scope) {
  std::string text;
  std::string* const before = std::exchange(out_, &text);
  run_block(block, scope);
  out_ = before;
  return text;
}

void Rendering::write(std::string_view text) {
  context_.check_length(out_->size() + text.size());
  *out_ += text;
}

}  // namespace phalanx::jinja
