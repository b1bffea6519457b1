// Runs that learn from conversations (--sft).

#include <gmock/gmock.h>

#include <fstream>

#include "phalanx/chat/test_support.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ChatRunTest : public RunTest {
 protected:
  ChatRunTest() {
    std::filesystem::create_directory(path("tokenizer"));
    std::ofstream(path("tokenizer/tokenizer.json")) << byte_tokenizer_json();
    std::ofstream(path("tokenizer/chat_template.jinja")) << kChatMl;
    std::ofstream all(path("all.jsonl"));
    for (int i = 0; i < 24; ++i) {
      all << line(std::string(1, static_cast<char>('a' + i)), std::string(i % 5 + 1, 'x'));
    }
  }
  static std::string line(const std::string& question, const std::string& answer) {
    return fmt::format(
        R"({{"prompt": [{{"role": "user", "content": "{}"}}], "completion": [{{"role": "assistant", "content": "{}"}}]}})"
        "\n",
        question, answer);
  }
  TrainConfig config(const std::string& save, const std::string& flags = {}) const {
    TrainConfig c = with_flags(
        RunTest::config(save),
        "--sft --seq-length 96 --max-position-embeddings 96 --tokenizer-type HuggingFaceTokenizer "
        "--vocab-size 0 --micro-batch-size 1 --global-batch-size 2 --split 80,20 " +
            flags);
    c.data.data_path = {path("all.jsonl")};
    c.tokenizer.tokenizer_model = path("tokenizer");
    return c;
  }
  // The loss of each validation set.
  std::vector<double> evaluated(const std::string& save) const {
    std::vector<double> losses;
    for (const Json& line : metrics(save)) {
      if (line.contains("eval")) losses.push_back(line.at("lm_loss"));
    }
    return losses;
  }
};

// Conversations side by side have the losses that each has alone; the average is over tokens, or
// over conversations.
TEST_F(ChatRunTest, LossesOfAPackAreThoseOfItsConversations) {
  std::ofstream(path("a.jsonl")) << line("Where?", "Here.");
  std::ofstream(path("b.jsonl")) << line("When", "It was a long time ago.");
  std::ofstream(path("ab.jsonl")) << line("Where?", "Here.")
                                  << line("When", "It was a long time ago.");
  const std::string alone =
      "--hidden-dropout 0 --attention-dropout 0 --global-batch-size 1 --eval-iters 1 "
      "--lr-warmup-iters 0 --train-iters 1 --eval-interval 1 ";
  TrainConfig c = config("eval", alone + "--skip-train --multiple-validation-sets");
  c.data.split = DataConfig().split;
  c.data.data_path = {};
  c.data.train_data_path = {path("ab.jsonl")};
  c.data.valid_data_path = {path("a.jsonl"), path("b.jsonl"), path("ab.jsonl")};
  train(c);
  const std::vector<double> losses = evaluated("eval");
  ASSERT_EQ(losses.size(), 3U);
  const double of_a = 5 + 1;  // the answer and its end
  const double of_b = 23 + 1;
  const double by_token = (of_a * losses[0] + of_b * losses[1]) / (of_a + of_b);
  EXPECT_NEAR(losses[2], by_token, 1e-5);
  EXPECT_GT(std::abs(losses[0] - losses[1]), 1e-3);

  for (const std::string average : {"token", "sample"}) {
    c = config("train", alone + "--sft-average " + average);
    c.data.split = DataConfig().split;
    c.data.data_path = {};
    c.data.train_data_path = {path("ab.jsonl")};
    train(c);
    EXPECT_NEAR(this->losses("train").at(0),
                average == "token" ? by_token : (losses[0] + losses[1]) / 2, 1e-5)
        << average;
  }
}

TEST_F(ChatRunTest, ResumesBitwise) {
  expect_resume_is_bitwise(config("straight", "--sft-average sample"));
}

// The samples are the same in every layout, where each has a row of its own.
TEST_F(ChatRunTest, RanksThatShareSamples) {
  const std::string flags = "--sft-packing none --hidden-dropout 0 --attention-dropout 0 ";
  train(config("one", flags));
  train(config("two", flags + "--world-size 2 --context-parallel-size 2 "
                              "--context-parallel-cut documents"));
  expect_near("two", "one", "lm_loss", 1e-4);
  train(config("parallel", flags + "--world-size 2 --tensor-model-parallel-size 2"));
  expect_near("parallel", "one", "lm_loss", 1e-4);
}

TEST_F(ChatRunTest, CheckpointsHaveTheTemplate) {
  TrainConfig c = config("run");
  c.run.load = c.run.save;
  c.run.exit_interval = 3;
  train(c);
  const auto kept = directory_ / "run" / "iter_0000003" / "chat_template.jinja";
  EXPECT_EQ(read_file(kept), kChatMl);
  c.run.exit_interval = 0;
  // Another template makes other samples.
  std::ofstream(path("other.jinja")) << kPlainChatMl;
  c.data.chat_template = path("other.jinja");
  EXPECT_THAT(refusal(c), AllOf(HasSubstr("--chat-template"), HasSubstr("other.jinja"),
                                HasSubstr("iteration 3"), HasSubstr("--finetune")));
  TrainConfig changed = c;
  changed.data.chat_template = {};
  changed.data.sft_loss = "all";
  EXPECT_THAT(refusal(changed), HasSubstr("--sft-loss"));
  // A new run from the weights may have another, which it keeps.
  c.run.save = path("next");
  c.run.finetune = true;
  train(c);
  EXPECT_EQ(read_file(directory_ / "next" / "iter_0000006" / "chat_template.jinja"), kPlainChatMl);
  // What is trained on plain text afterwards keeps it, too.
  TrainConfig plain = with_flags(c, "--sft false");
  plain.data.chat_template = {};
  plain.data.data_path = {path("data")};
  plain.run.load = path("next");
  plain.run.save = path("plain");
  train(plain);
  EXPECT_EQ(read_file(directory_ / "plain" / "iter_0000006" / "chat_template.jinja"), kPlainChatMl);
}

TEST_F(ChatRunTest, WhatIsNotThereIsNamed) {
  TrainConfig c = config("run");
  c.data.chat_template = path("none.jinja");
  c.data.data_path = {path("none.jsonl")};
  EXPECT_THAT(error_of(ErrorCode::kInputMissing, [&] { pretrain(c); }),
              AllOf(HasSubstr("--chat-template: "), HasSubstr("none.jinja: no such file"),
                    HasSubstr("--data-path: "), HasSubstr("none.jsonl: no such file")));
  std::filesystem::remove(path("tokenizer/chat_template.jinja"));
  EXPECT_THAT(error_of(ErrorCode::kConfiguration, [&] { pretrain(config("run")); }),
              AllOf(HasSubstr("no chat template"), HasSubstr("--chat-template FILE")));
}

}  // namespace
}  // namespace phalanx
