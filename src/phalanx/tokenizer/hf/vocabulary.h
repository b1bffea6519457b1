#pragma once
// Tokens by id, and ids by token. Ids may have holes: an empty token.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "phalanx/tokenizer/hf/tokenizer_json.h"

namespace phalanx {

class Vocabulary {
 public:
  // {"token": id, ...}; DataError where two tokens have one id, or an id is out of proportion to
  // the number of tokens.
  static Vocabulary of_object(const JsonNode& object);

  // DataError (at `place`) where another token has the id or the token another id.
  void add(std::string token, std::int32_t id, const JsonNode& place);
  // A list's next token. Of equal ones the last has the token; the others keep their id.
  void append(std::string token);

  std::int64_t size() const { return std::ssize(tokens_); }  // the largest id + 1
  std::optional<std::int32_t> find(std::string_view token) const;
  std::span<const std::string> tokens() const { return tokens_; }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
};

// The largest id that a file with so many tokens may have.
std::int64_t largest_id(std::size_t tokens);

}  // namespace phalanx
