#include "phalanx/chat_template/value.h"

#include <algorithm>
#include <array>

namespace phalanx::jinja {
namespace {

// dir() of Python 3.11's types, without what begins with _ and what the immutable sandbox hides.
constexpr auto kOfText = std::to_array<std::string_view>(
    {"capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
     "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
     "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
     "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
     "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
     "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
     "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
     "swapcase",     "title",       "translate", "upper",      "zfill"});
constexpr auto kOfDict =
    std::to_array<std::string_view>({"copy", "fromkeys", "get", "items", "keys", "values"});
constexpr auto kOfList = std::to_array<std::string_view>({"copy", "count", "index"});
constexpr auto kOfTuple = std::to_array<std::string_view>({"count", "index"});

}  // namespace

int Value::depth() const {
  if (const List* l = list()) return l->depth;
  if (const Dict* d = dict()) return d->depth();
  return 0;
}

std::string_view Value::kind() const {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"none", "an undefined value", "a boolean", "a whole number", "a number", "a text", "a list",
       "a dict", "a loop", "a method", "a function", "a namespace", "a macro"});
  return kNames[value_.index()];
}

const Value* Dict::find(std::string_view key) const {
  return find_if([&](const Value& name) {
    const Text* text = name.text();
    return text != nullptr && text->bytes == key;
  });
}

const Dict::Entries& Dict::entries() const {
  if (!read_.empty()) read_.assign(read_.size(), true);
  return entries_;
}

const Value* Namespace::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &std::pair<std::string, Value>::first);
  return found == entries.end() ? nullptr : &found->second;
}

void Namespace::set(std::string_view key, Value value) {
  const auto found = std::ranges::find(entries, key, &std::pair<std::string, Value>::first);
  if (found != entries.end()) {
    found->second = std::move(value);
  } else {
    entries.emplace_back(key, std::move(value));
  }
}

Value text_value(std::string bytes) {
  return Value(std::make_shared<const Text>(Text{std::move(bytes)}));
}

Value undefined_value(std::string what) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(what))});
}

bool truth(const Value& value) {
  if (const bool* b = value.boolean()) return *b;
  if (const auto* i = value.integer()) return *i != 0;
  if (const auto* r = value.real()) return *r != 0;
  if (const Text* t = value.text()) return !t->bytes.empty();
  if (const List* l = value.list()) return l->kind == List::Kind::kGenerator || !l->items.empty();
  if (const Dict* d = value.dict()) return d->size() > 0;
  return !value.is_none() && !value.is_undefined();
}

bool has_python_attribute(const Value& value, std::string_view name) {
  const auto is_in = [&](const auto& names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (value.text() != nullptr) return is_in(kOfText);
  if (value.dict() != nullptr) return is_in(kOfDict);
  if (const List* l = value.list()) {
    if (l->kind == List::Kind::kList) return is_in(kOfList);
    if (l->kind == List::Kind::kTuple) return is_in(kOfTuple);
  }
  return false;
}

}  // namespace phalanx::jinja
