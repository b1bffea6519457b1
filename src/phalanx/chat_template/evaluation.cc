#include <algorithm>
#include <utility>

#include "phalanx/chat_template/builtins.h"
#include "phalanx/chat_template/operations.h"
#include "phalanx/chat_template/rendering.h"

namespace phalanx::jinja {

namespace {
using Kind = Expression::Kind;
}  // namespace

Value Rendering::evaluate(const Expression& expression, const Scope& scope) {
  if (expression.kind == Kind::kConstant) return expression.constant;
  if (expression.kind == Kind::kName) return look_up(expression.name, scope);
  return evaluate_parts(expression, scope);
}

Value Rendering::look_up(std::string_view name, const Scope& scope) {
  context_.step();
  if (const Value* found = scope.find(name)) {
    if (watches_arguments_) note_argument(name, *found);
    return *found;
  }
  if (Value function = find_function(name); !function.is_none()) return function;
  return undefined_value(fmt::format("'{}'", name));
}

// Another value of the name may stand before the argument's.
void Rendering::note_argument(std::string_view name, const Value& found) {
  if (variables_.find(name) == &found) read_arguments_.emplace(name);
}

Value Rendering::evaluate_parts(const Expression& expression, const Scope& scope) {
  context_.set_line(expression.line);
  context_.step();
  if (++depth_ > kMostEvaluations) {
    --depth_;
    context_.fail("calls are nested too deep");
  }
  const auto part = [&](std::size_t i) { return evaluate(*expression.parts[i], scope); };
  Value value;
  switch (expression.kind) {
    case Kind::kConstant:
    case Kind::kName:
      break;
    case Kind::kList:
    case Kind::kTuple: {
      const bool is_tuple = expression.kind == Kind::kTuple;
      value = context_.list(arguments_of(expression, 0, scope).positional,
                            is_tuple ? List::Kind::kTuple : List::Kind::kList);
      break;
    }
    case Kind::kDict:
      value = make_dict(expression, scope);
      break;
    case Kind::kAttribute:
      value = attribute_of(context_, part(0), expression.name);
      break;
    case Kind::kItem: {
      const Value object = part(0);
      value = item_of(context_, object, part(1));
      break;
    }
    case Kind::kSlice:
      value = slice(expression, scope);
      break;
    case Kind::kCall:
      value = call(expression, scope);
      break;
    case Kind::kMethod:
      value = call_method(expression, scope);
      break;
    case Kind::kFilter:
      value = filtered(expression, scope);
      break;
    case Kind::kTest:
      value = Value(tested(expression, scope));
      break;
    case Kind::kNot:
      value = Value(!truth(part(0)));
      break;
    case Kind::kNegative:
      value = negative(context_, part(0));
      break;
    case Kind::kPositive:
      value = negative(context_, negative(context_, part(0)));
      break;
    case Kind::kArithmetic: {
      const Value left = part(0);
      value = arithmetic(context_, expression.operators[0], left, part(1));
      break;
    }
    case Kind::kComparison:
      value = comparison(expression, scope);
      break;
    case Kind::kConcat:
      value = concatenation(expression, scope);
      break;
    case Kind::kAnd:
      value = part(0);
      if (truth(value)) value = part(1);
      break;
    case Kind::kOr:
      value = part(0);
      if (!truth(value)) value = part(1);
      break;
    case Kind::kConditional:
      value = conditional(expression, scope);
      break;
  }
  --depth_;
  return value;
}

Value Rendering::make_dict(const Expression& expression, const Scope& scope) {
  std::vector<std::pair<Value, Value>> entries;
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    const Value key = evaluate(*expression.parts[i], scope);
    context_.set(entries, key, evaluate(*expression.parts[i + 1], scope));
  }
  return context_.dict(std::move(entries));
}

Value Rendering::slice(const Expression& expression, const Scope& scope) {
  const auto part = [&](std::size_t i) {
    return expression.parts[i] != nullptr ? evaluate(*expression.parts[i], scope) : Value();
  };
  const Value object = part(0);
  const Value begin = part(1);
  const Value end = part(2);
  return slice_of(context_, object, begin, end, part(3));
}

