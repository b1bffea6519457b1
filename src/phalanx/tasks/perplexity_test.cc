#include "phalanx/tasks/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"
#include "phalanx/tasks/test_support.h"

namespace phalanx {
namespace {

class EvaluationTexts : public TaskFiles {};

TEST(Perplexity, WindowsAreMegatrons) {
  EXPECT_EQ(perplexity_windows(1, 32), 1);
  EXPECT_EQ(perplexity_windows(32, 32), 1);
  EXPECT_EQ(perplexity_windows(33, 32), 2);
  EXPECT_EQ(perplexity_windows(64, 32), 2);
  EXPECT_EQ(perplexity_windows(1000, 32), 32);
  EXPECT_EQ(perplexity_windows(5, 1), 5);
  // A window for each begin before the last target.
  for (std::int64_t targets = 1; targets < 50; ++targets) {
    for (std::int64_t overlap = 1; overlap < 9; ++overlap) {
      std::int64_t windows = 1;
      while (windows * overlap < targets) ++windows;
      EXPECT_EQ(perplexity_windows(targets, overlap), windows);
    }
  }
}

TEST(Perplexity, OfWordsFollowsTheRatio) {
  const EvaluationText text{.tokens = std::vector<std::int32_t>(31), .words = 21};
  const Perplexity result = perplexity_of(2.0, text);
  EXPECT_DOUBLE_EQ(result.token_ratio, 1.5);
  EXPECT_DOUBLE_EQ(result.ppl, std::exp(2.0));
  EXPECT_DOUBLE_EQ(result.adjusted_ppl, std::exp(3.0));
  EXPECT_DOUBLE_EQ(perplexity_of(15.0, text).adjusted_ppl, std::exp(20.0));
  EXPECT_EQ(result_line("WIKITEXT103", result),
            " validation results on WIKITEXT103 | avg loss: 2.0000E+00 | ppl: 7.3891E+00 | "
            "adjusted ppl: 2.0086E+01 | token ratio: 1.5 |");
  EXPECT_EQ(python_float(1.0), "1.0");
  EXPECT_EQ(python_float(1.1640625), "1.1640625");
}

TEST_F(EvaluationTexts, AreDetokenizedAndCounted) {
  const LetterTokenizer tokenizer;
  const std::string path = write("wiki.txt", " a , b \n c\n");
  const EvaluationText text = read_evaluation_text(path, "wiki", tokenizer);
  EXPECT_EQ(text.words, 5);  // "a" "," "b" "\n" "c"
  EXPECT_EQ(tokenizer.decode(text.tokens), " a, b\nc\n");
  EXPECT_EQ(read_evaluation_text(path, "none", tokenizer).tokens.size(), 11U);
  const auto refused = [&](const std::string& content, const std::string& mention) {
    const std::string file = write("bad.txt", content);
    EXPECT_THAT(error_of<DataError>([&] { read_evaluation_text(file, "none", tokenizer); }),
                testing::HasSubstr("bad.txt: " + mention))
        << content;
  };
  refused("", "0 tokens, 0 words");
  refused("word", "4 tokens, 1 words");
  refused("a b\xff", "byte 3 is no UTF-8");
  EXPECT_THROW(read_evaluation_text(path + "no", "none", tokenizer), InputMissingError);
}

}  // namespace
}  // namespace phalanx
