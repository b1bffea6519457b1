// Runs that answer conversations while they are trained (--answer-prompts).

#include <gmock/gmock.h>

#include <fstream>

#include "phalanx/chat/test_support.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class AnswersTest : public RunTest {
 protected:
  AnswersTest() {
    std::filesystem::create_directory(path("tokenizer"));
    put("tokenizer/tokenizer.json", byte_tokenizer_json());
    put("tokenizer/chat_template.jinja", std::string(kChatMl));
    std::string all;
    for (int i = 0; i < 24; ++i) all += line(std::string(1, static_cast<char>('a' + i)), "xyz");
    put("all.jsonl", all);
    put("asked.jsonl", line("c", "xyz") + "\n" + line("<|im_end|>", "y"));
  }
  static std::string line(const std::string& question, const std::string& answer) {
    return fmt::format(
        R"({{"messages": [{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "{}"}}]}})"
        "\n",
        question, answer);
  }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }
  TrainConfig config(const std::string& save, const std::string& flags = {},
                     bool answers = true) const {
    TrainConfig c = with_flags(
        RunTest::config(save),
        "--sft --seq-length 96 --max-position-embeddings 96 --tokenizer-type HuggingFaceTokenizer "
        "--vocab-size 0 --micro-batch-size 1 --global-batch-size 2 --split 80,20 " +
            flags);
    c.data.data_path = {path("all.jsonl")};
    c.tokenizer.tokenizer_model = path("tokenizer");
    if (answers) c.run.answer_prompts = path("asked.jsonl");
    c.run.answer_tokens = 5;
    return c;
  }
  std::vector<Json> answers(const std::string& save) const {
    std::vector<Json> lines;
    for (Json& line : metrics(save)) {
      if (line.contains("answers")) lines.push_back(std::move(line));
    }
    return lines;
  }
};

TEST_F(AnswersTest, AreLoggedAndChangeNoBit) {
  train(config("without", "--lr 0.05", false));
  train(config("with", "--lr 0.05 --answer-interval 3"));
  EXPECT_TRUE(equal("without", "with"));
  EXPECT_EQ(losses("without"), losses("with"));
  const std::vector<Json> lines = answers("with");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("iteration"), 3);
  EXPECT_EQ(lines[1].at("iteration"), 6);
  EXPECT_EQ(lines[1].at("consumed_samples"), 12);
  const Json& all = lines[1].at("answers");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].at("messages"), Json::parse(R"([{"role": "user", "content": "c"}])"));
  EXPECT_EQ(all[0].at("expected"), "xyz");
  EXPECT_EQ(all[1].at("messages")[0].at("content"), "<|im_end|>");
  EXPECT_THAT(read_file(path("with/report.html")),
              AllOf(HasSubstr("<h2>Answers</h2>"), HasSubstr("user: c")));
  EXPECT_EQ(read_file(path("without/report.html")).find("<h2>Answers"), std::string::npos);
}

TEST_F(AnswersTest, EveryLayoutWithTheWholeModelGivesTheSame) {
  train(config("one", "--lr 0.05"));
  for (const char* flags :
       {"--world-size 2 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather",
        "--world-size 2 --zero-stage 2", "--world-size 2 --context-parallel-size 2"}) {
    train(config("two", std::string("--lr 0.05 ") + flags));
    const auto one = answers("one");
    const auto two = answers("two");
    ASSERT_EQ(one.size(), 3U);
    ASSERT_EQ(two.size(), 3U) << flags;
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].at("iteration"), two[i].at("iteration"));
      EXPECT_EQ(one[i].at("answers"), two[i].at("answers")) << flags;
    }
  }
}

TEST_F(AnswersTest, TellsWhatIsWrong) {
  EXPECT_THAT(refusal(config("none", "--world-size 2 --tensor-model-parallel-size 2")),
              HasSubstr("--answer-prompts needs the whole model on the first rank, and "
                        "--tensor-model-parallel-size cuts it"));
  EXPECT_THAT(refusal(config("none", "--world-size 2 --pipeline-model-parallel-size 2")),
              HasSubstr("--pipeline-model-parallel-size cuts it"));
  EXPECT_THAT(refusal(config("none", "--world-size 2 --zero-stage 3")),
              HasSubstr("--zero-stage 3"));
  const auto fault = [&](const std::string& text) {
    put("asked.jsonl", text);
    return error_of<DataError>([&] { pretrain(config("none")); });
  };
  EXPECT_THAT(fault("\n"), HasSubstr("has no conversation"));
  EXPECT_THAT(fault(line("a", "b") + R"({"messages": [{"role": "user", "content": "a"}]})"),
              HasSubstr("asked.jsonl:2"));
  EXPECT_THAT(fault(R"({"text": "a"})"), HasSubstr("line 1: expected messages"));
  EXPECT_THAT(fault(line(std::string(200, 'a'), "b")), HasSubstr("shorten it"));
  TrainConfig missing = config("none");
  missing.run.answer_prompts = path("absent.jsonl");
  EXPECT_THAT(error_of<InputMissingError>([&] { pretrain(missing); }),
              HasSubstr("--answer-prompts"));
}

}  // namespace
}  // namespace phalanx
