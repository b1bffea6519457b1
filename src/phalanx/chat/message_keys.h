#pragma once
// The keys of a message, or of a line with a conversation, beside role and content.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "phalanx/chat/conversation.h"

namespace phalanx {

// Whether a key of a message, or of a whole line, says what is trained, as "weight" does.
bool says_what_is_trained(std::string_view key, bool of_line);

// Null, or without anything in it: tables write such where a line has nothing. Some write lists
// as texts.
bool is_nothing(const nlohmann::ordered_json& value);

// The wish in "weight": 0, "train": false and their like, of a message or of a whole line; none
// where nothing is said. ConfigError for other values than yes and no, for keys that differ, and
// for keys that name parts of a text.
std::optional<TrainingWish> training_wish(const nlohmann::ordered_json& object, bool of_line);

// ChatMessage::fields. The two keys become role and content; what is null is left out, as where a
// table has a column and a message has nothing there. ConfigError for calls of tools, and for
// values that are nested too deep.
std::string fields_of(const nlohmann::ordered_json& message, std::string_view role_key,
                      std::string_view content_key);
// A JSON object as text; ConfigError as above.
std::string object_text(const nlohmann::ordered_json& object);

struct TextVisitor {
  // `key` is the member of the object that the text or name is in.
  std::function<void(std::string_view key, std::string& text)> change_text;
  std::function<void(std::string_view key, std::string_view name)> see_name;
};
// All texts of a JSON object that a template may write, and all names in it; of an empty text none.
void visit_texts(std::string& object, const TextVisitor& visitor);

}  // namespace phalanx
