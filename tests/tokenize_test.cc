#include <gmock/gmock.h>

#include "program_test.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

class TokenizeTest : public ProgramTest {
 protected:
  std::string ids_of(const std::string& words, const std::string& text) const {
    const ProgramOutput output = run("tokenize " + words, text);
    EXPECT_EQ(output.status, 0) << words << output.err;
    return output.out;
  }

  static constexpr const char* kNull = "--tokenizer-type NullTokenizer --vocab-size 100 ";
};

TEST_F(TokenizeTest, OneListOrOneALine) {
  const std::string null = kNull;
  EXPECT_EQ(ids_of(null, "1 2\n3\n"), "[1,2,3]\n");
  EXPECT_EQ(ids_of(null + "--json", "1 2\n3\n"), "[1,2,3]\n");
  EXPECT_EQ(ids_of(null, ""), "[]\n");
  EXPECT_EQ(ids_of(null + "--lines", "1 2\n\n3"), "[1,2]\n[]\n[3]\n");
  EXPECT_EQ(ids_of(null + "--lines --json", ""), "");
  EXPECT_EQ(ids_of(null + "--lines --decode", "[1,2]\n3\n"), "1 2\n3\n");
  EXPECT_EQ(ids_of(null + "--lines --decode --json", "[1,2]\n3\n"), "\"1 2\"\n\"3\"\n");
  EXPECT_EQ(ids_of(null + "--decode --skip-special-tokens", "[1,100]"), "1");
}

TEST_F(TokenizeTest, SpecialTokensAreTextUnlessParsed) {
  prepare();
  const std::string text = "the<|endoftext|>\xff\n";
  const Json data = Json::parse(ids_of(tokenizer(), text));
  const Json parsed = Json::parse(ids_of(tokenizer() + " --parse-special-tokens", text));
  EXPECT_LT(parsed.size(), data.size());
  EXPECT_EQ(data, Json::parse(ids_of(tokenizer() + " --add-special-tokens", text)));
  EXPECT_EQ(ids_of(tokenizer() + " --decode", parsed.dump()), text);
  EXPECT_EQ(ids_of(tokenizer() + " --decode --skip-special-tokens", parsed.dump()), "the\xff\n");
}

TEST_F(TokenizeTest, ATableForPeople) {
  prepare();
  const std::string table =
      ids_of(tokenizer() + " --pieces --parse-special-tokens", " \xff<|endoftext|>");
  EXPECT_THAT(table, testing::StartsWith("      id  piece                     bytes\n"));
  EXPECT_THAT(table, HasSubstr("\u0120                         20\n"));
  EXPECT_THAT(table, HasSubstr("\u00ff                         ff\n"));
  EXPECT_THAT(table, HasSubstr("<|endoftext|>             3c 7c 65 6e 64 6f 66"));
}

TEST_F(TokenizeTest, FlagsThatContradict) {
  const std::string null = "tokenize " + std::string(kNull);
  expect_error(null + "--decode --pieces", 78, "--pieces");
  expect_error(null + "--decode --parse-special-tokens", 78, "--parse-special-tokens");
  expect_error(null + "--decode --add-special-tokens", 78, "--add-special-tokens");
  expect_error(null + "--skip-special-tokens", 78, "--decode");
  expect_error(null + "--json --pieces", 78, "--pieces");
  EXPECT_EQ(run(null, "a").status, 65);
  expect_error("tokenize --tokenizer-type tiktoken", 78, "--tokenizer-model is missing");
  expect_error("tokenize --tokenizer-type tiktoken --tokenizer-model none --tiktoken-pattern gpt2",
               66, "none");
}

}  // namespace
}  // namespace phalanx
