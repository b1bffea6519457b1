#include "phalanx/tokenizer/sentencepiece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/sentencepiece_test_files.h"
#include "phalanx/tokenizer/test_files.h"

namespace phalanx {
namespace {

using namespace tokenizer_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Algorithm = SentencePieceModel::Algorithm;
using Ids = std::vector<std::int32_t>;
constexpr EncodeOptions kParsed = {.parse_special = true};
constexpr EncodeOptions kAdded = {.add_special = true};

// Goes through the bytes of a file, which also finds the special pieces.
SentencePieceTokenizer tokenizer_of(const SentencePieceModel& model,
                                    SentencePieceType type = SentencePieceType::kGpt,
                                    std::int64_t extra_ids = 0) {
  return {type, parse_sentencepiece_model(model_bytes(model), "x.model"), extra_ids, "x.model"};
}

SentencePieceModel unigram_model() {
  SentencePieceModel model =
      small_model(Algorithm::kUnigram,
                  {{"▁", -2}, {"a", -3}, {"b", -3}, {"ab", -4}, {"▁a", -3.5}, {"▁ab", -7}});
  model.pieces.erase(model.pieces.begin() + 1, model.pieces.begin() + 3);
  model.normalizer.remove_extra_whitespaces = false;
  return model;
}

TEST(SentencePieceBpe, ByteFallback) {
  const auto tokenizer = tokenizer_of(byte_fallback_model());
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(264, 266));
  EXPECT_THAT(tokenizer.encode("ab c"), ElementsAre(265, 259, 262));
  EXPECT_THAT(tokenizer.encode(" a"), ElementsAre(259, 264));
  EXPECT_THAT(tokenizer.encode("  a"), ElementsAre(267, 264));
  EXPECT_THAT(tokenizer.encode("é"), ElementsAre(259, 198, 172));
  EXPECT_THAT(tokenizer.encode("a\n"), ElementsAre(264, 13));
  EXPECT_THAT(tokenizer.encode("日"), ElementsAre(259, 233, 154, 168));
  EXPECT_THAT(tokenizer.encode("a</s>b"), ElementsAre(264, 63, 50, 118, 65, 261));
  EXPECT_THAT(tokenizer.encode("a</s>b", kParsed), ElementsAre(264, 2, 259, 261));
  EXPECT_THAT(tokenizer.encode(""), IsEmpty());
  // An invalid UTF-8 byte is read as U+FFFD.
  EXPECT_EQ(tokenizer.encode("a\xff"), tokenizer.encode("a\ufffd"));
}

// The order of transformers' T5Tokenizer.
TEST(SentencePieceGpt, SentinelsFollowThePiecesInReverse) {
  const auto model = byte_fallback_model();
  const auto plain = tokenizer_of(model);
  const auto tokenizer = tokenizer_of(model, SentencePieceType::kGpt, 3);
  const auto pieces = static_cast<std::int32_t>(plain.vocab_size());
  EXPECT_EQ(tokenizer.vocab_size(), pieces + 3);
  EXPECT_THAT(tokenizer.special_tokens().sentinels, ElementsAre(pieces + 2, pieces + 1, pieces));
  EXPECT_EQ(tokenizer.piece(pieces + 2), "<extra_id_0>");
  EXPECT_EQ(tokenizer.encode("a<extra_id_1>b"), plain.encode("a<extra_id_1>b"));
  Ids expected = plain.encode("a");
  expected.push_back(pieces + 1);
  for (const std::int32_t id : plain.encode("b")) expected.push_back(id);
  EXPECT_EQ(tokenizer.encode("a<extra_id_1>b", kParsed), expected);
  EXPECT_EQ(tokenizer.decode(expected), "a <extra_id_1> b");
  EXPECT_EQ(tokenizer.decode(expected, {.skip_special = true}), "a b");
  SentencePieceModel own = model;
  own.pieces.push_back({"<extra_id_1>", 0, PieceKind::kUserDefined});
  EXPECT_THROW(tokenizer_of(own, SentencePieceType::kGpt, 3), ConfigError);
}

TEST(SentencePieceBpe, Decodes) {
  const auto tokenizer = tokenizer_of(byte_fallback_model());
  const auto decoded = [&](const Ids& ids) { return tokenizer.decode(ids); };
  EXPECT_EQ(decoded({198, 260, 198, 172, 233, 154}), "\ufffdaé\ufffd\ufffd");
  EXPECT_EQ(decoded({264, 259, 262}), "a c");
  EXPECT_EQ(decoded({267, 264}), "  a");  // removes only the normaliser's blank
  EXPECT_EQ(decoded({1, 264, 2, 264}), "a a");
  EXPECT_EQ(decoded({264, 0, 261}), "a ⁇ b");
  EXPECT_EQ(tokenizer.decode(Ids{1, 264, 0, 261, 2}, {.skip_special = true}), "ab");
  EXPECT_EQ(decoded({}), "");
  for (const std::string text : {"abc", " a", "  a b", "日本 é\n", "a</s>b", "<0x41>"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(SentencePieceBpe, UnusedPiecesAreSplit) {
  const SentencePieceModel model = small_model(Algorithm::kBpe, {{"a", -9},
                                                                 {"b", -9},
                                                                 {"ab", -1, PieceKind::kUnused},
                                                                 {"aab", -2},
                                                                 {"c", -9, PieceKind::kUnused},
                                                                 {"▁", -9},
                                                                 {"bc", -3, PieceKind::kUnused}});
  const auto tokenizer = tokenizer_of(model);
  EXPECT_THAT(tokenizer.encode("ab"), ElementsAre(8, 3, 4));
  EXPECT_THAT(tokenizer.encode("aab"), ElementsAre(8, 6));
  EXPECT_THAT(tokenizer.encode("bc"), ElementsAre(8, 4, 0));
}

TEST(SentencePieceBpe, UserDefinedPiecesAreNotMerged) {
  const SentencePieceModel model = small_model(Algorithm::kBpe, {{"▁", -9},
                                                                 {"a", -9},
                                                                 {"b", -9},
                                                                 {"ab", -1},
                                                                 {"▁a", -2},
                                                                 {"a", 0, PieceKind::kControl},
                                                                 {"abb", -1}});
  SentencePieceModel with = model;
  with.pieces[6].kind = PieceKind::kUserDefined;
  EXPECT_THAT(tokenizer_of(model).encode("abb a"), ElementsAre(3, 9, 7));
  EXPECT_THAT(tokenizer_of(with).encode("abb a"), ElementsAre(3, 6, 5, 7));
}

// If a piece spans two words, texts must be merged as a whole.
TEST(SentencePieceBpe, WordByWordEqualsTheWhole) {
  SentencePieceModel whole = byte_fallback_model();
  whole.pieces.push_back({"z▁", -1000});
  const auto by_words = tokenizer_of(byte_fallback_model());
  const auto as_whole = tokenizer_of(whole);
  std::mt19937 random(7);
  const std::array<std::string_view, 6> parts = {"a", "b", "c", " ", "  ", "é"};
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += parts[random() % parts.size()];
    EXPECT_EQ(by_words.encode(text), as_whole.encode(text)) << text;
  }
}

TEST(SentencePieceUnigram, BestSumOfScores) {
  const auto tokenizer = tokenizer_of(unigram_model());
  EXPECT_THAT(tokenizer.encode("ab"), ElementsAre(1, 4));
  EXPECT_THAT(tokenizer.encode("a b"), ElementsAre(5, 1, 3));
  EXPECT_THAT(tokenizer.encode("abab"), ElementsAre(1, 4, 4));
  EXPECT_THAT(tokenizer.encode("axxb"), ElementsAre(5, 0, 3));
  EXPECT_THAT(tokenizer.encode("ba ab"), ElementsAre(1, 3, 2, 1, 4));
  EXPECT_EQ(tokenizer.decode(Ids{5, 0, 3}), "a ⁇ b");
}

// If fp32 sums only grew, the two ways of this text would differ by less than the last digit.
TEST(SentencePieceUnigram, LongTextsKeepTheirDigits) {
  SentencePieceModel model = unigram_model();
  model.pieces.push_back({"aa", -6.02F});  // a little worse than twice a
  const auto tokenizer = tokenizer_of(model);
  const std::string text(200000, 'a');
  const Ids ids = tokenizer.encode(text);
  EXPECT_EQ(std::ranges::count(ids, 7), 0);
  EXPECT_EQ(std::ranges::count(ids, 2), 199999);
}

TEST(SentencePieceUnigram, UserDefinedPiecesAreAlwaysRead) {
  SentencePieceModel model = unigram_model();
  model.pieces.push_back({"<ab>", 0, PieceKind::kUserDefined});
  model.pieces.push_back({"b ", 0, PieceKind::kUserDefined});
  model.normalizer.characters_map = compiled_map({{"<", "b"}, {"b", "a"}});
  const auto tokenizer = tokenizer_of(model);
  // The map leaves these pieces unchanged, but not the text around them.
  EXPECT_THAT(tokenizer.encode("<<ab>b"), ElementsAre(1, 3, 7, 2));
}

TEST(SentencePieceNormalizer, Blanks) {
  const SentencePieceTrie none;
  const auto of = [&](NormalizerRules rules, bool suffix = false) {
    return SentencePieceNormalizer(std::move(rules), suffix, "x.model");
  };
  EXPECT_EQ(of({}).normalized("  a   b  ", none), "▁a▁b");
  EXPECT_EQ(of({}, true).normalized("  a   b  ", none), "a▁b▁");
  EXPECT_EQ(of({}).normalized("   ", none), "");
  EXPECT_EQ(of({.remove_extra_whitespaces = false}).normalized("  a ", none), "▁▁▁a▁");
  EXPECT_EQ(of({.add_dummy_prefix = false}).normalized(" a b", none), "a▁b");
  EXPECT_EQ(of({.escape_whitespaces = false}).normalized("a  b ", none), " a b");
}

TEST(SentencePieceNormalizer, CompiledMap) {
  const SentencePieceTrie none;
  const SentencePieceNormalizer normalizer(
      {.characters_map =
           compiled_map({{"A", "a"}, {"AB", "x"}, {"\u3000", " "}, {"é", "e\u0301"}, {"z", ""}})},
      false, "x.model");
  EXPECT_EQ(normalizer.normalized("AABé z\u3000\u3000q", none), "▁axe\u0301▁q");
  EXPECT_EQ(normalizer.normalized("\u3000z\xe3\x80", none), "▁\ufffd\ufffd");
  const auto fault = [](std::string map) {
    return error_of<DataError>(
        [&] { SentencePieceNormalizer({.characters_map = std::move(map)}, false, "x.model"); });
  };
  for (const std::uint32_t trie_bytes : {0U, 3U, 8U, 0xffffffffU}) {
    EXPECT_THAT(fault(little_endian_bytes(trie_bytes) + "12345678"),
                HasSubstr("its map of 12 bytes has a trie of"));
  }
}

TEST(SentencePieceTokenizer, SpecialTokensFollowThePieces) {
  const auto tokenizer = tokenizer_of(byte_fallback_model(), SentencePieceType::kMegatron, 2);
  const SpecialTokens& special = tokenizer.special_tokens();
  EXPECT_EQ(tokenizer.vocab_size(), 275);
  EXPECT_THAT((Ids{*special.cls, *special.sep, *special.eod, *special.mask, *special.pad}),
              ElementsAre(268, 269, 270, 271, 272));
  EXPECT_THAT((Ids{*special.unk, *special.bos, *special.eos}), ElementsAre(0, 1, 2));
  EXPECT_THAT(special.sentinels, ElementsAre(273, 274));
  EXPECT_EQ(tokenizer.piece(272), "<PAD>");
  EXPECT_EQ(tokenizer.piece(264), "▁a");
  EXPECT_EQ(tokenizer.end_of_document(), 270);
  const std::string text = "a<extra_id_1>b</s><MASK> c<unk>";
  EXPECT_THAT(tokenizer.encode("a<extra_id_1>b</s><MASK>", kParsed),
              ElementsAre(264, 274, 259, 261, 2, 271));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.encode("a", kAdded), tokenizer.encode("a"));
  EXPECT_EQ(tokenizer.decode(Ids{264, 274, 259, 261}), "a <extra_id_1> b");
  EXPECT_EQ(tokenizer.decode(Ids{264, 274, 261}, {.skip_special = true}), "ab");
  EXPECT_THAT(
      error_of<DataError>([&] { tokenizer.piece(275); }),
      HasSubstr("SentencePieceTokenizer: token id 275 is outside the vocabulary, 0 to 274"));
}

TEST(SentencePieceTokenizer, SpecialTokensOfTheModel) {
  SentencePieceModel model = byte_fallback_model();
  model.pieces.push_back({"<SEP>", 0, PieceKind::kControl});
  model.pieces.push_back({"<extra_id_0>", 0, PieceKind::kUserDefined});
  model.pieces.push_back({"<pad>", 0, PieceKind::kControl});
  const auto tokenizer = tokenizer_of(model, SentencePieceType::kMegatron, 2);
  const SpecialTokens& special = tokenizer.special_tokens();
  EXPECT_THAT((Ids{*special.cls, *special.sep, *special.eod, *special.mask, *special.pad}),
              ElementsAre(271, 268, 272, 273, 270));
  EXPECT_THAT(special.sentinels, ElementsAre(269, 274));
  EXPECT_THAT(error_of<ConfigError>([&] { tokenizer_of(model, SentencePieceType::kMegatron, -1); }),
              HasSubstr("--vocab-extra-ids -1 is out of range"));
}

TEST(SentencePieceTokenizer, GptAndLlama2) {
  SentencePieceModel model = byte_fallback_model();
  model.pieces.push_back({"<pad>", 0, PieceKind::kControl});
  const auto gpt = tokenizer_of(model);
  EXPECT_EQ(gpt.vocab_size(), 269);
  EXPECT_EQ(gpt.end_of_document(), 2);
  EXPECT_EQ(gpt.special_tokens().pad, 268);
  EXPECT_EQ(gpt.encode("a", kAdded), gpt.encode("a"));
  const auto llama = tokenizer_of(model, SentencePieceType::kLlama2);
  EXPECT_EQ(llama.special_tokens().pad, std::nullopt);
  EXPECT_THAT(llama.encode("a", kAdded), ElementsAre(1, 264));
  EXPECT_THAT(llama.encode("a"), ElementsAre(264));
  EXPECT_THAT(llama.encode("<s>a", kParsed), ElementsAre(1, 264));

  const auto without = tokenizer_of(unigram_model(), SentencePieceType::kLlama2);
  EXPECT_EQ(without.end_of_document(), -1);
  EXPECT_THAT(error_of<DataError>([&] { without.encode("a", kAdded); }),
              HasSubstr("the model has no such piece"));
}

TEST(SentencePieceTokenizer, FromAFile) {
  const VocabularyDirectory directory;
  const auto path = directory.write("m.model", model_bytes(byte_fallback_model())).string();
  for (const std::string type :
       {"SentencePieceTokenizer", "GPTSentencePieceTokenizer", "Llama2Tokenizer"}) {
    const TokenizerOptions options = {.tokenizer_type = type, .tokenizer_model = path};
    const auto tokenizer = make_tokenizer(options);
    EXPECT_EQ(tokenizer->name(), type);
    EXPECT_THAT(tokenizer->encode("abc"), ElementsAre(264, 266));
    EXPECT_EQ(tokenizer_files(options).at(0).name, "tokenizer.model");
  }
  const TokenizerOptions extra = {
      .tokenizer_type = "Llama2Tokenizer", .tokenizer_model = path, .vocab_extra_ids = 1};
  EXPECT_THAT(error_of<ConfigError>([&] { make_tokenizer(extra); }),
              HasSubstr("--vocab-extra-ids does not belong to Llama2Tokenizer"));
}

}  // namespace
}  // namespace phalanx
