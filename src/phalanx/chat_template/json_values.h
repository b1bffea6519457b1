#pragma once
// JSON into values, and back (tojson).

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/chat_template/context.h"
#include "phalanx/chat_template/value.h"

namespace phalanx::jinja {

// As json.dumps takes them.
struct JsonStyle {
  bool as_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent = {};  // of one level; without it everything is in one line
  std::string between_items = ", ";
  std::string behind_key = ": ";
};

std::string json_of(Context& context, const Value& value, const JsonStyle& style);

// The members of a JSON object, in order. ConfigError, naming `what`, for anything else.
std::vector<std::pair<std::string, Value>> members_of_json(Context& context, std::string_view json,
                                                           std::string_view what);

}  // namespace phalanx::jinja
