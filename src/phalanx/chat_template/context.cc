#include "phalanx/chat_template/context.h"

#include <algorithm>

#include "phalanx/chat_template/operations.h"

namespace phalanx::jinja {

Value Context::text(std::string bytes) {
  check_length(bytes.size());
  charge(bytes.size() + sizeof(Text));
  return text_value(std::move(bytes));
}

Value Context::list(std::vector<Value> items, List::Kind kind) {
  charge(items.size() * sizeof(Value) + sizeof(List));
  int depth = 1;
  for (const Value& item : items) depth = std::max(depth, item.depth() + 1);
  if (depth > kMostContainers) fail("lists are nested more than {} deep", kMostContainers);
  return Value(std::make_shared<const List>(List{kind, std::move(items), depth}));
}

Value Context::dict(std::vector<std::pair<Value, Value>> entries) {
  charge(entries.size() * 2 * sizeof(Value) + sizeof(Dict));
  int depth = 1;
  for (const auto& [key, value] : entries) {
    depth = std::max({depth, key.depth() + 1, value.depth() + 1});
  }
  if (depth > kMostContainers) fail("dicts are nested more than {} deep", kMostContainers);
  return Value(std::make_shared<const Dict>(Dict(std::move(entries), depth)));
}

void Context::set(std::vector<std::pair<Value, Value>>& entries, const Value& key, Value value) {
  if (key.list() != nullptr || key.dict() != nullptr) {
    refuse("{} as the key of a dict is not supported", key.kind());
  }
  charge(entries.size() * sizeof(Value));
  const auto found = std::ranges::find_if(
      entries, [&](const auto& entry) { return equal(*this, entry.first, key); });
  if (found != entries.end()) {
    found->second = std::move(value);
  } else {
    entries.emplace_back(key, std::move(value));
  }
}

}  // namespace phalanx::jinja
