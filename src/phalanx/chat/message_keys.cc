#include "phalanx/chat/message_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostContainers = 90;  // in each other; a template takes 100, in a list of messages
constexpr std::size_t kMostShown = 40;

struct TrainingKey {
  std::string_view name;
  bool of_line;        // whole lines have it, too
  bool means_trained;  // true and 1 mean that it is trained
};
// OpenAI, Mistral: weight. Axolotl: train, training. Tinker: trainable. XTuner, ms-swift: loss,
// loss_scale. verl: loss_mask. torchtune: masked.
constexpr auto kTrainingKeys = std::to_array<TrainingKey>({{"weight", true, true},
                                                           {"train", true, true},
                                                           {"trainable", true, true},
                                                           {"training", false, true},
                                                           {"loss", false, true},
                                                           {"loss_mask", false, true},
                                                           {"loss_scale", false, true},
                                                           {"loss_weight", false, true},
                                                           {"masked", false, false}});
constexpr auto kParts = std::to_array<std::string_view>({"train_detail", "training_detail"});
constexpr auto kCalls = std::to_array<std::string_view>({"tool_calls", "function_call"});
constexpr std::string_view kMask = "mask";  // some mean what is trained by it, some what is not

std::string shown(const Json& value) {
  if (value.is_structured()) return value.type_name();
  std::string text = value.dump();
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
  return text;
}

bool yes_or_no(std::string_view key, const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) {
    const double number = value.get<double>();
    if (number == 0.0 || number == 1.0) return number == 1.0;
  }
  throw ConfigError(
      "\"{}\" is {}: 1 and true, 0 and false are there; a share of a loss is not supported", key,
      shown(value));
}

bool is_nested_deeper(const Json& value, int most) {
  if (!value.is_structured()) return false;
  if (most == 0) return true;
  return std::ranges::any_of(value,
                             [&](const Json& item) { return is_nested_deeper(item, most - 1); });
}

void check_nesting(const Json& value) {
  if (!is_nested_deeper(value, kMostContainers)) return;
  throw ConfigError("values are nested more than {} deep", kMostContainers);
}

// Whether anything was changed.
bool visit_value(std::string_view key, Json& value, const TextVisitor& visitor) {
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    const std::string before = text;
    visitor.change_text(key, text);
    return text != before;
  }
  bool is_changed = false;
  if (value.is_array()) {
    for (Json& item : value) is_changed |= visit_value(key, item, visitor);
  } else if (value.is_object()) {
    for (auto& [name, item] : value.items()) {
      visitor.see_name(key, name);
      is_changed |= visit_value(key, item, visitor);
    }
  }
  return is_changed;
}

}  // namespace

bool says_what_is_trained(std::string_view key, bool of_line) {
  return std::ranges::any_of(kTrainingKeys, [&](const TrainingKey& known) {
    return known.name == key && (known.of_line || !of_line);
  });
}

bool is_nothing(const Json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return text.empty() || text == "[]" || text == "{}" || text == "null";
  }
  return value.is_null() || (value.is_structured() && value.empty());
}

std::optional<TrainingWish> training_wish(const Json& object, bool of_line) {
  std::optional<TrainingWish> wish;
  for (const TrainingKey& key : kTrainingKeys) {
    const auto found = object.find(key.name);
    if ((of_line && !key.of_line) || found == object.end() || found->is_null()) continue;
    const bool is_trained = yes_or_no(key.name, *found) == key.means_trained;
    if (wish && wish->is_trained != is_trained) {
      throw ConfigError("\"{}\" and \"{}\" differ in whether it is trained", wish->key, key.name);
    }
    if (!wish) wish = {.is_trained = is_trained, .key = std::string(key.name)};
  }
  if (of_line) return wish;
  for (const std::string_view key : kParts) {
    if (const auto found = object.find(key); found != object.end() && !is_nothing(*found)) {
      throw ConfigError("\"{}\" is not supported: a message is trained whole, or not", key);
    }
  }
  if (const auto found = object.find(kMask); found != object.end() && !is_nothing(*found)) {
    throw ConfigError(
        "\"{}\" could mean what is trained, or what is not: write \"train\": true or false", kMask);
  }
  return wish;
}

std::string fields_of(const Json& message, std::string_view role_key,
                      std::string_view content_key) {
  Json fields = Json::object();
  for (const auto& [key, value] : message.items()) {
    if (key == role_key) {
      fields["role"] = nullptr;
    } else if (key == content_key) {
      fields["content"] = nullptr;
    } else if (std::ranges::find(kCalls, std::string_view(key)) != kCalls.end()) {
      if (!is_nothing(value)) throw ConfigError("\"{}\" is not supported", key);
    } else if (!value.is_null()) {
      check_nesting(value);
      fields[key] = value;
    }
  }
  const bool is_plain = fields.size() == 2 && fields.begin().key() == "role";
  return is_plain ? std::string() : fields.dump();
}

std::string object_text(const Json& object) {
  check_nesting(object);
  return object.dump();
}

void visit_texts(std::string& object, const TextVisitor& visitor) {
  if (object.empty()) return;
  Json json = Json::parse(object);
  bool is_changed = false;
  for (auto& [key, value] : json.items()) {
    visitor.see_name(key, key);
    is_changed |= visit_value(key, value, visitor);
  }
  if (is_changed) object = json.dump();
}

}  // namespace phalanx
