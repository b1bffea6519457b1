#include "phalanx/tokenizer/hf/text_pattern.h"

#include <utility>

#include "phalanx/tokenizer/patterns.h"
#include "phalanx/tokenizer/word_splitter.h"

namespace phalanx {
namespace {

class StringPattern final : public TextPattern {
 public:
  explicit StringPattern(std::string text) : text_(std::move(text)) {}
  std::vector<TextMatch> matches(std::string_view text) const override {
    std::vector<TextMatch> found;
    for (std::size_t at = text.find(text_); at != std::string_view::npos;
         at = text.find(text_, at + text_.size())) {
      found.push_back({at, at + text_.size()});
    }
    return found;
  }

 private:
  std::string text_;
};

class RegexPattern final : public TextPattern {
 public:
  explicit RegexPattern(WordSplitter splitter) : splitter_(std::move(splitter)) {}
  std::vector<TextMatch> matches(std::string_view text) const override {
    std::vector<TextMatch> found;
    MatchCursor cursor(splitter_);
    cursor.restart(text);
    for (auto match = cursor.next(); match; match = cursor.next()) found.push_back(*match);
    return found;
  }
  const WordSplitter* splitter() const override { return &splitter_; }

 private:
  WordSplitter splitter_;
};

}  // namespace

std::unique_ptr<const TextPattern> make_text_pattern(const JsonNode& node) {
  node.allow({"String", "Regex"});
  if (const auto regex = node.find("Regex")) {
    return std::make_unique<RegexPattern>(
        WordSplitter(pattern_of_oniguruma(regex->text(), regex->place()), regex->place()));
  }
  const JsonNode string = node["String"];
  if (string.text().empty()) string.refuse("an empty pattern is not supported");
  return std::make_unique<StringPattern>(string.text());
}

std::unique_ptr<const TextPattern> make_gpt2_pattern() {
  return std::make_unique<RegexPattern>(WordSplitter(pattern_named("gpt2")));
}

std::string replaced(std::string_view text, const TextPattern& pattern,
                     std::string_view replacement) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  std::string result;
  result.reserve(text.size());
  std::size_t done = 0;
  for (const TextMatch& match : pattern.matches(text)) {
    result += text.substr(done, match.begin - done);
    result += replacement;
    done = match.end;
    // A limit, because a short file may ask for text that doubles again and again.
    if (result.size() > kMostBytes) {
      throw DataError("replacing makes more than {} bytes of one text", kMostBytes);
    }
  }
  result += text.substr(done);
  return result;
}

}  // namespace phalanx
