#include "phalanx/tokenizer/hf/pre_tokenizers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/hf/split_behavior.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

using Steps = std::vector<std::unique_ptr<const PreTokenizer>>;

class SplitStep final : public PreTokenizer {
 public:
  SplitStep(std::unique_ptr<const TextPattern> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void apply(Pieces& pieces) const override {
    pieces.cut([&](std::string_view piece, auto&& add) {
      split_at(pattern_->matches(piece), piece.size(), behavior_, invert_, add);
    });
  }
  const WordSplitter* words() const override {
    // An isolated match is cut on both sides.
    return behavior_ == SplitBehavior::kIsolated ? pattern_->splitter() : nullptr;
  }

 private:
  std::unique_ptr<const TextPattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Each character of a class is a match.
class CharacterStep final : public PreTokenizer {
 public:
  using Predicate = bool (*)(char32_t character);
  CharacterStep(Predicate matches, SplitBehavior behavior)
      : matches_(matches), behavior_(behavior) {}
  void apply(Pieces& pieces) const override {
    pieces.cut([&](std::string_view piece, auto&& add) {
      std::vector<TextMatch> matches;
      for (std::string_view rest = piece; !rest.empty();) {
        const std::size_t begin = piece.size() - rest.size();
        if (matches_(take_character(rest))) matches.push_back({begin, piece.size() - rest.size()});
      }
      split_at(matches, piece.size(), behavior_, false, add);
    });
  }

 private:
  Predicate matches_;
  SplitBehavior behavior_;
};

// Runs of word characters, and of what is neither those nor white space.
class WhitespaceStep final : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    pieces.cut([](std::string_view piece, auto&& add) {
      enum class Kind { kSpace, kWord, kOther };
      std::size_t begin = 0;
      Kind kind = Kind::kSpace;
      for (std::string_view rest = piece; !rest.empty();) {
        const std::size_t at = piece.size() - rest.size();
        const char32_t c = take_character(rest);
        const Kind now = is_word_character(c) ? Kind::kWord
                         : is_white_space(c)  ? Kind::kSpace
                                              : Kind::kOther;
        if (now == kind) continue;
        if (kind != Kind::kSpace) add(begin, at);
        begin = at;
        kind = now;
      }
      if (kind != Kind::kSpace) add(begin, piece.size());
    });
  }
};

class PrefixSpaceStep final : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    pieces.rewrite([](std::size_t, std::string_view piece, std::string& text) {
      if (!piece.starts_with(' ')) text.push_back(' ');
      text += piece;
    });
  }
};

class ByteSymbolsStep final : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    pieces.rewrite([](std::size_t, std::string_view piece, std::string& text) {
      text += symbols_from_bytes(piece);
    });
  }
};

class MetaspaceStep final : public PreTokenizer {
 public:
  enum class Prepend { kAlways, kFirst, kNever };
  MetaspaceStep(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}

  void apply(Pieces& pieces) const override {
    pieces.rewrite([&](std::size_t i, std::string_view piece, std::string& text) {
      const bool wanted =
          prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && pieces.at_start(i));
      if (wanted && !piece.starts_with(' ') && !piece.starts_with(replacement_)) {
        text += replacement_;
      }
      for (const char c : piece) {
        if (c == ' ') {
          text += replacement_;
        } else {
          text.push_back(c);
        }
      }
    });
    if (!split_) return;
    pieces.cut([&](std::string_view piece, auto&& add) {
      std::size_t begin = 0;
      for (std::size_t at = piece.find(replacement_, 1); at != std::string_view::npos;
           at = piece.find(replacement_, at + 1)) {
        add(begin, at);
        begin = at;
      }
      add(begin, piece.size());
    });
  }

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

void add_characters(Steps& steps, CharacterStep::Predicate matches, SplitBehavior behavior) {
  steps.push_back(std::make_unique<CharacterStep>(matches, behavior));
}

void add_split(Steps& steps, const JsonNode& node) {
  node.allow({"type", "pattern", "behavior", "invert"});
  steps.push_back(std::make_unique<SplitStep>(make_text_pattern(node["pattern"]),
                                              read_split_behavior(node["behavior"]),
                                              node.flag_or("invert", false)));
}

