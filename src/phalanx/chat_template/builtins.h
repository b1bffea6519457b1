#pragma once
// The filters, tests, methods and functions that there are.

#include <string_view>

#include "phalanx/chat_template/arguments.h"
#include "phalanx/chat_template/value.h"

namespace phalanx::jinja {

class Context;

struct FilterEntry {
  std::string_view name;
  Value (*apply)(Context& context, const Value& value, const Arguments& arguments);
};
struct TestEntry {
  std::string_view name;
  bool takes_argument;
  bool (*holds)(Context& context, const Value& value, const Arguments& arguments);
};
struct MethodEntry {
  std::string_view name;
  bool is_of_dict;  // else of a text
  Value (*call)(Context& context, const Value& object, const Arguments& arguments);
};

// Null: there is none.
const FilterEntry* find_filter(std::string_view name);
const TestEntry* find_test(std::string_view name);
const MethodEntry* find_method(std::string_view name);
// None: there is none.
Value find_function(std::string_view name);

Value call_function(Context& context, Function function, const Arguments& arguments);

}  // namespace phalanx::jinja
