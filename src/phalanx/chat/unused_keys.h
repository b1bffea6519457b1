#pragma once
// Which keys of a file of conversations change nothing.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/chat/conversation.h"

namespace phalanx {

// The keys of a rendering that watched them: those of messages, without keys about training, and
// the variables of the conversation and of the flag. By names for KeyUses.
std::vector<KeyUse> template_keys(const RenderedChat& rendered);

// The keys of a line that decide nothing, by names for KeyUses.
std::vector<KeyUse> line_keys(const Conversation& conversation);

// How often a key stands in lines, and whether it changed anything in one of them.
class KeyUses {
 public:
  void add(std::string_view name, bool is_used, std::int64_t times = 1);
  void add(const std::vector<KeyUse>& keys);
  void add(const KeyUses& later);

  // "id" of lines (100), ...: those that nothing has used, by name; empty: none.
  std::string unused() const;

 private:
  // A file may have another key in every line.
  static constexpr std::size_t kMostNames = 64;
  static constexpr std::size_t kMostShown = 20;
  struct Uses {
    std::int64_t times = 0;
    bool is_used = false;
  };

  std::map<std::string, Uses, std::less<>> names_;
  std::int64_t others_ = 0;  // times of further names
};

// Warns of the keys that KeyUses::unused() names, where there are any.
void warn_of_unused_keys(std::string_view file, std::string_view unused);

}  // namespace phalanx