void add_metaspace(Steps& steps, const JsonNode& node) {
  using Prepend = MetaspaceStep::Prepend;
  node.allow({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  const std::string scheme = read_prepend_scheme(node);
  const Prepend prepend = scheme == "always"  ? Prepend::kAlways
                          : scheme == "first" ? Prepend::kFirst
                                              : Prepend::kNever;
  steps.push_back(std::make_unique<MetaspaceStep>(utf8_of(read_replacement(node)), prepend,
                                                  node.flag_or("split", true)));
}

void add_steps(PreTokenizers& all, const JsonNode& node);

void add_byte_level(PreTokenizers& all, const JsonNode& node) {
  node.allow({"type", "add_prefix_space", "use_regex", "trim_offsets"});
  if (node["add_prefix_space"].flag()) all.steps.push_back(std::make_unique<PrefixSpaceStep>());
  if (node.flag_or("use_regex", true)) {
    all.steps.push_back(
        std::make_unique<SplitStep>(make_gpt2_pattern(), SplitBehavior::kIsolated, false));
  }
  all.is_byte_level = all.ends_in_bytes = true;
}

void add_plain_type(PreTokenizers& all, const JsonNode& node, const std::string& name) {
  Steps& steps = all.steps;
  if (name == "Split") return add_split(steps, node);
  if (name == "Metaspace") return add_metaspace(steps, node);
  if (name == "Digits") {
    node.allow({"type", "individual_digits"});
    const bool single = node["individual_digits"].flag();
    return add_characters(steps, is_number,
                          single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (name == "Punctuation") {
    node.allow({"type", "behavior"});
    const auto behavior = node.find("behavior");
    return add_characters(steps, is_bert_punctuation,
                          behavior ? read_split_behavior(*behavior) : SplitBehavior::kIsolated);
  }
  node.allow({"type"});
  if (name == "Whitespace") {
    steps.push_back(std::make_unique<WhitespaceStep>());
  } else if (name == "WhitespaceSplit") {
    add_characters(steps, is_white_space, SplitBehavior::kRemoved);
  } else {  // BertPreTokenizer
    add_characters(steps, is_white_space, SplitBehavior::kRemoved);
    add_characters(steps, is_bert_punctuation, SplitBehavior::kIsolated);
  }
}

void add_steps(PreTokenizers& all, const JsonNode& node) {
  static constexpr std::array<std::string_view, 7> kPlain = {
      "Split",      "Metaspace",       "Digits",          "Punctuation",
      "Whitespace", "WhitespaceSplit", "BertPreTokenizer"};
  const JsonNode type = node["type"];
  const std::string name = type.text();
  if (name == "Sequence") {
    node.allow({"type", "pretokenizers"});
    for (const JsonNode& part : node["pretokenizers"].elements()) add_steps(all, part);
    return;
  }
  const bool plain = std::find(kPlain.begin(), kPlain.end(), name) != kPlain.end();
  if (!plain && name != "ByteLevel") {
    type.refuse(
        "{} is not supported; the pre-tokenizers are ByteLevel, Split, Whitespace, "
        "WhitespaceSplit, BertPreTokenizer, Digits, Punctuation, Metaspace and Sequence",
        shown_text(name));
  }
  if (all.ends_in_bytes) {  // and now something follows
    all.steps.push_back(std::make_unique<ByteSymbolsStep>());
    all.ends_in_bytes = false;
  }
  if (plain) {
    add_plain_type(all, node, name);
  } else {
    add_byte_level(all, node);
  }
}

}  // namespace

Pieces::Pieces(std::string_view text, bool at_start) : text_(text), at_start_(at_start) {
  if (!text.empty()) spans_.push_back({0, text.size()});
}

PreTokenizers make_pre_tokenizers(const JsonNode& node) {
  PreTokenizers all;
  add_steps(all, node);
  return all;
}

std::unique_ptr<const PreTokenizer> make_byte_symbols_step() {
  return std::make_unique<ByteSymbolsStep>();
}

}  // namespace phalanx
