#pragma once
// What Python does with values. Whatever it refuses is a DataError.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/chat_template/context.h"
#include "phalanx/chat_template/syntax.h"
#include "phalanx/chat_template/value.h"

namespace phalanx::jinja {

// str() and repr().
void append_printed(Context& context, const Value& value, std::string& out);
std::string printed(Context& context, const Value& value);

bool equal(Context& context, const Value& left, const Value& right);
bool less(Context& context, const Value& left, const Value& right);
bool contains(Context& context, const Value& container, const Value& value);
bool compare(Context& context, Operator how, const Value& left, const Value& right);
Value arithmetic(Context& context, Operator how, const Value& left, const Value& right);
Value negative(Context& context, const Value& value);

// What a for would see; `what` is read.
std::vector<Value> items_of(Context& context, const Value& what);
// Whether a for may read it.
bool is_iterable(const Value& value);

// x.name and x[key]: absent is undefined, of an undefined value an error.
Value attribute_of(Context& context, const Value& object, std::string_view name);
Value item_of(Context& context, const Value& object, const Value& key);
Value slice_of(Context& context, const Value& object, const Value& begin, const Value& end,
               const Value& step);

// The whole number that an argument must be, or the text.
std::int64_t integer_of(const Context& context, std::string_view what, const Value& value);
const std::string& text_of(const Context& context, std::string_view what, const Value& value);

}  // namespace phalanx::jinja
