#include "phalanx/tasks/unicode_text.h"

#include <gtest/gtest.h>

#include "phalanx/tasks/detokenizers.h"

namespace phalanx {
namespace {

// What Python 3 answers.
TEST(UnicodeText, WhiteSpaceIsPythons) {
  EXPECT_EQ(strip("  a b \n"), "a b");
  EXPECT_EQ(strip("\u00a0\u3000a\u2003\x1c"), "a");
  EXPECT_EQ(strip(" \t\n "), "");
  EXPECT_EQ(strip(""), "");
  EXPECT_EQ(strip("\u200ba\u200b"), "\u200ba\u200b");  // no white space there
  EXPECT_EQ(last_word("a bc\u2003d\u00e9 \n"), "d\u00e9");
  EXPECT_EQ(last_word("word"), "word");
  EXPECT_EQ(last_word(" \n"), "");
  EXPECT_EQ(collapse_spaces(" a \t\n b\u3000 c "), " a b c ");
  EXPECT_EQ(replace_all("aaa.aa", "aa", "b"), "ba.b");
  EXPECT_EQ(replace_all(" . . . ", " . ", ". "), ". .. ");
}

// Made by Megatron-LM's tasks/zeroshot_gpt/detokenizer.py.
TEST(Detokenizers, AreMegatrons) {
  const char* const wiki =
      " \n = = = Early life = = = \n \n In 1 @,@ 234 @.@ 5 days ( the [ old ] one ) , the boys ' "
      "mother 's well @-@ known \" song \" was : N ; it ' s ' 12 \u00b0 C ' ! why ? { so }";
  EXPECT_EQ(detokenize("wiki", wiki),
            "\n=== Early life ===\n\nIn 1,234.5 days (the [old] one), the boys'mother's well-known "
            "\"song\" was: N; it's' 12\u00b0C '! why? {so}");
  const char* const ptb = " \n it 's $ 1 or N # 1 , do n't \n he did n't ' \n ";
  EXPECT_EQ(detokenize("ptb", ptb), "\nit's $1 or1 #1 , don't\nhe didn't'\n");
  EXPECT_EQ(detokenize("wiki", "( a ( b ) c ) \" d"), "(a ( b) c ) \" d");
  EXPECT_EQ(detokenize("wiki", "(   ) ( \n x"), "() (\nx");
  for (const char* name : {"lambada", "none"}) EXPECT_EQ(detokenize(name, wiki), wiki);
}

TEST(Detokenizers, BelongToPaths) {
  EXPECT_EQ(detokenizer_of("data/wiki.test.tokens"), "wiki");
  EXPECT_EQ(detokenizer_of("wiki/ptb.txt"), "ptb");
  EXPECT_EQ(detokenizer_of("lambada_wiki"), "wiki");
  EXPECT_EQ(detokenizer_of("lambada.jsonl"), "lambada");
  EXPECT_EQ(detokenizer_of("bible.txt"), "none");
}

}  // namespace
}  // namespace phalanx
