// What generate and score do with a T5, as they are typed.

#include <algorithm>
#include <cmath>

#include "program_test.h"

namespace phalanx {
namespace {

using Output = ProgramOutput;

class T5Commands : public ProgramTest {
 protected:
  // Sentences of which any word says the others.
  void pretrain() const {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n";
    std::string documents;
    for (const char letter : std::string("abcd")) {
      Json sentences = Json::array();
      std::string sentence;
      for (int i = 0; i < 6; ++i) {
        vocabulary += fmt::format("{}{}\n", letter, i);
        sentence += fmt::format("{}{} ", letter, i);
      }
      for (int i = 0; i < 4; ++i) sentences.push_back(sentence + ".");
      for (int i = 0; i < 8; ++i) documents += Json{{"text", sentences}}.dump() + "\n";
    }
    write("vocab.txt", vocabulary);
    write("documents.jsonl", documents);
    const std::string flags =
        "--tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt --vocab-extra-ids 8 ";
    ASSERT_EQ(run("preprocess-data --input documents.jsonl --output-prefix own " + flags).status,
              0);
    const Output output =
        run("pretrain t5 " + flags +
            "--num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 16 "
            "--decoder-seq-length 12 --max-position-embeddings 16 --threads-per-rank 1 "
            "--micro-batch-size 4 --global-batch-size 4 --lr 1e-2 --train-iters 60 --data-path "
            "own_text_document --split 90,10,0 --eval-iters 1 --eval-interval 100 "
            "--log-interval 1000 --save t5 --save-interval 60");
    ASSERT_EQ(output.status, 0) << output.err;
  }
  Json score(const std::string& target, const std::string& text,
             const std::string& flags = "") const {
    const Output output = run("score --load t5 --json --target '" + target + "' " + flags, text);
    EXPECT_EQ(output.status, 0) << output.err;
    return output.status == 0 ? Json::parse(output.out) : Json();
  }
};

constexpr int kBos = 30, kEos = 31, kSentinel = 32;  // behind the 30 of the vocabulary

TEST_F(T5Commands, GenerateAndScoreAnswers) {
  pretrain();
  const std::string prompt = "a0 a1 <extra_id_0> a3 a4 a5 .";
  const std::string generate = "generate --load t5 --prompt '" + prompt + "' ";
  const Json likely = run_json(generate + "--temperature 0 --json");
  EXPECT_EQ(likely.at("prompt"), (std::vector<int>{6, 7, kSentinel, 9, 10, 11, 5}));
  std::vector<int> tokens = likely.at("tokens");
  ASSERT_FALSE(tokens.empty());
  ASSERT_LE(tokens.size(), 12U);
  EXPECT_EQ(tokens[0], kSentinel);  // what every target begins with
  EXPECT_EQ(std::ranges::count(tokens, kEos), 0);
  const Output text = run(generate + "--temperature 0");
  EXPECT_EQ(text.out, likely.at("text").get<std::string>() + "\n");
  EXPECT_TRUE(text.out.starts_with("<extra_id_0>")) << text.out;

  // A choice by seed, and fewer tokens.
  EXPECT_EQ(run(generate + "--seed 7").out, run(generate + "--seed 7").out);
  tokens.resize(std::min<std::size_t>(tokens.size(), 1));
  EXPECT_EQ(run_json(generate + "--temperature 0 --json --max-tokens 1").at("tokens"), tokens);
  EXPECT_EQ(run_json(generate + "--json --max-tokens 0").at("tokens"), Json::array());

  // What comes later in a target changes nothing before it.
  const Json right = score("<extra_id_0> a2", prompt), wrong = score("<extra_id_0> b2", prompt);
  EXPECT_EQ(right.size(), 4U);
  EXPECT_EQ(right.at("tokens"), (std::vector<int>{kBos, kSentinel, 8, kEos}));
  const std::vector<double> values = right.at("log_probabilities");
  ASSERT_EQ(values.size(), 3U);
  const double loss = right.at("loss");
  EXPECT_NEAR(loss, -(values[0] + values[1] + values[2]) / 3.0, 1e-5);
  EXPECT_NEAR(right.at("perplexity").get<double>(), std::exp(loss), 1e-5 * std::exp(loss));
  EXPECT_EQ(wrong["log_probabilities"][0].get<double>(), values[0]);
  EXPECT_NE(wrong["log_probabilities"][1].get<double>(), values[1]);

  // The text as ids, and lines.
  EXPECT_EQ(score("[BOS] <extra_id_0> a2 [EOS]", "", "--tokens 6 7 32 9 10 11 5"), right);
  const std::string lines = prompt + "\nb0 b1 <extra_id_0> b3 .\n";
  const Output each = run("score --load t5 --target 'a2' --json --lines", lines);
  EXPECT_EQ(std::ranges::count(each.out, '\n'), 2) << each.err;
  const Output table = run("score --load t5 --target 'a2'", prompt);
  EXPECT_NE(table.out.find("3 tokens, loss "), std::string::npos) << table.out;
}

TEST_F(T5Commands, RefuseWhatATextToTextModelHasNot) {
  pretrain();
  const std::string score = "score --load t5 --tokens 6 7 ";
  expect_error(score, 78, "--target must be given");
  expect_error(score + "--target a2 --stride 4", 78, "--stride");
  expect_error(score + "--target a2 --logits --json", 78, "--logits");
  expect_error(score + "40 --target a2", 65, "token 2 is 40; the model's vocabulary has 40 ids");
  expect_error("score --load t5 --target a2 --tokens 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6", 65,
               "17 tokens; the model's encoder reads 16");
  std::string words;
  for (int i = 0; i < 12; ++i) words += "a2 ";
  expect_error(score + "--target '" + words + "'", 78,
               "13 tokens with its [EOS]; the model's decoder has 12");
  expect_error("generate --load t5 --prompt ''", 78, "--prompt has no tokens");
  expect_error("generate --load t5 --prompt '" + words + words + "'", 78,
               "--prompt has 24 tokens, the model's encoder reads 16");

  prepare();
  ASSERT_EQ(run("pretrain gpt " + training() +
                "--train-iters 2 --eval-iters 0 --save gpt --save-interval 2")
                .status,
            0);
  expect_error("score --load gpt --tokens 1 2 --target a", 78, "--target: gpt has no decoder");
}

}  // namespace
}  // namespace phalanx
