// Each stage of a tokenizer.json alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/tokenizer/hf/added_tokens.h"
#include "phalanx/tokenizer/hf/decoders.h"
#include "phalanx/tokenizer/hf/normalizers.h"
#include "phalanx/tokenizer/hf/pre_tokenizers.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Texts = std::vector<std::string>;

Texts pieces_of(const std::string& json, std::string_view text, bool at_start = true) {
  const PreTokenizers steps = make_pre_tokenizers(JsonNode::parse(json, "test"));
  Pieces pieces(text, at_start);
  for (const auto& step : steps.steps) step->apply(pieces);
  Texts texts;
  for (std::size_t i = 0; i < pieces.size(); ++i) texts.emplace_back(pieces[i]);
  return texts;
}

TEST(PreTokenizers, SplitHasFiveBehaviors) {
  const auto cut = [](const std::string& behavior, bool invert = false) {
    return pieces_of(R"({"type": "Split", "pattern": {"String": "-"}, "behavior": ")" + behavior +
                         R"(", "invert": )" + (invert ? "true}" : "false}"),
                     "-a--b-");
  };
  EXPECT_THAT(cut("Removed"), ElementsAre("a", "b"));
  EXPECT_THAT(cut("Isolated"), ElementsAre("-", "a", "-", "-", "b", "-"));
  EXPECT_THAT(cut("MergedWithPrevious"), ElementsAre("-", "a-", "-", "b-"));
  EXPECT_THAT(cut("MergedWithNext"), ElementsAre("-a", "-", "-b", "-"));
  EXPECT_THAT(cut("Contiguous"), ElementsAre("-", "a", "--", "b", "-"));
  EXPECT_THAT(cut("Removed", true), ElementsAre("-", "-", "-", "-"));
  EXPECT_THAT(cut("MergedWithNext", true), ElementsAre("-", "a-", "-", "b-"));
}

TEST(PreTokenizers, ClassesOfCharacters) {
  EXPECT_THAT(pieces_of(R"({"type": "Whitespace"})", "a\u0301‿\u200dⅧⓐ² b!? \u3000"),
              ElementsAre("a\u0301‿\u200dⅧⓐ", "²", "b", "!?"));
  EXPECT_THAT(pieces_of(R"({"type": "WhitespaceSplit"})", " a\u0085b\u180ec\u3000"),
              ElementsAre("a", "b\u180ec"));
  EXPECT_THAT(pieces_of(R"({"type": "BertPreTokenizer"})", "a$b, c€"),
              ElementsAre("a", "$", "b", ",", "c€"));
  EXPECT_THAT(pieces_of(R"({"type": "Digits", "individual_digits": true})", "a12½٣Ⅷ"),
              ElementsAre("a", "1", "2", "½", "٣", "Ⅷ"));
  EXPECT_THAT(pieces_of(R"({"type": "Digits", "individual_digits": false})", "a12½٣Ⅷb"),
              ElementsAre("a", "12½٣Ⅷ", "b"));
  EXPECT_THAT(pieces_of(R"({"type": "Punctuation", "behavior": "MergedWithNext"})", "a.,b"),
              ElementsAre("a", ".", ",b"));
  EXPECT_THAT(pieces_of(R"({"type": "Punctuation"})", ""), IsEmpty());
}

TEST(PreTokenizers, Metaspace) {
  const std::string always = R"({"type": "Metaspace", "replacement": "▁"})";
  EXPECT_THAT(pieces_of(always, "  a  b "), ElementsAre("▁", "▁a", "▁", "▁b", "▁"));
  EXPECT_THAT(pieces_of(always, "a▁b", false), ElementsAre("▁a", "▁b"));
  const std::string first =
      R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": false})";
  EXPECT_THAT(pieces_of(first, "a b"), ElementsAre("_a_b"));
  EXPECT_THAT(pieces_of(first, "a b", false), ElementsAre("a_b"));
  const std::string behind_split =
      R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, )" + first + "]}";
  EXPECT_THAT(pieces_of(behind_split, "a b"), ElementsAre("_a", "b"));
  EXPECT_THAT(pieces_of(behind_split, " a b"), ElementsAre("a", "b"));
  EXPECT_THAT(
      pieces_of(R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false})", "a b"),
      ElementsAre("a", "_b"));
}

