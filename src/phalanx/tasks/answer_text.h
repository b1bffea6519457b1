#pragma once
// The text of an answer's tokens as they are generated. Characters that are not complete yet and
// text that may be the begin of a stop sequence are held back.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// The text of tokens. Ids that the tokenizer does not have, but the model has, have no text.
std::string known_text(const Tokenizer& tokenizer, std::span<const std::int32_t> ids);

class AnswerText {
 public:
  // The answer follows `prompt`. It ends before the first of `stops` (none of which is empty),
  // which may go over several tokens. Tokenizer and stops must outlive the object.
  AnswerText(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
             std::span<const std::string> stops);

  // The text that can be shown after this token.
  std::string add(std::int32_t id);
  // The text that was held back, at the end of the answer.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }
  // All text that was returned.
  const std::string& text() const { return text_; }

 private:
  bool has_text(std::int32_t id) const { return id < tokenizer_.vocab_size(); }
  std::string show(std::string_view fresh, bool last);

  const Tokenizer& tokenizer_;
  std::span<const std::string> stops_;
  std::vector<std::int32_t> ids_;
  // A token's text may depend on the tokens before it (a blank before a word). So tokens from
  // begin_ on are decoded together; the new text is what the tokens from shown_ on add.
  std::size_t begin_ = 0, shown_;
  std::string text_, held_;
  bool is_stopped_ = false;
};

}  // namespace phalanx
