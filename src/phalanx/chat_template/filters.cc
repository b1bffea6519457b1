#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "phalanx/chat_template/builtins.h"
#include "phalanx/chat_template/context.h"
#include "phalanx/chat_template/json_values.h"
#include "phalanx/chat_template/operations.h"
#include "phalanx/chat_template/python_text.h"

namespace phalanx::jinja {
namespace {

Value cased(Context& context, const Value& value, Casing casing, std::string_view what) {
  const auto text = in_case(printed(context, value), casing);
  if (!text) context.refuse("{} of a text beyond ASCII is not supported", what);
  return context.text(*text);
}

Value trim(Context& context, const Value& value, const Arguments& arguments) {
  const auto given = bound(context, "trim", arguments, {"chars"});
  const std::string text = printed(context, value);
  std::optional<std::string_view> characters;
  if (given[0] && !given[0]->is_none()) characters = text_of(context, "chars", *given[0]);
  return context.text(std::string(stripped(text, characters, Side::kBoth)));
}

Value length(Context& context, const Value& value, const Arguments& arguments) {
  bound(context, "length", arguments, {});
  std::size_t count = 0;
  if (const Text* text = value.text()) {
    context.charge(text->bytes.size());
    count = count_of_characters(text->bytes);
  } else if (const List* list = value.list();
             list != nullptr && list->kind != List::Kind::kGenerator) {
    count = list->items.size();
  } else if (const Dict* dict = value.dict()) {
    count = dict->entries().size();
  } else if (!value.is_undefined()) {
    context.fail("{} has no length", list != nullptr ? "a generator" : value.kind());
  }
  return Value(static_cast<std::int64_t>(count));
}

Value string(Context& context, const Value& value, const Arguments& arguments) {
  bound(context, "string", arguments, {});
  return value.text() != nullptr ? value : context.text(printed(context, value));
}

Value safe(Context& context, const Value& value, const Arguments& arguments) {
  bound(context, "safe", arguments, {});
  return Value(std::make_shared<const Text>(Text{printed(context, value), true}));
}

Value upper(Context& context, const Value& value, const Arguments& arguments) {
  bound(context, "upper", arguments, {});
  return cased(context, value, Casing::kUpper, "upper");
}
Value lower(Context& context, const Value& value, const Arguments& arguments) {
  bound(context, "lower", arguments, {});
  return cased(context, value, Casing::kLower, "lower");
}
Value capitalize(Context& context, const Value& value, const Arguments& arguments) {
  bound(context, "capitalize", arguments, {});
  return cased(context, value, Casing::kCapitalize, "capitalize");
}

Value replace(Context& context, const Value& value, const Arguments& arguments) {
  const auto given = bound(context, "replace", arguments, {"old", "new", "count"}, 2);
  const bool is_counted = given[2] && !given[2]->is_none();
  const std::int64_t count = is_counted ? integer_of(context, "count", *given[2]) : -1;
  const std::string text = printed(context, value);
  const std::string what = printed(context, *given[0]);
  const std::string with = printed(context, *given[1]);
  context.check_length(what.empty() ? (text.size() + 1) * (with.size() + 1)
                                    : text.size() / what.size() * with.size());
  return context.text(replaced(text, what, with, count));
}

Value tojson(Context& context, const Value& value, const Arguments& arguments) {
  const auto given =
      bound(context, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  // The filter of transformers takes them in this order, by name everybody does.
  JsonStyle style;
  style.as_ascii = given[0] && truth(*given[0]);
  style.sort_keys = given[3] && truth(*given[3]);
  if (given[1] && !given[1]->is_none()) {
    if (const Text* text = given[1]->text()) {
      style.indent = text->bytes;
    } else {
      const std::int64_t width = integer_of(context, "indent", *given[1]);
      style.indent =
          std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(width, 0, 100)), ' ');
    }
    style.between_items = ",";
  }
  if (given[2] && !given[2]->is_none()) {
    const auto parts = items_of(context, *given[2]);
    if (parts.size() != 2) context.fail("separators are two texts");
    style.between_items = text_of(context, "a separator", parts[0]);
    style.behind_key = text_of(context, "a separator", parts[1]);
  }
  return context.text(json_of(context, value, style));
}

Value default_value(Context& context, const Value& value, const Arguments& arguments) {
  const auto given = bound(context, "default", arguments, {"default_value", "boolean"});
  const bool replaces_false = given[1] && truth(*given[1]);
  if (!value.is_undefined() && (!replaces_false || truth(value))) return value;
  return given[0] ? *given[0] : context.text("");
}

// x.a.b, or x.0 for a number: how filters name attributes.
Value deep_attribute(Context& context, Value value, const Value& path) {
  if (path.integer() != nullptr) return item_of(context, value, path);
  for (const std::string_view part : split(text_of(context, "an attribute", path), ".", -1)) {
    const bool is_number =
        !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    std::int64_t number = 0;
    if (is_number) std::from_chars(part.data(), part.data() + part.size(), number);
    value = item_of(context, value, is_number ? Value(number) : context.text(std::string(part)));
  }
  return value;
}

Value join(Context& context, const Value& value, const Arguments& arguments) {
  const auto given = bound(context, "join", arguments, {"d", "attribute"});
  const std::string between = given[0] ? printed(context, *given[0]) : "";
  std::string out;
  bool is_first = true;
  for (Value item : items_of(context, value)) {
    context.step();
    if (given[1] && !given[1]->is_none()) item = deep_attribute(context, item, *given[1]);
    if (!is_first) out += between;
    out += printed(context, item);
    context.check_length(out.size());
    is_first = false;
  }
  return context.text(std::move(out));
}

Value list(Context& context, const Value& value, const Arguments& arguments) {
  bound(context, "list", arguments, {});
  return context.list(items_of(context, value));
}

Value items(Context& context, const Value& value, const Arguments& arguments) {
  bound(context, "items", arguments, {});
  std::vector<Value> pairs;
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : dict->entries()) {
      pairs.push_back(context.list({key, item}, List::Kind::kTuple));
    }
  } else if (!value.is_undefined()) {
    context.fail("items of {}", value.kind());
  }
  return context.list(std::move(pairs), List::Kind::kGenerator);
}

