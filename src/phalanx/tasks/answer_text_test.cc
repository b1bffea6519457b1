#include "phalanx/tasks/answer_text.h"

#include <gtest/gtest.h>

namespace phalanx {
namespace {

// Tokens are pieces of text. As in sentencepiece, id 0 begins with a blank, which it loses as a
// text's first token.
class PieceTokenizer final : public Tokenizer {
 public:
  explicit PieceTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  std::string_view name() const override { return "pieces"; }
  std::int64_t vocab_size() const override { return std::ssize(pieces_); }
  const SpecialTokens& special_tokens() const override { return special_; }
  std::string piece(std::int32_t id) const override {
    return pieces_[static_cast<std::size_t>(id)];
  }

 private:
  std::vector<std::int32_t> encode_text(std::string_view /*text*/,
                                        const EncodeOptions& /*options*/) const override {
    return {};
  }
  std::string decode_ids(std::span<const std::int32_t> ids,
                         const DecodeOptions& /*options*/) const override {
    std::string text;
    for (const std::int32_t id : ids) text += piece(id);
    return text.starts_with(' ') ? text.substr(1) : text;
  }

  std::vector<std::string> pieces_;
  SpecialTokens special_;
};

const PieceTokenizer& tokenizer() {
  static const PieceTokenizer instance(
      {" dog", "The", "\xe4\xb8", "\xad", "Q", ":", "\nQ", " a", "\xef\xbf\xbd"});
  return instance;
}

std::vector<std::string> shown(const std::vector<std::int32_t>& ids,
                               const std::vector<std::string>& stops = {}) {
  const std::vector<std::int32_t> prompt = {1};
  AnswerText text(tokenizer(), prompt, stops);
  std::vector<std::string> parts;
  for (const std::int32_t id : ids) parts.push_back(text.add(id));
  parts.push_back(text.finish());
  std::string all;
  for (const std::string& part : parts) all += part;
  EXPECT_EQ(text.text(), all);
  return parts;
}

using Parts = std::vector<std::string>;

TEST(AnswerText, KeepsTheBlankBehindThePrompt) {
  EXPECT_EQ(shown({0, 7, 1}), (Parts{" dog", " a", "The", ""}));
}

TEST(AnswerText, WaitsForWholeCharacters) {
  EXPECT_EQ(shown({2, 3, 0}), (Parts{"", "\xe4\xb8\xad", " dog", ""}));
  EXPECT_EQ(shown({0, 2}), (Parts{" dog", "", "\xe4\xb8"}));
  // Bytes that never become a character are shown in the end.
  EXPECT_EQ(shown({8, 8, 8, 8}),
            (Parts{"", "", "", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", ""}));
}

TEST(AnswerText, StopsAcrossTokens) {
  const Parts stops = {"\nQ:", "dog a"};
  EXPECT_EQ(shown({1, 6, 5, 0}, stops), (Parts{"The", "", "", "", ""}));
  // Text that only begins like a stop sequence comes with the text behind it, or at the end.
  EXPECT_EQ(shown({1, 6, 7, 4}, stops), (Parts{"The", "", "\nQ a", "Q", ""}));
  EXPECT_EQ(shown({1, 6}, stops), (Parts{"The", "", "\nQ"}));
  EXPECT_EQ(shown({0, 7, 1}, stops), (Parts{" ", "", "", ""}));
  const std::vector<std::int32_t> prompt = {1};
  AnswerText text(tokenizer(), prompt, stops);
  text.add(0);
  EXPECT_FALSE(text.is_stopped());
  text.add(7);
  EXPECT_TRUE(text.is_stopped());
  EXPECT_EQ(text.text(), " ");
}

// A model may have ids that its tokenizer does not have.
TEST(AnswerText, IdsBeyondTheTokenizerHaveNoText) {
  // What was said before in a dialogue is the prompt of what follows.
  const std::vector<std::int32_t> prompt = {1, 12};
  AnswerText text(tokenizer(), prompt, {});
  for (const std::int32_t id : {0, 9, 1000, 7}) text.add(id);
  text.finish();
  EXPECT_EQ(text.text(), " dog a");
}

}  // namespace
}  // namespace phalanx
