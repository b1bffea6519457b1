#include "phalanx/tokenizer/hf/normalizers.h"

#include <utility>
#include <vector>

#include "phalanx/tokenizer/hf/text_pattern.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

// Leaves out the characters that the predicate names.
template <typename Drops>
void drop_characters(NormalizedText& text, Drops&& drops) {
  std::string kept;
  kept.reserve(text.text.size());
  const std::string_view whole = text.text;
  for (std::string_view rest = whole; !rest.empty();) {
    const std::string_view before = rest;
    if (!drops(take_character(rest))) {
      kept += before.substr(0, before.size() - rest.size());
    } else if (before.size() == whole.size()) {
      text.at_start = false;
    }
  }
  text.text = std::move(kept);
}

class FormNormalizer final : public Normalizer {
 public:
  explicit FormNormalizer(NormalForm form) : form_(form) {}
  void apply(NormalizedText& text) const override { text.text = normalized(text.text, form_); }

 private:
  NormalForm form_;
};

class LowercaseNormalizer final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    text.text = lower_case_of_characters(text.text);
  }
};

class StripAccentsNormalizer final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override { drop_characters(text, is_mark); }
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalizedText& text) const override {
    std::string_view rest = text.text;
    while (left_ && !rest.empty()) {
      std::string_view next = rest;
      if (!is_white_space(take_character(next))) break;
      rest = next;
      text.at_start = false;
    }
    std::size_t size = 0;  // up to the last character that is no white space
    for (std::string_view tail = rest; !tail.empty();) {
      if (!is_white_space(take_character(tail))) size = rest.size() - tail.size();
    }
    text.text = std::string(right_ ? rest.substr(0, size) : rest);
  }

 private:
  bool left_;
  bool right_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(std::unique_ptr<const TextPattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(NormalizedText& text) const override {
    if (content_.empty() && text.at_start) {
      const auto matches = pattern_->matches(text.text);
      text.at_start = matches.empty() || matches[0].begin > 0;
    }
    text.text = replaced(text.text, *pattern_, content_);
  }

 private:
  std::unique_ptr<const TextPattern> pattern_;
  std::string content_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string content) : content_(std::move(content)) {}
  void apply(NormalizedText& text) const override {
    if (!text.text.empty()) text.text.insert(0, content_);
  }

 private:
  std::string content_;
};

class BertNormalizer final : public Normalizer {
 public:
  struct Options {
    bool clean_text = true;
    bool handle_chinese_chars = true;
    bool strip_accents = true;
    bool lowercase = true;
  };
  explicit BertNormalizer(const Options& options) : options_(options) {}

  void apply(NormalizedText& text) const override {
    if (options_.clean_text) clean(text);
    if (options_.handle_chinese_chars) text.text = with_blanks_around_ideographs(text.text);
    if (options_.strip_accents) {
      text.text = normalized(text.text, NormalForm::kNfd);
      drop_characters(text, [](char32_t c) { return general_category(c) == "Mn"; });
    }
    if (options_.lowercase) text.text = lower_case_of_characters(text.text);
  }

 private:
  static bool is_dropped(char32_t c) {
    if (c == '\t' || c == '\n' || c == '\r') return false;
    const std::string_view category = general_category(c);
    return c == 0 || c == 0xfffd || category == "Cc" || category == "Cf" || category == "Co";
  }

  static void clean(NormalizedText& text) {
    drop_characters(text, is_dropped);
    std::string cleaned;
    cleaned.reserve(text.text.size());
    for (std::string_view rest = text.text; !rest.empty();) {
      const char32_t c = take_character(rest);
      append_utf8(is_white_space(c) ? U' ' : c, cleaned);
    }
    text.text = std::move(cleaned);
  }

  static std::string with_blanks_around_ideographs(std::string_view text) {
    std::string spaced;
    spaced.reserve(text.size());
    while (!text.empty()) {
      const char32_t c = take_character(text);
      // A part of extension E is no ideograph to the library whose files these are.
      const bool alone = is_cjk_ideograph(c) && (c < 0x2b820 || c > 0x2b91f);
      if (alone) spaced.push_back(' ');
      append_utf8(c, spaced);
      if (alone) spaced.push_back(' ');
    }
    return spaced;
  }

  Options options_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(const JsonNode& list) {
    for (const JsonNode& node : list.elements()) parts_.push_back(make_normalizer(node));
  }
  void apply(NormalizedText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

std::unique_ptr<const Normalizer> make_bert_normalizer(const JsonNode& node) {
  node.allow({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  BertNormalizer::Options options{
      .clean_text = node.flag_or("clean_text", true),
      .handle_chinese_chars = node.flag_or("handle_chinese_chars", true),
      .lowercase = node.flag_or("lowercase", true)};
  options.strip_accents = node.flag_or("strip_accents", options.lowercase);
  return std::make_unique<BertNormalizer>(options);
}

}  // namespace

std::unique_ptr<const Normalizer> make_normalizer(const JsonNode& node) {
  const JsonNode type = node["type"];
  const std::string name = type.text();
  const auto form = [&](NormalForm of) {
    node.allow({"type"});
    return std::make_unique<FormNormalizer>(of);
  };
  if (name == "NFC") return form(NormalForm::kNfc);
  if (name == "NFD") return form(NormalForm::kNfd);
  if (name == "NFKC") return form(NormalForm::kNfkc);
  if (name == "NFKD") return form(NormalForm::kNfkd);
  if (name == "Lowercase") {
    node.allow({"type"});
    return std::make_unique<LowercaseNormalizer>();
  }
  if (name == "StripAccents") {
    node.allow({"type"});
    return std::make_unique<StripAccentsNormalizer>();
  }
  if (name == "Strip") {
    node.allow({"type", "strip_left", "strip_right"});
    return std::make_unique<StripNormalizer>(node["strip_left"].flag(), node["strip_right"].flag());
  }
  if (name == "Replace") {
    node.allow({"type", "pattern", "content"});
    return std::make_unique<ReplaceNormalizer>(make_text_pattern(node["pattern"]),
                                               node["content"].text());
  }
  if (name == "Prepend") {
    node.allow({"type", "prepend"});
    return std::make_unique<PrependNormalizer>(node["prepend"].text());
  }
  if (name == "BertNormalizer") return make_bert_normalizer(node);
  if (name == "Sequence") {
    node.allow({"type", "normalizers"});
    return std::make_unique<NormalizerSequence>(node["normalizers"]);
  }
  if (name == "Precompiled" || name == "Nmt") {
    type.refuse(
        "'{}' is SentencePiece's character map, which is not supported; give the model's "
        ".model file to --tokenizer-type SentencePieceTokenizer or Llama2Tokenizer",
        name);
  }
  type.refuse(
      "{} is not supported; the normalizers are NFC, NFD, NFKC, NFKD, Lowercase, "
      "StripAccents, Strip, Replace, Prepend, BertNormalizer and Sequence",
      shown_text(name));
}

}  // namespace phalanx
