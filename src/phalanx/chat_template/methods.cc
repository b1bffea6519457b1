#include <algorithm>
#include <array>

#include "phalanx/chat_template/builtins.h"
#include "phalanx/chat_template/context.h"
#include "phalanx/chat_template/operations.h"
#include "phalanx/chat_template/python_text.h"

namespace phalanx::jinja {
namespace {

template <Side kSide>
Value strip(Context& context, const Value& object, const Arguments& arguments) {
  const auto given = bound(context, "strip", arguments, {"chars"});
  std::optional<std::string_view> characters;
  if (given[0] && !given[0]->is_none()) characters = text_of(context, "chars", *given[0]);
  return context.text(std::string(stripped(object.text()->bytes, characters, kSide)));
}

Value split_text(Context& context, const Value& object, const Arguments& arguments) {
  const auto given = bound(context, "split", arguments, {"sep", "maxsplit"});
  std::string_view separator;
  if (given[0] && !given[0]->is_none()) {
    separator = text_of(context, "sep", *given[0]);
    if (separator.empty()) context.fail("split with an empty separator");
  }
  const std::int64_t most = given[1] ? integer_of(context, "maxsplit", *given[1]) : -1;
  const std::string& text = object.text()->bytes;
  context.charge(text.size());
  std::vector<Value> parts;
  for (const std::string_view part : split(text, separator, most)) {
    parts.push_back(context.text(std::string(part)));
  }
  return context.list(std::move(parts));
}

// Whether `holds` for the argument, a text or a tuple of them.
template <typename Holds>
Value any_of_texts(Context& context, std::string_view what, const Value& object,
                   const Arguments& arguments, const Holds& holds) {
  const auto given = bound(context, what, arguments, {"prefix"}, 1);
  const std::string_view text = object.text()->bytes;
  const List* several = given[0]->list();
  if (several == nullptr || several->kind != List::Kind::kTuple) {
    return Value(holds(text, text_of(context, what, *given[0])));
  }
  return Value(std::ranges::any_of(several->items, [&](const Value& item) {
    return holds(text, text_of(context, what, item));
  }));
}

Value startswith(Context& context, const Value& object, const Arguments& arguments) {
  return any_of_texts(
      context, "startswith", object, arguments,
      [](std::string_view text, std::string_view x) { return text.starts_with(x); });
}
Value endswith(Context& context, const Value& object, const Arguments& arguments) {
  return any_of_texts(context, "endswith", object, arguments,
                      [](std::string_view text, std::string_view x) { return text.ends_with(x); });
}

Value replace(Context& context, const Value& object, const Arguments& arguments) {
  const auto given = bound(context, "replace", arguments, {"old", "new", "count"}, 2);
  text_of(context, "old", *given[0]);
  text_of(context, "new", *given[1]);
  return find_filter("replace")->apply(context, object, arguments);
}

template <Casing kCasing>
Value cased(Context& context, const Value& object, const Arguments& arguments) {
  bound(context, "a change of case", arguments, {});
  context.charge(object.text()->bytes.size());
  const auto text = in_case(object.text()->bytes, kCasing);
  if (!text) {
    context.refuse("upper, lower, title and capitalize of a text beyond ASCII are not supported");
  }
  return context.text(*text);
}

Value get(Context& context, const Value& object, const Arguments& arguments) {
  const auto given = bound(context, "get", arguments, {"key", "default"}, 1);
  const Value* found =
      object.dict()->find_if([&](const Value& key) { return equal(context, key, *given[0]); });
  if (found != nullptr) return *found;
  return given[1] ? *given[1] : Value();
}

Value items(Context& context, const Value& object, const Arguments& arguments) {
  bound(context, "items", arguments, {});
  std::vector<Value> pairs;
  for (const auto& [key, item] : object.dict()->entries()) {
    pairs.push_back(context.list({key, item}, List::Kind::kTuple));
  }
  return context.list(std::move(pairs), List::Kind::kView);
}

Value keys(Context& context, const Value& object, const Arguments& arguments) {
  bound(context, "keys", arguments, {});
  return context.list(items_of(context, object), List::Kind::kView);
}

Value values(Context& context, const Value& object, const Arguments& arguments) {
  bound(context, "values", arguments, {});
  std::vector<Value> out;
  for (const auto& [key, item] : object.dict()->entries()) out.push_back(item);
  return context.list(std::move(out), List::Kind::kView);
}

constexpr auto kMethods = std::to_array<MethodEntry>({
    {"capitalize", false, cased<Casing::kCapitalize>},
    {"endswith", false, endswith},
    {"get", true, get},
    {"items", true, items},
    {"keys", true, keys},
    {"lower", false, cased<Casing::kLower>},
    {"lstrip", false, strip<Side::kLeft>},
    {"replace", false, replace},
    {"rstrip", false, strip<Side::kRight>},
    {"split", false, split_text},
    {"startswith", false, startswith},
    {"strip", false, strip<Side::kBoth>},
    {"title", false, cased<Casing::kTitle>},
    {"upper", false, cased<Casing::kUpper>},
    {"values", true, values},
});

}  // namespace

const MethodEntry* find_method(std::string_view name) {
  const auto* found = std::ranges::find(kMethods, name, &MethodEntry::name);
  return found == kMethods.end() ? nullptr : found;
}

}  // namespace phalanx::jinja
