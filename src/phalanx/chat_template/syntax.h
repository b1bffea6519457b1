#pragma once
// The tree of a template. All names that it calls are known: the parser has refused others.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/chat_template/place.h"
#include "phalanx/chat_template/value.h"

namespace phalanx::jinja {

struct FilterEntry;
struct TestEntry;
struct MethodEntry;

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kUnequal,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kList,         // parts
    kTuple,        // parts
    kDict,         // parts: key, value, key, value, ...
    kAttribute,    // parts[0].name
    kItem,         // parts[0][parts[1]]
    kSlice,        // parts[0][parts[1]:parts[2]:parts[3]]; null where nothing is written
    kCall,         // name(parts, named)
    kMethod,       // parts[0].name(the other parts, named)
    kFilter,       // parts[0]|name(the other parts, named)
    kTest,         // parts[0] is name(the other parts, named)
    kNot,          // parts[0]
    kNegative,     // parts[0]
    kPositive,     // parts[0]
    kArithmetic,   // parts[0] operators[0] parts[1]
    kComparison,   // parts[0] operators[0] parts[1] operators[1] parts[2] ...
    kConcat,       // parts[0] ~ parts[1] ~ ...
    kAnd,          // two parts
    kOr,           // two parts
    kConditional,  // parts[1] if parts[0] else parts[2], which may be null
  };
  Kind kind = Kind::kConstant;
  int line = 0;
  int depth = 1;  // expressions in each other
  std::string name = {};
  Value constant = {};
  std::vector<ExpressionPointer> parts = {};
  std::vector<std::pair<std::string, ExpressionPointer>> named = {};
  std::vector<Operator> operators = {};
  const FilterEntry* filter = nullptr;
  const TestEntry* test = nullptr;
  const MethodEntry* method = nullptr;
};

struct Statement;
using Block = std::vector<Statement>;

struct Branch {
  ExpressionPointer condition;
  Block body;
};
struct MacroParameter {
  std::string name;
  ExpressionPointer value;  // null: has none of its own
};

struct Statement {
  enum class Kind {
    kText,        // text
    kPrint,       // expression
    kIf,          // branches, otherwise
    kFor,         // target in expression if condition: body, otherwise
    kSet,         // target = expression
    kSetBlock,    // target = body, then filters: expression applies to `captured`, null: none
    kMacro,       // name(parameters): body
    kGeneration,  // body
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  int line = 0;
  std::string text = {};
  std::string name = {};
  ExpressionPointer expression = {};
  ExpressionPointer condition = {};
  // kName, kTuple of targets, or kAttribute of a namespace.
  ExpressionPointer target = {};
  std::vector<Branch> branches = {};
  std::vector<MacroParameter> parameters = {};
  Block body = {};
  Block otherwise = {};
};

// The name of what a block set passes to its filters; no name of a template has a blank.
inline constexpr const char* kCaptured = " captured";

struct Program {
  Place place;
  Block body = {};
  bool marks_generation = false;
};

}  // namespace phalanx::jinja