Value Rendering::comparison(const Expression& expression, const Scope& scope) {
  Value left = evaluate(*expression.parts[0], scope);
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1], scope);
    if (!compare(context_, expression.operators[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Rendering::concatenation(const Expression& expression, const Scope& scope) {
  std::string text;
  for (const auto& part : expression.parts) text += printed(context_, evaluate(*part, scope));
  return context_.text(std::move(text));
}

Value Rendering::conditional(const Expression& expression, const Scope& scope) {
  if (truth(evaluate(*expression.parts[0], scope))) return evaluate(*expression.parts[1], scope);
  if (expression.parts[2] != nullptr) return evaluate(*expression.parts[2], scope);
  return undefined_value("an 'if' without 'else'");
}

Arguments Rendering::arguments_of(const Expression& expression, std::size_t first,
                                  const Scope& scope) {
  Arguments arguments;
  for (std::size_t i = first; i < expression.parts.size(); ++i) {
    arguments.positional.push_back(evaluate(*expression.parts[i], scope));
  }
  for (const auto& [name, value] : expression.named) {
    arguments.named.emplace_back(name, evaluate(*value, scope));
  }
  context_.set_line(expression.line);
  return arguments;
}

Value Rendering::call(const Expression& expression, const Scope& scope) {
  const Value called = look_up(expression.name, scope);
  const Arguments arguments = arguments_of(expression, 0, scope);
  if (const Macro* macro = called.macro()) return call_macro(*macro, arguments);
  if (const Function* function = called.function()) {
    return call_function(context_, *function, arguments);
  }
  if (called.is_undefined()) context_.fail("'{}' is undefined, and is called", expression.name);
  context_.fail("'{}' is {}, and cannot be called", expression.name, called.kind());
}

Value Rendering::call_method(const Expression& expression, const Scope& scope) {
  const Value object = evaluate(*expression.parts[0], scope);
  const Arguments arguments = arguments_of(expression, 1, scope);
  const MethodEntry& method = *expression.method;
  if (object.is_undefined()) {
    context_.fail("{} is undefined, and its {} is called", *object.undefined().what,
                  expression.name);
  }
  const bool is_there = method.is_of_dict ? object.dict() != nullptr : object.text() != nullptr;
  if (!is_there) context_.fail("{} has no method '{}'", object.kind(), expression.name);
  return method.call(context_, object, arguments);
}

Value Rendering::call_macro(const Macro& macro, const Arguments& arguments) {
  const Statement& statement = *macro.statement;
  if (++calls_ > kMostCalls) {
    context_.fail("more than {} calls of macros in each other", kMostCalls);
  }
  OwnScope own(*this, *macro.defined_in);
  const auto& parameters = statement.parameters;
  if (arguments.positional.size() > parameters.size()) {
    context_.fail("the macro '{}' takes {} arguments, and is given {}", statement.name,
                  parameters.size(), arguments.positional.size());
  }
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(parameters, name, &MacroParameter::name);
    if (found == parameters.end()) {
      context_.fail("the macro '{}' has no argument '{}'", statement.name, name);
    }
    if (found - parameters.begin() < std::ssize(arguments.positional)) {
      context_.fail("the macro '{}' is given '{}' twice", statement.name, name);
    }
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const MacroParameter& parameter = parameters[i];
    const auto named =
        std::ranges::find(arguments.named, parameter.name, &std::pair<std::string, Value>::first);
    Value value = undefined_value(fmt::format("the argument '{}'", parameter.name));
    if (i < arguments.positional.size()) {
      value = arguments.positional[i];
    } else if (named != arguments.named.end()) {
      value = named->second;
    } else if (parameter.value != nullptr) {
      value = evaluate(*parameter.value, *own);
    }
    own->set(parameter.name, std::move(value));
  }
  Value text = context_.text(captured(statement.body, *own));
  --calls_;
  return text;
}

Value Rendering::filtered(const Expression& expression, const Scope& scope) {
  const Value value = evaluate(*expression.parts[0], scope);
  return expression.filter->apply(context_, value, arguments_of(expression, 1, scope));
}

bool Rendering::tested(const Expression& expression, const Scope& scope) {
  const Value value = evaluate(*expression.parts[0], scope);
  return expression.test->holds(context_, value, arguments_of(expression, 1, scope));
}

}  // namespace phalanx::jinja
