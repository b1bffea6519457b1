#include "phalanx/library/request.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/strict_json.h"
#include "phalanx/flags/flag_spec.h"

namespace phalanx {
namespace {

using Value = nlohmann::json;

// A value as messages show it.
std::string shown(const Value& value) {
  constexpr std::size_t kMost = 80;
  std::string text = value.dump(-1, ' ', false, Value::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

std::string text_of(const Value& value, const std::string& place) {
  if (!value.is_string()) {
    throw UsageError("{}: {} is no text: give a JSON string", place, shown(value));
  }
  return value.get<std::string>();
}

// A word of a call: paths and flags end at a zero byte.
std::string word_of(const Value& value, const std::string& place) {
  std::string word = text_of(value, place);
  if (word.find('\0') != std::string::npos) {
    throw UsageError("{}: {} has a zero byte: leave it out", place, shown(value));
  }
  return word;
}

const Value& list_of(const Value& value, const std::string& place) {
  if (!value.is_array()) {
    throw UsageError("{}: {} is no list: give a JSON list", place, shown(value));
  }
  return value;
}

std::int32_t id_of(const Value& value, const std::string& place) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const bool is_id = value.is_number_integer() &&
                     (!value.is_number_unsigned() || value.get<std::uint64_t>() <= kMost) &&
                     value.get<std::int64_t>() >= 0 && value.get<std::int64_t>() <= kMost;
  if (!is_id) throw UsageError("{}: {} is no token id", place, shown(value));
  return value.get<std::int32_t>();
}

// --num-layers for num_layers, "num-layers" and --num-layers.
std::string flag_of(const std::string& name) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  std::string flag = canonical_name(name.starts_with("--") ? name : "--" + name);
  if (flag.size() < 3 || flag[2] == '-' || name.find_first_not_of(kLetters) != std::string::npos) {
    throw UsageError("flags: {} is no name of a flag", shown(Value(name)));
  }
  return flag;
}

// A number or a text as the command line has it.
std::string scalar_word(const Value& value, const std::string& place) {
  if (value.is_string()) return word_of(value, place);
  if (value.is_number()) return value.dump();
  throw UsageError("{}: {} is neither a text nor a number", place, shown(value));
}

// What the parser takes for a flag where it stands alone: -5 is a number.
bool looks_like_flag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '.' && (word[1] < '0' || word[1] > '9');
}

void add_list(const std::string& flag, const Value& list, const std::string& place,
              std::vector<std::string>& words) {
  if (list.empty())
    throw UsageError("{}: the list is empty: leave the flag out, or give null", place);
  if (list.size() == 1) {
    words.push_back(flag + "=" + scalar_word(list[0], place + "[0]"));
    return;
  }
  words.push_back(flag);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string element = fmt::format("{}[{}]", place, i);
    std::string word = scalar_word(list[i], element);
    if (looks_like_flag(word)) {
      throw UsageError("{}: {} begins as a flag does, which no element of a longer list may",
                       element, shown(list[i]));
    }
    words.push_back(std::move(word));
  }
}

void add_flag(const std::string& flag, const Value& value, std::vector<std::string>& words) {
  const std::string place = "flags: " + flag;
  if (value.is_null()) return;
  if (value.is_boolean()) {
    if (value.get<bool>()) words.push_back(flag);
  } else if (value.is_array()) {
    add_list(flag, value, place, words);
  } else {
    words.push_back(flag + "=" + scalar_word(value, place));
  }
}

}  // namespace

struct Request::Members {
  Value json;
  std::set<std::string, std::less<>> known;

  // Null if it is not given.
  const Value* find(std::string_view name) {
    known.emplace(name);
    const auto found = json.find(std::string(name));
    return found == json.end() || found->is_null() ? nullptr : &*found;
  }
};

std::string given_text(const char* text, std::string_view name) {
  if (text == nullptr) throw UsageError("{} is NULL: give a text", name);
  return text;
}

Request::Request(const char* text) : members_(std::make_unique<Members>()) {
  const std::string given = given_text(text, "the request");
  try {
    members_->json = parse_strict_json(given, "the request");
  } catch (const DataError& fault) {
    throw UsageError("{}", fault.what());
  }
  if (!members_->json.is_object()) {
    throw UsageError("the request is {}: give a JSON object", shown(members_->json));
  }
}

Request::~Request() = default;

bool Request::has(std::string_view name) const { return members_->find(name) != nullptr; }

std::optional<std::string> Request::text(std::string_view name) {
  const Value* value = members_->find(name);
  if (value == nullptr) return std::nullopt;
  return text_of(*value, std::string(name));
}

std::optional<std::string> Request::word(std::string_view name) {
  const Value* value = members_->find(name);
  if (value == nullptr) return std::nullopt;
  return word_of(*value, std::string(name));
}

bool Request::is_set(std::string_view name) {
  const Value* value = members_->find(name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    throw UsageError("{}: {} is neither true nor false", name, shown(*value));
  }
  return value->get<bool>();
}

std::optional<std::vector<std::string>> Request::texts(std::string_view name) {
  const Value* value = members_->find(name);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> texts;
  for (const Value& text : list_of(*value, std::string(name))) {
    texts.push_back(text_of(text, fmt::format("{}[{}]", name, texts.size())));
  }
  return texts;
}

std::optional<std::vector<std::string>> Request::word_list(std::string_view name) {
  const Value* value = members_->find(name);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> words;
  for (const Value& word : list_of(*value, std::string(name))) {
    words.push_back(word_of(word, fmt::format("{}[{}]", name, words.size())));
  }
  return words;
}

std::optional<std::vector<std::vector<std::int32_t>>> Request::ids(std::string_view name) {
  const Value* value = members_->find(name);
  if (value == nullptr) return std::nullopt;
  std::vector<std::vector<std::int32_t>> lists;
  for (const Value& list : list_of(*value, std::string(name))) {
    const std::string place = fmt::format("{}[{}]", name, lists.size());
    std::vector<std::int32_t>& ids = lists.emplace_back();
    for (const Value& id : list_of(list, place)) {
      ids.push_back(id_of(id, fmt::format("{}[{}]", place, ids.size())));
    }
  }
  return lists;
}

std::vector<std::string> Request::words() {
  std::vector<std::string> words;
  if (auto model = word("model")) words.push_back(std::move(*model));
  if (const auto arguments = word_list("arguments")) {
    words.insert(words.end(), arguments->begin(), arguments->end());
  }
  const Value* flags = members_->find("flags");
  if (flags == nullptr) return words;
  if (!flags->is_object()) {
    throw UsageError("flags: {} is no object: give names and values", shown(*flags));
  }
  std::map<std::string, std::string> names;
  for (const auto& [name, value] : flags->items()) {
    const std::string flag = flag_of(name);
    const auto [before, is_new] = names.emplace(flag, name);
    if (!is_new) {
      throw UsageError("flags: {} and {} are the same flag: keep one of them", before->second,
                       name);
    }
    add_flag(flag, value, words);
  }
  return words;
}

void Request::expect_no_other() const {
  for (const auto& [name, value] : members_->json.items()) {
    if (members_->known.contains(name)) continue;
    throw UsageError("the request has {}, which is not known here: it may have {}",
                     shown(Value(name)), fmt::join(members_->known, ", "));
  }
}

}  // namespace phalanx
