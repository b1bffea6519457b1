#include "phalanx/tokenizer/wordpiece_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/test_files.h"
#include "phalanx/tokenizer/wordpiece_tokenizer.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using tokenizer_test::VocabularyDirectory;

constexpr std::string_view kText =
    "low low low lower lower newest newest newest widest aaaa aaa slow";

std::vector<std::string> list_of(const std::string& words) {
  std::istringstream in(words);
  return {std::istream_iterator<std::string>(in), {}};
}

std::vector<std::string> learned(const WordPieceTrainerOptions& options,
                                 std::string_view text = kText) {
  WordPieceTrainer trainer(options);
  trainer.add_text(text);
  return trainer.train();
}

TEST(WordPieceTrainer, MostFrequentPairs) {
  EXPECT_THAT(
      learned({.vocab_size = 34, .min_frequency = 1}),
      ElementsAreArray(list_of(
          "[PAD] [UNK] [CLS] [SEP] [MASK] a d e i l n o r s t w ##a ##d ##e ##i ##l ##o ##r "
          "##s ##t ##w ##ow low ##es ##est ne ##aa ##west newest")));
  EXPECT_THAT(learned({.vocab_size = 100, .min_frequency = 2, .special_tokens = {"[UNK]"}}),
              ElementsAreArray(
                  list_of("[UNK] a d e i l n o r s t w ##a ##d ##e ##i ##l ##o ##r ##s ##t ##w "
                          "##ow low ##es ##est ne ##aa ##west newest aaa ##er lower")));
}

TEST(WordPieceTrainer, OrderOfTextsDoesNotMatter) {
  const WordPieceTrainerOptions options = {.vocab_size = 60, .min_frequency = 1};
  WordPieceTrainer trainer(options);
  auto words = list_of(std::string(kText));
  std::ranges::reverse(words);
  for (const std::string& word : words) trainer.add_text(word);
  EXPECT_EQ(trainer.train(), learned(options));
}

TEST(WordPieceTrainer, LimitedAlphabet) {
  EXPECT_THAT(
      learned({.vocab_size = 100, .limit_alphabet = 2, .special_tokens = {}}, "cab cab aab"),
      ElementsAre("a", "b", "##a", "##b", "##ab"));
  EXPECT_THAT(learned({.vocab_size = 100, .limit_alphabet = 3, .special_tokens = {}}, "ab ab ca d"),
              ElementsAre("a", "b", "c", "##a", "##b", "ab"));
}

TEST(WordPieceTrainer, LowerCaseAndLongWords) {
  EXPECT_THAT(learned({.vocab_size = 10, .lower_case = true, .special_tokens = {}}, "É é"),
              ElementsAre("e"));
  EXPECT_THAT(learned({.vocab_size = 10, .special_tokens = {}}, "b " + std::string(201, 'a')),
              ElementsAre("b"));
}

TEST(WordPieceTrainer, OptionsOutOfRange) {
  const auto fault = [](const WordPieceTrainerOptions& options) {
    return error_of<ConfigError>([&] { WordPieceTrainer{options}; });
  };
  EXPECT_THAT(fault({.vocab_size = 5}),
              HasSubstr("--vocab-size 5 is out of range: WordPiece takes 6"));
  EXPECT_THAT(fault({.vocab_size = 9, .min_frequency = 0}), HasSubstr("--min-frequency 0"));
  EXPECT_THAT(fault({.vocab_size = 9, .limit_alphabet = 0}), HasSubstr("--limit-alphabet 0"));
}

TEST(WordPieceTrainer, ATokenizerReadsItsFile) {
  const VocabularyDirectory directory;
  const auto vocab = directory.file("vocab.txt");
  WordPieceTrainer trainer({.vocab_size = 1000});
  WordPieceTrainer other({.vocab_size = 1000});
  other.add_text(kText);
  trainer.add_text(kText);
  trainer.add_words_of(other);
  write_wordpiece_file(trainer.train(), vocab);
  const auto tokenizer =
      make_tokenizer({.tokenizer_type = "BertWordPieceLowerCase", .vocab_file = vocab.string()});
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("newest lower slow")), "newest lower slow");
  EXPECT_EQ(tokenizer->encode("newest").size(), 1);
}

}  // namespace
}  // namespace phalanx