Value first(Context& context, const Value& value, const Arguments& arguments) {
  bound(context, "first", arguments, {});
  const List* list = value.list();
  if (list != nullptr && list->kind == List::Kind::kGenerator) {
    if (list->taken < list->items.size()) return list->items[list->taken++];
    return undefined_value("the first item of nothing");
  }
  if (list != nullptr && !list->items.empty()) return list->items.front();
  const auto all = items_of(context, value);
  return all.empty() ? undefined_value("the first item of nothing") : all.front();
}

Value last(Context& context, const Value& value, const Arguments& arguments) {
  bound(context, "last", arguments, {});
  const List* list = value.list();
  if (list != nullptr && list->kind == List::Kind::kGenerator) {
    context.fail("last of a generator: |list makes a list");
  }
  if (list != nullptr && !list->items.empty()) return list->items.back();
  const auto all = items_of(context, value);
  return all.empty() ? undefined_value("the last item of nothing") : all.back();
}

Value map(Context& context, const Value& value, const Arguments& arguments) {
  std::vector<Value> out;
  auto values = items_of(context, value);
  if (arguments.positional.empty()) {
    const auto given = bound(context, "map", arguments, {"attribute", "default"}, 1);
    for (Value& item : values) {
      context.step();
      Value found = deep_attribute(context, std::move(item), *given[0]);
      if (found.is_undefined() && given[1]) found = *given[1];
      out.push_back(std::move(found));
    }
  } else {
    const std::string& name = text_of(context, "the filter of map", arguments.positional[0]);
    const FilterEntry* filter = find_filter(name);
    if (filter == nullptr || name == "map") {
      context.refuse("the filter '{}' in map is not supported", name);
    }
    Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
    for (const Value& item : values) {
      context.step();
      out.push_back(filter->apply(context, item, rest));
    }
  }
  return context.list(std::move(out), List::Kind::kGenerator);
}

// select and its kin: `skipped` arguments stand before the test.
Value chosen(Context& context, const Value& value, const Arguments& arguments, bool by_attribute,
             bool keeps) {
  const std::string_view what = "select";
  const std::size_t skipped = by_attribute ? 1 : 0;
  const auto& given = arguments.positional;
  if (!arguments.named.empty() || given.size() < skipped || given.size() > skipped + 2) {
    context.fail("{} takes {}a test and its argument", what, by_attribute ? "an attribute, " : "");
  }
  const TestEntry* test = nullptr;
  Arguments of_test;
  if (given.size() > skipped) {
    const std::string& name = text_of(context, "the name of a test", given[skipped]);
    test = find_test(name);
    if (test == nullptr) context.refuse("the test '{}' is not supported", name);
    of_test.positional.assign(given.begin() + static_cast<std::ptrdiff_t>(skipped) + 1,
                              given.end());
    if (of_test.positional.size() != (test->takes_argument ? 1 : 0)) {
      context.fail("the test '{}' takes {}", name,
                   test->takes_argument ? "one argument" : "no argument");
    }
  }
  std::vector<Value> out;
  for (const Value& item : items_of(context, value)) {
    context.step();
    const Value tested = by_attribute ? deep_attribute(context, item, given[0]) : item;
    const bool holds = test != nullptr ? test->holds(context, tested, of_test) : truth(tested);
    if (holds == keeps) out.push_back(item);
  }
  return context.list(std::move(out), List::Kind::kGenerator);
}

