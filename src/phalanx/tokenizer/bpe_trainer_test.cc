#include "phalanx/tokenizer/bpe_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/tokenizer/gpt2_bpe.h"
#include "phalanx/tokenizer/patterns.h"
#include "phalanx/tokenizer/test_files.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tokenizer_test::make_tables;
using tokenizer_test::VocabularyDirectory;

using Ids = std::vector<std::int32_t>;

constexpr std::string_view kGenesis =
    "In the beginning God created the heaven and the earth. And the earth was without form, and "
    "void; and darkness was upon the face of the deep. And the Spirit of God moved upon the face "
    "of the waters. And God said, Let there be light: and there was light.";

// Most texts are too small for the vocabulary; only one test checks that warning.
class BpeTrainerTest : public testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kError); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }
};

BpeTables train(std::string_view text, std::int64_t vocab_size, std::int64_t min_frequency = 2) {
  BpeTrainer trainer({vocab_size, min_frequency});
  trainer.add_text(text);
  return trainer.train();
}

// The plain algorithm on each word of the text: recount all adjacent pairs before each merge.
BpeTables train_plainly(std::string_view text, std::int64_t vocab_size,
                        std::int64_t min_frequency) {
  const Gpt2BpeTokenizer bytes(make_tables({}));
  BpeTables tables = make_tables({});
  tables.tokens.pop_back();
  std::vector<Ids> words;
  const WordSplitter splitter(pattern_named("gpt2"));
  WordCursor cursor(splitter, text);
  for (auto word = cursor.next(); !word.empty(); word = cursor.next()) {
    words.push_back(bytes.encode(word));
  }
  while (std::ssize(tables.tokens) < vocab_size - 1) {
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> counts;  // ordered by ids
    for (const auto& word : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    }
    const auto best =
        std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;  // the first of equal counts
        });
    if (best == counts.end() || best->second < min_frequency) break;
    const auto [left, right] = best->first;
    const auto result = static_cast<std::int32_t>(tables.tokens.size());
    tables.merges.push_back({left, right, result});
    tables.tokens.push_back(tables.tokens[static_cast<std::size_t>(left)] +
                            tables.tokens[static_cast<std::size_t>(right)]);
    for (auto& word : words) {
      Ids merged;
      for (std::size_t i = 0; i < word.size(); ++i) {
        const bool here = i + 1 < word.size() && word[i] == left && word[i + 1] == right;
        merged.push_back(here ? result : word[i]);
        i += here ? 1 : 0;
      }
      word = std::move(merged);
    }
  }
  tables.tokens.emplace_back(kEndOfText);
  return tables;
}

TEST_F(BpeTrainerTest, AgreesWithThePlainAlgorithm) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const std::size_t letters = 1 + random() % 4;  // few letters: many ties and overlaps ("aaaa")
    std::string text;
    for (int i = 0; i < 300; ++i) {
      text.push_back(random() % 6 == 0 ? ' ' : static_cast<char>('a' + random() % letters));
    }
    if (round % 4 == 0) text += "\xff\xff\xff\xfe\xff\xff \u4e16\u4e16";
    const std::int64_t min_frequency = 1 + round % 3;
    const BpeTables fast = train(text, 330, min_frequency);
    const BpeTables plain = train_plainly(text, 330, min_frequency);
    ASSERT_EQ(fast.merges, plain.merges) << text;
    ASSERT_EQ(fast.tokens, plain.tokens) << text;
  }
}

// Expected: the merges of Hugging Face tokenizers 0.23.3 for this text (byte alphabet, minimum
// frequency 2).
TEST_F(BpeTrainerTest, AgreesWithAnIndependentImplementation) {
  const BpeTables expected =
      make_tables({{"t", "h"},  {" ", "th"},  {" th", "e"}, {"n", "d"},  {" ", "w"},   {"a", "nd"},
                   {"e", "a"},  {" ", "and"}, {" w", "a"},  {"A", "nd"}, {"G", "o"},   {"o", "f"},
                   {" ", "f"},  {" ", "And"}, {" ", "Go"},  {" ", "of"}, {" wa", "s"}, {" Go", "d"},
                   {"a", "c"},  {"b", "e"},   {"e", "d"},   {"g", "h"},  {"i", "d"},   {"i", "n"},
                   {"i", "gh"}, {"l", "igh"}, {"o", "n"},   {"p", "on"}, {"r", "e"},   {"r", "th"},
                   {"u", "pon"}});
  const BpeTables tables = train(kGenesis, 288);
  EXPECT_EQ(tables.merges, expected.merges);
  EXPECT_EQ(tables.tokens, expected.tokens);
  EXPECT_EQ(tables.end_of_text, 287);
}

