#include "phalanx/tasks/cloze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/tasks/test_support.h"

namespace phalanx {
namespace {

class ClozeFiles : public TaskFiles {
 protected:
  std::vector<ClozeExample> read(const std::string& text, bool strict) const {
    return read_cloze(write("lambada.jsonl", text), tokenizer_, strict);
  }
  void refused(const std::string& text, bool strict, const std::string& mention) const {
    EXPECT_THAT(error_of<DataError>([&] { read(text, strict); }),
                testing::HasSubstr("lambada.jsonl" + mention))
        << text;
  }
  std::string text_of(const std::vector<std::int32_t>& ids) const { return tokenizer_.decode(ids); }

  LetterTokenizer tokenizer_;
};

TEST_F(ClozeFiles, TargetsAreTheLastTokenOrWord) {
  const std::string lines =
      "{\"text\": \"the lord is  lord\"}\n{\"n\": 1, \"text\": \" a\\u00a0b c\\n\"}";
  const auto loose = read(lines, false);
  ASSERT_EQ(loose.size(), 2U);
  EXPECT_EQ(text_of(loose[0].context), "the lord is  lor");
  EXPECT_EQ(text_of(loose[0].target), "d");
  EXPECT_EQ(text_of(loose[1].target), "\n");
  const auto strict = read(lines, true);
  // The target is the last of two equal words; the context loses white space at its ends.
  EXPECT_EQ(text_of(strict[0].context), "the lord is");
  EXPECT_EQ(text_of(strict[0].target), " lord");
  EXPECT_EQ(text_of(strict[1].context), "a\u00a0b");
  EXPECT_EQ(text_of(strict[1].target), " c");
}

TEST_F(ClozeFiles, FaultsNameTheirLine) {
  refused("", false, ": the file is empty");
  refused("{\"text\": \"ab\"}\n\n", false, ", line 2: not JSON");
  refused("{\"text\": 3}", false, ", line 1: an object with a string \"text\"");
  refused("[\"text\"]", false, ", line 1: an object with a string \"text\"");
  refused("{\"text\": \"a\"}", false, ", line 1: nothing is before the token");
  refused("{\"text\": \"a\"}", true, ", line 1: nothing is before the word");
  refused("{\"text\": \" \"}", true, ", line 1: the text has no words");
  refused("{\"text\": \"a\xff\"}", true, ", line 1: not JSON");
}

TEST_F(ClozeFiles, LongPassagesLoseTheirBeginning) {
  std::vector<ClozeExample> examples = {{{1, 2, 3, 4}, {5}}, {{1, 2, 3, 4, 5}, {6, 7}}};
  EXPECT_EQ(shorten(examples, 4), 1);
  EXPECT_EQ(examples[0].context.size(), 4U);
  EXPECT_EQ(examples[1].context, (std::vector<std::int32_t>{3, 4, 5}));
  EXPECT_THROW(shorten(examples, 1), DataError);
}

TEST(Cloze, LineIsMegatrons) {
  EXPECT_EQ(result_line("LAMBADA", {.examples = 5153, .correct = 2371, .log_probability = 0.0}),
            " validation results on LAMBADA | number correct: 2.3710E+03 | total examples: "
            "5.1530E+03 | avg accuracy: 4.6012E-01");
}

}  // namespace
}  // namespace phalanx