Value select(Context& context, const Value& value, const Arguments& arguments) {
  return chosen(context, value, arguments, false, true);
}
Value reject(Context& context, const Value& value, const Arguments& arguments) {
  return chosen(context, value, arguments, false, false);
}
Value selectattr(Context& context, const Value& value, const Arguments& arguments) {
  return chosen(context, value, arguments, true, true);
}
Value rejectattr(Context& context, const Value& value, const Arguments& arguments) {
  return chosen(context, value, arguments, true, false);
}

Value dictsort(Context& context, const Value& value, const Arguments& arguments) {
  const auto given = bound(context, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const bool ignores_case = !given[0] || !truth(*given[0]);
  const std::string by = given[1] ? text_of(context, "by", *given[1]) : "key";
  if (by != "key" && by != "value") context.fail("dictsort by '{}': by is key or value", by);
  const Dict* dict = value.dict();
  if (dict == nullptr) context.fail("dictsort of {}", value.kind());
  struct Entry {
    Value key;
    Value pair;
  };
  std::vector<Entry> entries;
  for (const auto& [key, item] : dict->entries()) {
    Value sorted_by = by == "key" ? key : item;
    if (ignores_case && sorted_by.text() != nullptr) {
      sorted_by = cased(context, sorted_by, Casing::kLower, "dictsort, which ignores case,");
    }
    entries.push_back({std::move(sorted_by), context.list({key, item}, List::Kind::kTuple)});
  }
  const bool is_reversed = given[2] && truth(*given[2]);
  std::ranges::stable_sort(entries, [&](const Entry& a, const Entry& b) {
    return is_reversed ? less(context, b.key, a.key) : less(context, a.key, b.key);
  });
  std::vector<Value> out;
  for (Entry& entry : entries) out.push_back(std::move(entry.pair));
  return context.list(std::move(out));
}

// int(text) of Python; nothing where it raises.
std::optional<std::int64_t> parsed_integer(const Context& context, std::string_view text) {
  text = stripped(text, std::nullopt, Side::kBoth);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  std::string digits(is_negative ? "-" : "");
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (!is_digit && (text[i] != '_' || i == 0 || i + 1 == text.size() || text[i - 1] == '_')) {
      return std::nullopt;
    }
    if (is_digit) digits += text[i];
  }
  std::int64_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (read.ec == std::errc::result_out_of_range) {
    context.refuse("a number of more than 64 bits is not supported");
  }
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

Value integer(Context& context, const Value& value, const Arguments& arguments) {
  const auto given = bound(context, "int", arguments, {"default", "base"});
  if (given[1] && integer_of(context, "base", *given[1]) != 10) {
    context.refuse("int with another base than 10 is not supported");
  }
  std::optional<double> real;
  if (const Text* text = value.text()) {
    if (const auto number = parsed_integer(context, text->bytes)) return Value(*number);
    const std::string_view number = stripped(text->bytes, std::nullopt, Side::kBoth);
    const bool is_positive = number.starts_with('+');
    double parsed = 0;
    const auto read = std::from_chars(number.data() + (is_positive ? 1 : 0),
                                      number.data() + number.size(), parsed);
    if (read.ec == std::errc() && read.ptr == number.data() + number.size()) real = parsed;
  } else if (value.is_number() && value.real() == nullptr) {
    return Value(integer_of(context, "a number", value));
  } else if (const double* number = value.real()) {
    real = *number;
  }
  if (real && std::isfinite(*real)) {
    if (std::abs(*real) >= 9.2e18) context.refuse("a number of more than 64 bits is not supported");
    return Value(static_cast<std::int64_t>(*real));
  }
  return given[0] ? *given[0] : Value(std::int64_t{0});
}

constexpr auto kFilters = std::to_array<FilterEntry>({
    {"capitalize", capitalize},
    {"default", default_value},
    {"dictsort", dictsort},
    {"first", first},
    {"int", integer},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", list},
    {"lower", lower},
    {"map", map},
    {"reject", reject},
    {"rejectattr", rejectattr},
    {"replace", replace},
    {"safe", safe},
    {"select", select},
    {"selectattr", selectattr},
    {"string", string},
    {"tojson", tojson},
    {"trim", trim},
    {"upper", upper},
});

}  // namespace

const FilterEntry* find_filter(std::string_view name) {
  const auto* found = std::ranges::find(kFilters, name, &FilterEntry::name);
  return found == kFilters.end() ? nullptr : found;
}

}  // namespace phalanx::jinja