TEST_F(BpeTrainerTest, DoesNotDependOnTheOrderOfTexts) {
  BpeTrainer forward({300, 1});
  BpeTrainer backward({300, 1});
  const std::vector<std::string> texts = {"the cat", " sat on", "the mat", "a cat",
                                          std::string(kGenesis)};
  for (const auto& text : texts) forward.add_text(text);
  for (auto text = texts.rbegin(); text != texts.rend(); ++text) backward.add_text(*text);
  EXPECT_EQ(forward.train().merges, backward.train().merges);
  EXPECT_EQ(forward.train().merges, forward.train().merges);
}

TEST_F(BpeTrainerTest, MergedTrainersEqualOne) {
  const std::vector<std::string> texts = {"the cat sat", std::string(kGenesis), " the mat", ""};
  BpeTrainer one({300, 1});
  BpeTrainer sum({300, 1});
  for (const auto& text : texts) {
    one.add_text(text);
    BpeTrainer part({300, 1});
    part.add_text(text);
    part.add_text(text);
    sum.add_words_of(part);
    one.add_text(text);
  }
  EXPECT_EQ(sum.train().merges, one.train().merges);
  EXPECT_EQ(sum.train().tokens, one.train().tokens);
}

TEST_F(BpeTrainerTest, EqualCountsGoToTheSmallerIds) {
  // "ab", "cd" and "ac" occur twice each; ids of letters are in alphabetical order.
  const BpeTables tables = train("cd ab ac\ncd\tab\nac", 258);
  ASSERT_EQ(tables.merges.size(), 1U);
  EXPECT_EQ(tables.tokens[256], "ab");
}

TEST_F(BpeTrainerTest, StopsWhenPairsRunOut) {
  EXPECT_EQ(train("", 300).tokens.size(), 257U);
  EXPECT_EQ(train("abcdef", 300).tokens.size(), 257U);         // no pair occurs twice
  EXPECT_EQ(train("abcdef", 300, 1).tokens.size(), 257U + 5);  // one word, one token
  EXPECT_EQ(train(kGenesis, 257).merges.size(), 0U);
  set_log_level(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  const BpeTables tables = train("aaaa aaaa", 1000);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("too small for --vocab-size 1000"),
                    HasSubstr("minimum frequency of 2"), HasSubstr("has 259 tokens")));
  EXPECT_EQ(tables.tokens.back(), kEndOfText);
  EXPECT_EQ(tables.end_of_text, std::ssize(tables.tokens) - 1);
}

TEST_F(BpeTrainerTest, LongWordsAreCountedInPieces) {
  const std::string letters(5000, 'a');
  const BpeTables tables = train(letters, 1000);
  EXPECT_EQ(tables.tokens[tables.tokens.size() - 2], std::string(1024, 'a'));
  const Gpt2BpeTokenizer tokenizer(tables);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(letters)), letters);
}

TEST_F(BpeTrainerTest, FilesRoundTrip) {
  const VocabularyDirectory directory;
  BpeTrainer trainer({280, 2});
  for (const auto text :
       {kGenesis, std::string_view("\xff\xff\xff caf\u00e9"), std::string_view()}) {
    trainer.add_text(text);
  }
  const BpeTables trained = trainer.train();
  write_bpe_files(trained, directory.file("vocab.json"), directory.file("merges.txt"));
  const BpeTables read = read_bpe_files(directory.file("vocab.json"), directory.file("merges.txt"));
  EXPECT_EQ(read.tokens, trained.tokens);
  EXPECT_EQ(read.merges, trained.merges);
  EXPECT_EQ(read.end_of_text, trained.end_of_text);
  const Gpt2BpeTokenizer tokenizer(read);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(kGenesis)), kGenesis);
  EXPECT_LT(tokenizer.encode(kGenesis).size(), kGenesis.size() * 3 / 4);
}

TEST_F(BpeTrainerTest, OptionsOutOfRange) {
  for (const std::int64_t size :
       {std::int64_t{-1}, std::int64_t{0}, std::int64_t{256}, std::int64_t{1} << 40}) {
    EXPECT_THAT(error_of<ConfigError>([&] {
                  BpeTrainer({size, 2});
                }),
                HasSubstr("--vocab-size " + std::to_string(size) + " is out of range"));
  }
  EXPECT_THAT(error_of<ConfigError>([] {
                BpeTrainer({300, 0});
              }),
              HasSubstr("--min-frequency 0 is out of range"));
}

}  // namespace
}  // namespace phalanx
