#pragma once
// The text of tokens as they come: characters that are not whole yet and text that may be the
// beginning of a stop sequence are held back.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// The text of tokens; ids that only the model has, not the tokenizer, have none.
std::string known_text(const Tokenizer& tokenizer, std::span<const std::int32_t> ids);

class AnswerText {
 public:
  // Of tokens behind those of a prompt. Where one of `stops` (none empty) appears, even across
  // tokens, the text ends in front of it. Tokenizer and stops must outlive the object.
  AnswerText(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
             std::span<const std::string> stops);

  // What can be shown because of this token. Ids that only the model has, not the tokenizer, have
  // no text.
  std::string add(std::int32_t id);
  // What was held back: there are no more tokens.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }
  // All that was shown.
  const std::string& text() const { return text_; }

 private:
  bool has_text(std::int32_t id) const { return id < tokenizer_.vocab_size(); }
  std::string show(std::string_view fresh, bool last);

  const Tokenizer& tokenizer_;
  std::span<const std::string> stops_;
  std::vector<std::int32_t> ids_;
  // A token's text may depend on those before it (a blank in front of a word), so tokens from
  // begin_ on are decoded together, and what is new is what those from shown_ on add.
  std::size_t begin_ = 0, shown_;
  std::string text_, held_;
  bool is_stopped_ = false;
};

}  // namespace phalanx
