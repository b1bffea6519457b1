#include "phalanx/chat_template/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "phalanx/chat_template/python_text.h"

namespace phalanx::jinja {
namespace {

void append_repr_of(Context& context, const Value& value, std::string& out);

void append_items(Context& context, const std::vector<Value>& items, std::string& out) {
  const char* between = "";
  for (const Value& item : items) {
    out += between;
    append_repr_of(context, item, out);
    between = ", ";
  }
}

void append_list(Context& context, const List& list, std::string& out) {
  if (!list.has_places() || list.kind == List::Kind::kRange) {
    context.refuse("a range, a view or a generator cannot be printed; |list makes a list");
  }
  const bool is_tuple = list.kind == List::Kind::kTuple;
  out += is_tuple ? '(' : '[';
  append_items(context, list.items, out);
  if (is_tuple && list.items.size() == 1) out += ',';
  out += is_tuple ? ')' : ']';
}

void append_dict(Context& context, const Dict& dict, std::string& out) {
  out += '{';
  const char* between = "";
  for (const auto& [key, item] : dict.entries()) {
    out += between;
    append_repr_of(context, key, out);
    out += ": ";
    append_repr_of(context, item, out);
    between = ", ";
  }
  out += '}';
}

void append_repr_of(Context& context, const Value& value, std::string& out) {
  context.step();
  context.check_length(out.size());
  if (const Text* text = value.text()) {
    context.charge(text->bytes.size());
    append_repr(text->bytes, out);
  } else if (value.is_undefined()) {
    out += "Undefined";
  } else {
    append_printed(context, value, out);
  }
}

// Where a value's place in [0, size) is, counted from the end if negative.
std::optional<std::size_t> place_in(std::int64_t index, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::optional<std::int64_t> whole_number(const Value& value) {
  if (const auto* integer = value.integer()) return *integer;
  if (const bool* boolean = value.boolean()) return *boolean ? 1 : 0;
  return std::nullopt;
}

// The beginnings of a text's characters, and its end.
std::vector<std::size_t> character_places(Context& context, std::string_view text) {
  context.charge(text.size() * sizeof(std::size_t));
  std::vector<std::size_t> places = {0};
  for (std::size_t at = 0; at < text.size();) {
    at += first_character(text.substr(at));
    places.push_back(at);
  }
  return places;
}

std::string shown(const Value& key) {
  std::string out;
  if (const Text* text = key.text()) {
    append_repr(std::string_view(text->bytes).substr(0, 60), out);
  } else if (const auto number = whole_number(key)) {
    out = fmt::format("{}", *number);
  } else {
    out = key.kind();
  }
  return out;
}

Value absent(const Value& object, const Value& key) {
  return undefined_value(fmt::format("{} of {}", shown(key), object.kind()));
}

[[noreturn]] void fail_undefined(const Context& context, const Value& object) {
  context.fail("{} is undefined", *object.undefined().what);
}

Value python_attribute_or_absent(const Value& object, std::string_view name, const Value& key) {
  if (!has_python_attribute(object, name)) return absent(object, key);
  return Value(std::make_shared<const Bound>(Bound{object, std::string(name)}));
}

Value loop_attribute(const Loop& loop, std::string_view name) {
  const std::size_t size = loop.items.size();
  const auto number = [](std::size_t value) { return Value(static_cast<std::int64_t>(value)); };
  if (name == "index") return number(loop.index + 1);
  if (name == "index0") return number(loop.index);
  if (name == "revindex") return number(size - loop.index);
  if (name == "revindex0") return number(size - loop.index - 1);
  if (name == "first") return Value(loop.index == 0);
  if (name == "last") return Value(loop.index + 1 == size);
  if (name == "length") return number(size);
  if (name == "previtem" && loop.index > 0) return loop.items[loop.index - 1];
  if (name == "nextitem" && loop.index + 1 < size) return loop.items[loop.index + 1];
  return undefined_value(fmt::format("loop.{}", name));
}

}  // namespace

void append_printed(Context& context, const Value& value, std::string& out) {
  context.check_length(out.size());
  if (const Text* text = value.text()) {
    out += text->bytes;
  } else if (value.is_none()) {
    out += "None";
  } else if (const bool* boolean = value.boolean()) {
    out += *boolean ? "True" : "False";
  } else if (const auto* integer = value.integer()) {
    fmt::format_to(std::back_inserter(out), "{}", *integer);
  } else if (const double* real = value.real()) {
    append_repr(*real, out);
  } else if (const List* list = value.list()) {
    append_list(context, *list, out);
  } else if (const Dict* dict = value.dict()) {
    append_dict(context, *dict, out);
  } else if (!value.is_undefined()) {
    context.refuse("{} cannot be printed", value.kind());
  }
  context.check_length(out.size());
}

std::string printed(Context& context, const Value& value) {
  if (const Text* text = value.text()) {
    context.charge(text->bytes.size());
    return text->bytes;
  }
  std::string out;
  append_printed(context, value, out);
  context.charge(out.size());
  return out;
}

bool is_iterable(const Value& value) {
  return value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr ||
         value.loop() != nullptr || value.is_undefined();
}

std::vector<Value> items_of(Context& context, const Value& what) {
  std::vector<Value> items;
  if (const List* list = what.list()) {
    const bool is_read_once = list->kind == List::Kind::kGenerator;
    context.charge(list->items.size() * sizeof(Value));
    items.assign(list->items.begin() + static_cast<std::ptrdiff_t>(is_read_once ? list->taken : 0),
                 list->items.end());
    if (is_read_once) list->taken = list->items.size();
  } else if (const Dict* dict = what.dict()) {
    context.charge(dict->size() * sizeof(Value));
    for (const auto& [key, value] : dict->entries()) items.push_back(key);
  } else if (const Text* text = what.text()) {
    std::string_view rest = text->bytes;
    context.charge(rest.size());
    for (; !rest.empty(); rest.remove_prefix(first_character(rest))) {
      items.push_back(context.text(std::string(rest.substr(0, first_character(rest)))));
    }
  } else if (!what.is_undefined()) {
    context.fail("{} has no items", what.kind());
  }
  return items;
}

Value attribute_of(Context& context, const Value& object, std::string_view name) {
  if (object.is_undefined()) fail_undefined(context, object);
  if (const Namespace* name_space = object.name_space()) {
    const Value* found = name_space->find(name);
    return found != nullptr ? *found : undefined_value(fmt::format("'{}' of a namespace", name));
  }
  if (const Loop* loop = object.loop()) return loop_attribute(*loop, name);
  if (object.macro() != nullptr || object.function() != nullptr || object.bound() != nullptr) {
    context.refuse("an attribute of {} is not supported", object.kind());
  }
  const Dict* dict = object.dict();
  if (dict != nullptr && !has_python_attribute(object, name)) {
    context.charge(dict->size());
    if (const Value* found = dict->find(name)) return *found;
  }
  return python_attribute_or_absent(object, name, text_value(std::string(name)));
}

Value item_of(Context& context, const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(context, object);
  const Text* name = key.text();
  if (const Dict* dict = object.dict()) {
    context.charge(dict->size());
    const Value* found =
        dict->find_if([&](const Value& there) { return equal(context, there, key); });
    if (found != nullptr) return *found;
  } else if (const auto index = whole_number(key)) {
    if (const List* list = object.list(); list != nullptr && list->has_places()) {
      if (const auto place = place_in(*index, list->items.size())) return list->items[*place];
    } else if (const Text* text = object.text()) {
      const auto places = character_places(context, text->bytes);
      if (const auto place = place_in(*index, places.size() - 1)) {
        return context.text(
            text->bytes.substr(places[*place], places[*place + 1] - places[*place]));
      }
    }
  } else if (name != nullptr && (object.loop() != nullptr || object.name_space() != nullptr)) {
    return attribute_of(context, object, name->bytes);
  }
  return name != nullptr ? python_attribute_or_absent(object, name->bytes, key)
                         : absent(object, key);
}

Value slice_of(Context& context, const Value& object, const Value& begin, const Value& end,
               const Value& step) {
  if (object.is_undefined()) fail_undefined(context, object);
  const List* list = object.list();
  const Text* text = object.text();
  if (text == nullptr && (list == nullptr || !list->has_places())) {
    return undefined_value(fmt::format("a slice of {}", object.kind()));
  }
  std::vector<std::size_t> places;
  if (text != nullptr) places = character_places(context, text->bytes);
  const auto size =
      static_cast<std::int64_t>(text != nullptr ? places.size() - 1 : list->items.size());
  const std::int64_t stride = step.is_none() ? 1 : integer_of(context, "the step of a slice", step);
  if (stride == 0) context.fail("the step of a slice is 0");
  const std::int64_t least = stride < 0 ? -1 : 0;
  const std::int64_t most = stride < 0 ? size - 1 : size;
  const auto bound_of = [&](const Value& value, std::int64_t otherwise) {
    if (value.is_none()) return otherwise;
    std::int64_t index = integer_of(context, "a bound of a slice", value);
    if (index < 0) index = index < -size ? least : index + size;
    return std::clamp(index, least, std::max(least, most));
  };
  const std::int64_t first = bound_of(begin, stride < 0 ? most : least);
  const std::int64_t last = bound_of(end, stride < 0 ? least : most);
  std::string characters;
  std::vector<Value> items;
  for (std::int64_t i = first; stride < 0 ? i > last : i < last;) {
    const auto place = static_cast<std::size_t>(i);
    if (text != nullptr) {
      characters.append(text->bytes, places[place], places[place + 1] - places[place]);
    } else {
      items.push_back(list->items[place]);
    }
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  if (text != nullptr) return context.text(std::move(characters));
  return context.list(std::move(items), list->kind);
}

std::int64_t integer_of(const Context& context, std::string_view what, const Value& value) {
  if (const auto number = whole_number(value)) return *number;
  context.fail("{} is {}, and must be a whole number", what, value.kind());
}

const std::string& text_of(const Context& context, std::string_view what, const Value& value) {
  if (const Text* text = value.text()) return text->bytes;
  if (value.is_undefined()) fail_undefined(context, value);
  context.fail("{} is {}, and must be a text", what, value.kind());
}

}  // namespace phalanx::jinja
