#include "phalanx/tokenizer/wordpiece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/test_files.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tokenizer_test::VocabularyDirectory;

using Ids = std::vector<std::int32_t>;
using namespace std::string_literals;

const std::vector<std::string> kTokens = {
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un",  "##aff", "##able", "want",
    "##ed",  "runn",  "##ing", ",",     "e",      "##e", "a",     "##a",    "中",
    "!",     "'",     "cafe",  "s",     "[",      "]",   "cls"};
constexpr EncodeOptions kParsed = {.parse_special = true};
constexpr EncodeOptions kAdded = {.add_special = true};

WordPieceTokenizer lower_case_tokenizer(std::int64_t extra_ids = 0) {
  return {WordPieceCase::kLower, kTokens, {.extra_ids = extra_ids}, "vocab.txt"};
}
WordPieceTokenizer case_tokenizer() { return {WordPieceCase::kKept, kTokens, {}, "vocab.txt"}; }

std::vector<std::string> words_of(std::string_view text, bool lower_case) {
  std::vector<std::string> words;
  WordPieceWords(lower_case).read(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(WordPieceTokenizer, LowerCase) {
  const auto tokenizer = lower_case_tokenizer();
  EXPECT_THAT(tokenizer.encode("UNwantéd,running"), ElementsAre(1, 12, 10, 11));
  EXPECT_THAT(tokenizer.encode("unaffable!"), ElementsAre(5, 6, 7, 18));
  EXPECT_THAT(tokenizer.encode("a中!e"), ElementsAre(15, 17, 18, 13));
  EXPECT_THAT(tokenizer.encode("café cafe\u0301 CAFÉ"), ElementsAre(20, 20, 20));
  EXPECT_THAT(tokenizer.encode("a\u200ba a\tb"), ElementsAre(15, 16, 15, 1));
  EXPECT_THAT(tokenizer.encode("aa\0a"s), ElementsAre(15, 16, 16));
  EXPECT_THAT(tokenizer.encode("unwantedX running"), ElementsAre(1, 10, 11));
  EXPECT_THAT(tokenizer.encode("[CLS] un'"), ElementsAre(22, 24, 23, 5, 19));
  EXPECT_THAT(tokenizer.encode(" \u00a0un\u3000want "), ElementsAre(5, 8));
  EXPECT_THAT(tokenizer.encode("\u0130\u2019e"), ElementsAre(1, 1, 13));
  EXPECT_THAT(tokenizer.encode(""), IsEmpty());
}

TEST(WordPieceTokenizer, CaseKept) {
  const auto tokenizer = case_tokenizer();
  EXPECT_EQ(tokenizer.name(), "BertWordPieceCase");
  EXPECT_THAT(tokenizer.encode("café cafe\u0301 CAFÉ"), ElementsAre(1, 1, 1));
  EXPECT_THAT(tokenizer.encode("[CLS] un'"), ElementsAre(22, 1, 23, 5, 19));
}

TEST(WordPieceTokenizer, LongWordsAreUnknown) {
  const auto tokenizer = lower_case_tokenizer();
  for (const std::size_t length : {101U, 200U}) {
    Ids expected(length, 16);
    expected[0] = 15;
    EXPECT_EQ(tokenizer.encode(std::string(length, 'a')), expected);
  }
  EXPECT_THAT(tokenizer.encode(std::string(201, 'a')), ElementsAre(1));
}

TEST(WordPieceTokenizer, AppendsMissingSpecialTokens) {
  const auto tokenizer = lower_case_tokenizer(2);
  EXPECT_EQ(tokenizer.vocab_size(), 29);
  EXPECT_EQ(tokenizer.piece(25), "[BOS]");
  EXPECT_EQ(tokenizer.end_of_document(), 26);
  const SpecialTokens& special = tokenizer.special_tokens();
  EXPECT_THAT((Ids{*special.pad, *special.unk, *special.cls, *special.sep, *special.mask}),
              ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT((Ids{*special.bos, *special.eos}), ElementsAre(25, 26));
  EXPECT_THAT(special.sentinels, ElementsAre(27, 28));
  EXPECT_EQ(tokenizer.piece(28), "<extra_id_1>");

  auto with_some = kTokens;
  with_some.insert(with_some.begin(), {"<extra_id_1>", "[EOS]"});
  const WordPieceTokenizer again(WordPieceCase::kLower, with_some, {.extra_ids = 2}, "vocab.txt");
  EXPECT_EQ(again.vocab_size(), 29);
  EXPECT_EQ(again.end_of_document(), 1);
  EXPECT_THAT(again.special_tokens().sentinels, ElementsAre(28, 0));
  EXPECT_THAT(error_of<ConfigError>([] { lower_case_tokenizer(-1); }),
              HasSubstr("--vocab-extra-ids -1"));
}

TEST(WordPieceTokenizer, AddsNothingToTheFile) {
  const WordPieceTokenizer tokenizer(WordPieceCase::kLower, kTokens, {.bos_and_eos = false},
                                     "vocab.txt");
  EXPECT_EQ(tokenizer.vocab_size(), 25);
  EXPECT_EQ(tokenizer.end_of_document(), 3);
  EXPECT_FALSE(tokenizer.special_tokens().bos || tokenizer.special_tokens().eos);
  EXPECT_THAT(tokenizer.encode("un[SEP][EOS]", kParsed), ElementsAre(5, 3, 22, 1, 23));
  EXPECT_EQ(tokenizer.decode(Ids{2, 5, 3}, {.skip_special = true}), "un");
}

TEST(WordPieceTokenizer, SpecialTokensInTheTextAndAroundIt) {
  const auto tokenizer = lower_case_tokenizer(2);
  EXPECT_THAT(tokenizer.encode("un[SEP]want <extra_id_1>[MASK] [cls]", kParsed),
              ElementsAre(5, 3, 8, 28, 4, 22, 24, 23));
  EXPECT_THAT(tokenizer.encode("[SEP]"), ElementsAre(22, 1, 23));
  EXPECT_THAT(tokenizer.encode("un", kAdded), ElementsAre(2, 5, 3));
  EXPECT_THAT(tokenizer.encode("", kAdded), ElementsAre(2, 3));
}

TEST(WordPieceTokenizer, Decodes) {
  const auto tokenizer = lower_case_tokenizer();
  EXPECT_EQ(tokenizer.decode(Ids{5, 8, 9, 12, 10, 11, 18, 21, 19, 21}),
            "un wanted, running! s ' s");
  EXPECT_EQ(tokenizer.decode(Ids{2, 9, 5, 3}), "[CLS]ed un [SEP]");
  EXPECT_EQ(tokenizer.decode(Ids{2, 9, 5, 3}, {.skip_special = true}), "##ed un");
  EXPECT_EQ(tokenizer.decode({}), "");
  for (const std::int32_t id : {-1, 27}) {
    EXPECT_THAT(error_of<DataError>([&] { tokenizer.piece(id); }),
                HasSubstr("token id " + std::to_string(id) + " is outside the vocabulary"));
  }
}

// The library's cleanup of a token and the blank before it.
TEST(WordPieceTokenizer, DecodingRemovesBlanks) {
  auto tokens = kTokens;
  tokens.insert(tokens.end(), {"n't", "'m", "'s", "'ve", "'re", "?", ".", "do not"});
  const WordPieceTokenizer tokenizer(WordPieceCase::kLower, tokens, {}, "vocab.txt");
  EXPECT_EQ(tokenizer.decode(Ids{5, 25, 26, 27, 28, 29, 30, 31, 32}), "unn't'm's've're?. don't");
}

TEST(WordPieceWords, LowerCaseInContext) {
  EXPECT_THAT(words_of("ΣΙΣ ΣΙΣ.", true), ElementsAre("σις", "σις", "."));
  EXPECT_THAT(words_of("ΣΙΣ", false), ElementsAre("ΣΙΣ"));
  EXPECT_THAT(words_of("Ünïcode İ", true), ElementsAre("unicode", "i"));
}

TEST(WordPieceWords, CutsAtSpacesPunctuationAndIdeographs) {
  // Kana and hangul are not ideographs; U+2028 is white space, U+0085 a control character.
  EXPECT_THAT(words_of("a日本b カナ 한국\u2028x\u0085y", false),
              ElementsAre("a", "日", "本", "b", "カナ", "한국", "xy"));
  EXPECT_THAT(words_of("$5^a`b~c—d¿", false),
              ElementsAre("$", "5", "^", "a", "`", "b", "~", "c", "—", "d", "¿"));
  EXPECT_THAT(words_of("a\xff\ufffd\u00ad\x7f"
                       "b\xe4\xb8",
                       false),
              ElementsAre("ab"));
  EXPECT_THAT(words_of("\u0301 \t\r\n", true), IsEmpty());
}

// For any bytes, words are well-formed, not empty and without white space.
TEST(WordPieceWords, RandomBytes) {
  std::uint32_t state = 1;
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      state = state * 1664525 + 1013904223;
      text += static_cast<char>(state >> (state % 3 == 0 ? 24 : 17));
    }
    for (const bool lower_case : {false, true}) {
      for (const std::string& word : words_of(text, lower_case)) {
        ASSERT_FALSE(word.empty());
        ASSERT_TRUE(is_utf8(word));
        for (std::string_view rest = word; !rest.empty();) {
          ASSERT_FALSE(is_white_space(take_character(rest)));
        }
      }
    }
  }
}

TEST(WordPieceFile, TokensAreStrippedLines) {
  const VocabularyDirectory directory;
  const auto path = directory.write("vocab.txt", "[PAD]\r\n un \n\n\u3000a b\u00a0\nlast").string();
  EXPECT_THAT(read_wordpiece_file(path), ElementsAre("[PAD]", "un", "", "a b", "last"));
  directory.write("vocab.txt", "ok\nbad \xff\n");
  EXPECT_THAT(error_of<DataError>([&] { read_wordpiece_file(path); }),
              HasSubstr("vocab.txt: line 2 is no UTF-8"));
  directory.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n");
  const TokenizerOptions options = {.tokenizer_type = "BertWordPieceCase", .vocab_file = path};
  EXPECT_THAT(error_of<DataError>([&] { make_tokenizer(options); }),
              HasSubstr("vocab.txt has no line [MASK]"));
  EXPECT_EQ(tokenizer_files(options).at(0).name, "vocab.txt");
}

}  // namespace
}  // namespace phalanx
