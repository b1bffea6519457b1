#pragma once
// Special tokens that are written in a text: "[CLS]", "</s>", "<extra_id_0>".

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phalanx {

class WrittenTokens {
 public:
  // Of tokens that begin at one place the one that was added first is read. Not empty.
  void add(std::string text, std::int32_t id) { tokens_.push_back({std::move(text), id}); }

  // The text from left to right: what stands between the tokens, where there is any, and the ids of
  // the tokens, the earliest first.
  void read(std::string_view text, const std::function<void(std::string_view)>& between,
            const std::function<void(std::int32_t)>& token) const;

 private:
  struct Token {
    std::string text;
    std::int32_t id;
  };
  std::vector<Token> tokens_;
};

}  // namespace phalanx
