#include "phalanx/chat/unused_keys.h"

#include <fmt/format.h>

#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/chat/message_keys.h"

namespace phalanx {
namespace {

// Whole characters of a name that may be as long as a line.
std::string_view shortened(std::string_view name) {
  constexpr std::size_t kMost = 100;  // bytes
  if (name.size() <= kMost) return name;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0U) == 0x80U) --end;
  return name.substr(0, end);
}

}  // namespace

std::vector<KeyUse> template_keys(const RenderedChat& rendered) {
  std::vector<KeyUse> keys;
  for (const KeyUse& key : rendered.message_keys) {
    if (says_what_is_trained(key.name, /*of_line=*/false)) continue;
    keys.push_back({fmt::format("\"{}\" of messages", key.name), key.is_read});
  }
  for (const KeyUse& key : rendered.conversation_arguments) {
    keys.push_back({fmt::format("\"{}\" of chat_template_kwargs", key.name), key.is_read});
  }
  for (const KeyUse& key : rendered.arguments) {
    keys.push_back({fmt::format("\"{}\" of --chat-template-args", key.name), key.is_read});
  }
  return keys;
}

std::vector<KeyUse> line_keys(const Conversation& conversation) {
  std::vector<KeyUse> keys;
  for (const std::string& key : conversation.unused_keys) {
    keys.push_back({fmt::format("\"{}\"", key), false});
  }
  return keys;
}

void KeyUses::add(const std::vector<KeyUse>& keys) {
  for (const KeyUse& key : keys) add(key.name, key.is_read);
}

void KeyUses::add(std::string_view name, bool is_used, std::int64_t times) {
  name = shortened(name);
  auto found = names_.find(name);
  if (found == names_.end()) {
    if (names_.size() == kMostNames) {
      if (!is_used) others_ += times;
      return;
    }
    found = names_.emplace(name, Uses{}).first;
  }
  found->second.times += times;
  found->second.is_used |= is_used;
}

void KeyUses::add(const KeyUses& later) {
  for (const auto& [name, uses] : later.names_) add(name, uses.is_used, uses.times);
  others_ += later.others_;
}

std::string KeyUses::unused() const {
  std::string text;
  std::size_t shown = 0;
  std::int64_t others = others_;
  for (const auto& [name, uses] : names_) {
    if (uses.is_used) continue;
    if (shown == kMostShown) {
      others += uses.times;
      continue;
    }
    text += fmt::format("{}{} ({})", shown == 0 ? "" : ", ", name, format_count(uses.times));
    ++shown;
  }
  if (others > 0) {
    text += fmt::format("{}others ({})", shown == 0 ? "" : ", ", format_count(others));
  }
  return text;
}

void warn_of_unused_keys(std::string_view file, std::string_view unused) {
  if (!unused.empty()) log_warning("{}: these keys change nothing: {}", file, unused);
}

}  // namespace phalanx