TEST(PreTokenizers, BytesAreSymbolsOnlyIfAStageFollows) {
  const std::string last = R"({"type": "ByteLevel", "add_prefix_space": true})";
  EXPECT_THAT(pieces_of(last, "a é"), ElementsAre(" a", " é"));
  EXPECT_THAT(pieces_of(R"({"type": "Sequence", "pretokenizers": [)" + last +
                            R"(, {"type": "Digits", "individual_digits": false}]})",
                        "a é1"),
              ElementsAre("Ġa", "ĠÃ©", "1"));
}

std::string normal(const std::string& json, const std::string& text) {
  NormalizedText normalized{text, true};
  make_normalizer(JsonNode::parse(json, "test"))->apply(normalized);
  return normalized.text + (normalized.at_start ? "" : " (not at start)");
}

TEST(Normalizers, Each) {
  EXPECT_EQ(normal(R"({"type": "NFC"})", "e\u0301ﬁ"), "éﬁ");
  EXPECT_EQ(normal(R"({"type": "NFKD"})", "éﬁ"), "e\u0301fi");
  EXPECT_EQ(normal(R"({"type": "Lowercase"})", "ΣΙΣ"), "σισ");
  EXPECT_EQ(normal(R"({"type": "StripAccents"})", "ae\u0301é"), "aeé");
  EXPECT_EQ(normal(R"({"type": "StripAccents"})", "\u0301a"), "a (not at start)");
  EXPECT_EQ(normal(R"({"type": "Strip", "strip_left": true, "strip_right": true})", "\u3000a b\n"),
            "a b (not at start)");
  EXPECT_EQ(normal(R"({"type": "Strip", "strip_left": false, "strip_right": true})", " a b "),
            " a b");
  EXPECT_EQ(normal(R"({"type": "Strip", "strip_left": false, "strip_right": true})", " \n"), "");
  EXPECT_EQ(normal(R"({"type": "Prepend", "prepend": "▁"})", "a"), "▁a");
  EXPECT_EQ(normal(R"({"type": "Prepend", "prepend": "▁"})", ""), "");
  EXPECT_EQ(normal(R"({"type": "Replace", "pattern": {"String": "aa"}, "content": "b"})", "aaa"),
            "ba");
  EXPECT_EQ(normal(R"({"type": "Replace", "pattern": {"Regex": "x*"}, "content": "-"})", "axxb"),
            "-a-b-");
  EXPECT_EQ(normal(R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": ""})", "  a"),
            "a (not at start)");
  EXPECT_EQ(normal(R"({"type": "BertNormalizer"})", "É中\u00ada\tb\ue000\U0002b820"),
            "e 中 a b\U0002b820");
  EXPECT_EQ(normal(R"({"type": "BertNormalizer", "lowercase": false})", "É\ufffd"), "É");
}

