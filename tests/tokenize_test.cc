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

TEST_F(TokenizeTest, ConversationsHaveTextIdsAndMasks) {
  prepare();
  write("t.jinja",
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
        "{% endif %}{{ m.role[0] + ':' + m.content + '<|endoftext|>' }}{% endfor %}"
        "{% if add_generation_prompt %}a:{% endif %}{% if last %}{{ strftime_now('%Y') }}{% endif "
        "%}");
  const std::string chat = "tokenize --chat --lines --json --chat-template t.jinja " + tokenizer();
  const std::string question = R"({"messages": [{"role": "user", "content": "q"}]})";
  const std::string lines =
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]})"
      "\n" +
      question +
      "\n"
      R"({"messages": [{"role": "system", "content": "s"}]})"
      "\n"
      R"({"messages": [{"role": "assistant", "content": "b"}]})"
      "\n";
  const ProgramOutput output = run(chat, lines);
  ASSERT_EQ(output.status, 0) << output.err;
  std::istringstream made(output.out);
  std::string line;
  std::getline(made, line);
  const Json first = Json::parse(line);
  EXPECT_EQ(first["text"], "u:q<|endoftext|>a:b<|endoftext|>");
  // u : q, the end of the turn, a : - and what the assistant says, with the end of its turn.
  EXPECT_EQ(first["mask"], Json::parse("[0,0,0,0,0,0,1,1]"));
  EXPECT_EQ(first["ids"].size(), 8U);
  EXPECT_EQ(first["ids"][3], first["ids"][7]);
  std::getline(made, line);
  EXPECT_EQ(Json::parse(line)["mask"], Json::parse("[0,0,0,0]"));
  std::getline(made, line);
  EXPECT_EQ(line, R"({"error":"no system"})");
  std::getline(made, line);
  EXPECT_EQ(Json::parse(line)["mask"], nullptr);
  EXPECT_EQ(Json::parse(run(chat + " --add-generation-prompt", question).out)["text"],
            "u:q<|endoftext|>a:");
  const std::string dated = chat + R"( --chat-template-args '{"last": true}')";
  EXPECT_THAT(run(dated, question).err, HasSubstr("--chat-template-date YYYY-MM-DD"));
  EXPECT_EQ(Json::parse(run(dated + " --chat-template-date 2025-03-04", question).out)["text"],
            "u:q<|endoftext|>2025");
  EXPECT_THAT(run(chat, question + "\n{}\n").err, HasSubstr("standard input:2: "));
  expect_error("tokenize --chat --lines --json " + tokenizer(), 78, "--chat-template");
  expect_error("tokenize --chat --lines " + tokenizer(), 78, "--json");
  expect_error(dated + " --chat-template-date 2025-02-29", 78, "--chat-template-date");
}

}  // namespace
}  // namespace phalanx
