#include "phalanx/chat_template/json_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "phalanx/chat_template/operations.h"
#include "phalanx/chat_template/python_text.h"

namespace phalanx::jinja {
namespace {

using Json = nlohmann::ordered_json;

class Writer {
 public:
  Writer(Context& context, const JsonStyle& style) : context_(context), style_(style) {}

  void append(const Value& value, std::size_t level) {
    context_.step();
    context_.check_length(out_.size());
    if (const Text* text = value.text()) {
      context_.charge(text->bytes.size());
      append_json(text->bytes, style_.as_ascii, out_);
    } else if (const List* list = value.list();
               list != nullptr && list->has_places() && list->kind != List::Kind::kRange) {
      append_list(*list, level);
    } else if (const Dict* dict = value.dict()) {
      append_dict(*dict, level);
    } else {
      out_ += scalar(value);
    }
  }
  std::string take() { return std::move(out_); }

 private:
  std::string scalar(const Value& value) const {
    if (value.is_none()) return "null";
    if (const bool* boolean = value.boolean()) return *boolean ? "true" : "false";
    if (const auto* integer = value.integer()) return fmt::format("{}", *integer);
    if (const double* real = value.real()) {
      if (std::isnan(*real)) return "NaN";
      if (std::isinf(*real)) return *real < 0 ? "-Infinity" : "Infinity";
      std::string out;
      append_repr(*real, out);
      return out;
    }
    context_.fail("{} is no JSON", value.kind());
  }

  void new_line(std::size_t level) {
    if (!style_.indent) return;
    context_.charge(level * style_.indent->size());
    out_ += '\n';
    for (std::size_t i = 0; i < level; ++i) out_ += *style_.indent;
  }

  void append_list(const List& list, std::size_t level) {
    out_ += '[';
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += style_.between_items;
      new_line(level + 1);
      append(list.items[i], level + 1);
    }
    if (!list.items.empty()) new_line(level);
    out_ += ']';
  }

  void append_dict(const Dict& dict, std::size_t level) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    context_.charge(entries.size() * sizeof(Value));
    if (style_.sort_keys) {
      std::ranges::stable_sort(entries, [&](const auto* a, const auto* b) {
        return less(context_, a->first, b->first);
      });
    }
    out_ += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.between_items;
      new_line(level + 1);
      const Text* key = entries[i]->first.text();
      append_json(key != nullptr ? key->bytes : scalar(entries[i]->first), style_.as_ascii, out_);
      out_ += style_.behind_key;
      append(entries[i]->second, level + 1);
    }
    if (!entries.empty()) new_line(level);
    out_ += '}';
  }

  Context& context_;
  const JsonStyle& style_;
  std::string out_;
};

Value value_of(Context& context, const Json& json, int depth, std::string_view what) {
  if (depth > Context::kMostContainers) {
    throw ConfigError("{}: values are nested more than {} deep", what, Context::kMostContainers);
  }
  switch (json.type()) {
    case Json::value_t::null:
      return {};
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
        throw ConfigError("{}: {} has more than 64 bits", what, json.get<std::uint64_t>());
      }
      return Value(json.get<std::int64_t>());
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return context.text(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(value_of(context, item, depth + 1, what));
      return context.list(std::move(items));
    }
    default: {
      std::vector<std::pair<Value, Value>> entries;
      for (const auto& [key, item] : json.items()) {
        entries.emplace_back(context.text(key), value_of(context, item, depth + 1, what));
      }
      return context.dict(std::move(entries));
    }
  }
}

}  // namespace

std::string json_of(Context& context, const Value& value, const JsonStyle& style) {
  Writer writer(context, style);
  writer.append(value, 0);
  return writer.take();
}

std::vector<std::pair<std::string, Value>> members_of_json(Context& context, std::string_view json,
                                                           std::string_view what) {
  const Json parsed = Json::parse(json, nullptr, false);
  if (!parsed.is_object()) throw ConfigError("{}: it is no JSON object", what);
  std::vector<std::pair<std::string, Value>> members;
  for (const auto& [key, item] : parsed.items()) {
    try {
      members.emplace_back(key, value_of(context, item, 1, what));
    } catch (const ConfigError& error) {
      throw ConfigError("\"{}\" of {}", key, error.what());
    }
  }
  return members;
}

}  // namespace phalanx::jinja