TEST(AddedTokens, LeftmostThenLongest) {
  AddedTokenMatcher matcher;
  const auto add = [&](AddedToken token) { matcher.add(token, token.content); };
  add({.id = 1, .content = "ab"});
  add({.id = 2, .content = "abc"});
  add({.id = 3, .content = "word", .single_word = true});
  add({.id = 4, .content = "<l>", .lstrip = true});
  add({.id = 5, .content = "<r>", .rstrip = true});
  add({.id = 6, .content = "<s>", .special = true});
  add({.id = 7, .content = "bcd"});
  add({.id = 8, .content = "\n", .lstrip = true, .rstrip = true});
  const auto found = [&](std::string_view text, bool parse_special = true) {
    Texts sections;
    for (const Section& section : matcher.sections(text, parse_special)) {
      sections.push_back(section.id == Section::kText ? std::string(section.text)
                                                      : std::to_string(section.id));
    }
    return sections;
  };
  EXPECT_THAT(found(""), IsEmpty());
  EXPECT_THAT(found("xabx"), ElementsAre("x", "1", "x"));
  EXPECT_THAT(found("abcd"), ElementsAre("2", "d"));
  EXPECT_THAT(found("xbcdab"), ElementsAre("x", "7", "1"));
  EXPECT_THAT(found("word words é word"), ElementsAre("3", " words é ", "3"));
  EXPECT_THAT(found("wordéword"), ElementsAre("wordéword"));
  EXPECT_THAT(found("a \u3000<l> b"), ElementsAre("a", "4", " b"));
  EXPECT_THAT(found("a <r> \n b"), ElementsAre("a ", "5", "b"));
  EXPECT_THAT(found("<r>  <l>"), ElementsAre("5", "4"));
  EXPECT_THAT(found("a<s>b"), ElementsAre("a", "6", "b"));
  EXPECT_THAT(found("a<s>b", false), ElementsAre("a<s>b"));
  EXPECT_THAT(found("a \n\n b\n"), ElementsAre("a", "8", "b", "8"));
}

// Each line of white space must be read once, or the time grows quadratically.
TEST(AddedTokens, ReadsWhiteSpaceOnce) {
  AddedTokenMatcher matcher;
  matcher.add({.id = 1, .content = "\n", .lstrip = true, .rstrip = true}, "\n");
  EXPECT_EQ(matcher.sections(std::string(1'000'000, '\n'), true).size(), 1U);
}

std::string decoded(const std::string& json, Texts tokens) {
  make_decoder(JsonNode::parse(json, "test"))->apply(tokens);
  std::string text;
  for (const std::string& token : tokens) text += token + "|";
  return text;
}

TEST(Decoders, Each) {
  const std::string bad = "\uFFFD";
  EXPECT_EQ(decoded(R"({"type": "ByteLevel"})", {"Ã", "æĹ", "a", "日", "Ġ"}), bad + bad + "a日 |");
  EXPECT_EQ(decoded(R"({"type": "WordPiece", "prefix": "##", "cleanup": false})",
                    {"##a", "##b", "c", "."}),
            "##a|b| c| .|");
  EXPECT_EQ(decoded(R"({"type": "WordPiece", "prefix": "##", "cleanup": true})",
                    {"do", "n't", "do not", "'s", "'", "!"}),
            "do|n't| don't|'s| '|!|");
  EXPECT_EQ(decoded(R"({"type": "Metaspace", "replacement": "▁"})", {"▁▁a", "▁b▁"}), "a| b |");
  EXPECT_EQ(decoded(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"})",
                    {"▁a", "▁b"}),
            " a| b|");
  EXPECT_EQ(decoded(R"({"type": "ByteFallback"})",
                    {"<0xC3>", "a", "<0xC3>", "<0xA9>", "b", "<0xE6>", "<0x97>", "<0xG0>"}),
            bad + "|a|é|b|" + bad + "|" + bad + "|<0xG0>|");
  EXPECT_EQ(decoded(R"({"type": "Fuse"})", {"a", "b"}), "ab|");
  EXPECT_EQ(decoded(R"({"type": "Strip", "content": "H", "start": 1, "stop": 2})",
                    {"Hey", "HHHH", "H", "yHHH"}),
            "ey|H||yH|");
  EXPECT_EQ(
      decoded(R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "-"})", {"aab", "ba"}),
      "-b|b-|");
  EXPECT_EQ(decoded(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
                        {"type": "Replace", "pattern": {"String": "ab"}, "content": "c"}]})",
                    {"a", "b"}),
            "c|");
}

}  // namespace
}  // namespace phalanx
