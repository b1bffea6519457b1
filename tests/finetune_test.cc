// finetune classify, and what generate and score do with a BERT, as they are typed.

#include <cmath>

#include "program_test.h"

namespace phalanx {
namespace {

using Output = ProgramOutput;

class BertCommands : public ProgramTest {
 protected:
  // Words of an order that says something: "first" comes before "second", or behind it.
  void write_data() const {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n";
    for (const char* word : {"first", "second", "alpha", "beta", "gamma", "delta", "and"}) {
      vocabulary += std::string(word) + "\n";
    }
    write("vocab.txt", vocabulary);
    const std::vector<std::string> words = {"alpha", "beta", "gamma", "delta"};
    std::string documents, table;
    for (int i = 0; i < 64; ++i) {
      const std::string a = words[static_cast<std::size_t>(i % 4)] + " first";
      const std::string b = words[static_cast<std::size_t>(i / 4 % 4)] + " second";
      documents += Json{{"text", {a + " and .", b + " and .", a + " .", b + " ."}}}.dump() + "\n";
      const bool in_order = i / 16 % 2 == 0;
      table += (in_order ? a + "\t" + b : b + "\t" + a) + (in_order ? "\tyes\n" : "\tno\n");
    }
    write("documents.jsonl", documents);
    write("table.tsv", table);
    ASSERT_EQ(run("preprocess-data --input documents.jsonl --output-prefix data " + vocab()).status,
              0);
  }
  static std::string vocab() {
    return "--tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt ";
  }
  static std::string shape() {
    return "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 "
           "--max-position-embeddings 16 --threads-per-rank 1 --eval-iters 1 --log-interval 1000 ";
  }
  void pretrain() const {
    write_data();
    const Output output = run(
        "pretrain bert " + vocab() + shape() +
        "--micro-batch-size 4 --global-batch-size 8 --lr 1e-2 --train-iters 30 --data-path "
        "data_text_document --split 90,10,0 --eval-interval 100 --save bert --save-interval 30");
    ASSERT_EQ(output.status, 0) << output.err;
  }
  static std::string classify() {
    return "finetune classify --pretrained-checkpoint bert --train-data table.tsv --valid-data "
           "table.tsv --text-columns 0 1 --labels no yes --micro-batch-size 4 --global-batch-size "
           "8 "
           "--lr 5e-3 --lr-decay-style constant --threads-per-rank 1 --hidden-dropout 0 "
           "--attention-dropout 0 --log-interval 1000 ";
  }
};

TEST_F(BertCommands, FinetuneLearnsWhatABagOfWordsCannot) {
  pretrain();
  const Output output = run(classify() + "--epochs 3 --bag-of-words --save run");
  ASSERT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.err.find("the checkpoint has no classification_head.bias, "
                            "classification_head.weight: these begin with random weights"),
            std::string::npos)
      << output.err;
  // Every pair of texts comes in both orders.
  EXPECT_NE(output.out.find(" > bag of words: metrics for table: correct / total = 32 / "
                            "64 = 50.0000 %\n"),
            std::string::npos)
      << output.out;
  EXPECT_NE(output.out.find(" > |epoch: 0| metrics for table: correct / total = "),
            std::string::npos)
      << output.out;
  EXPECT_NE(output.out.find(" > |epoch: 2| metrics for table: correct / total = 64 / 64 = 100.0000 "
                            "%, elapsed time (sec): "),
            std::string::npos)
      << output.out;
  EXPECT_NE(output.out.find(" > |epoch: 2| F1 for table: 1.0000\n"), std::string::npos);
  EXPECT_NE(output.out.find(" >> |epoch: 2| overall: correct / total = 64 / 64 = 100.0000 %\n"),
            std::string::npos);
  EXPECT_EQ(metrics("run").size(), 24U);  // 8 batches an epoch

  // The same in another layout, and a run that goes on where it was left.
  const Output ranks = run(classify() +
                           "--epochs 3 --nproc 4 --tensor-model-parallel-size 2 "
                           "--pipeline-model-parallel-size 2 --sequence-parallel --save ranks");
  ASSERT_EQ(ranks.status, 0) << ranks.err;
  const auto one = metrics("run"), four = metrics("ranks");
  ASSERT_EQ(one.size(), four.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double loss = one[i].at("lm_loss");
    EXPECT_NEAR(four[i].at("lm_loss").get<double>(), loss, 1e-3 * loss + 1e-5) << i;
  }
  ASSERT_EQ(run(classify() + "--epochs 3 --exit-interval 10 --load part --save part").status, 0);
  ASSERT_EQ(run(classify() + "--epochs 3 --load part --save part").status, 0);
  EXPECT_EQ(run("checkpoint diff run part").status, 0);
  const Output evaluated = run(classify() + "--epochs 0 --load run");
  EXPECT_NE(evaluated.out.find(" >> |epoch: -1| overall: correct / total = 64 / 64"),
            std::string::npos)
      << evaluated.out << evaluated.err;

  expect_error(classify() + "--epochs 1", 78, "--save must be given");
  expect_error(classify() + "--epochs 1 --save x --num-classes 3", 78, "there are 2 labels");
  const Output too_large = run(classify() + "--epochs 1 --save x --global-batch-size 100");
  EXPECT_EQ(too_large.status, 78);
  EXPECT_NE(too_large.err.find("64 samples do not fill a global batch of 100"), std::string::npos);
  write("bad.tsv", "a\tb\tmaybe\n");
  expect_error(classify() + "--epochs 1 --save x --train-data bad.tsv", 65,
               "bad.tsv, line 1: the label maybe is none of no, yes");
  expect_error(classify() + "--epochs 1 --save x --train-data nowhere.tsv", 66, "nowhere.tsv");
}

TEST_F(BertCommands, GenerateAndScoreFillMasks) {
  pretrain();
  const Json filled =
      run_json("generate --load bert --prompt 'alpha [MASK] and .' --json --top-k 100");
  ASSERT_EQ(filled.at("masks").size(), 1U);
  const Json& mask = filled["masks"][0];
  EXPECT_EQ(mask.at("place"), 2);
  ASSERT_EQ(mask.at("candidates").size(), 15U);  // the vocabulary, [BOS] and [EOS]
  const int best = mask["candidates"][0].at("id");
  EXPECT_EQ(filled.at("prompt"), (std::vector<int>{2, 8, 4, 12, 5, 3}));
  EXPECT_EQ(filled.at("tokens"), (std::vector<int>{2, 8, best, 12, 5, 3}));
  // What score says of a token is what generate says of it.
  const Json scored = Json::parse(run("score --load bert --json", "alpha first and .").out);
  EXPECT_EQ(scored.at("tokens"), (std::vector<int>{2, 8, 6, 12, 5, 3}));
  ASSERT_EQ(scored.at("log_probabilities").size(), 4U);
  double probability = 0.0, sum = 0.0, last = 1.0;
  for (const Json& candidate : mask["candidates"]) {
    const double value = candidate.at("probability");
    EXPECT_LE(value, last);  // the likeliest first
    last = value;
    sum += value;
    if (candidate.at("id") == 6) probability = value;
  }
  EXPECT_NEAR(sum, 1.0, 1e-9);
  EXPECT_NEAR(std::exp(scored["log_probabilities"][1].get<double>()), probability,
              1e-5 * probability);
  EXPECT_EQ(run("score --load bert --json --tokens 8 6 12 5").out,
            run("score --load bert --json --tokens 2 8 6 12 5 3").out);
  const Output text = run("generate --load bert --prompt 'alpha [MASK] and .'");
  EXPECT_NE(text.out.find(" mask  probability  token\n"), std::string::npos) << text.out;
  expect_error("generate --load bert --prompt alpha", 78, "--prompt has no [MASK]");
  expect_error("score --load bert --tokens 8 6 --logits --json", 78, "--logits");
  write("text.txt", "alpha first and .");
  expect_error("evaluate perplexity --load bert --valid-data text.txt", 78, "this task is a GPT's");
}

}  // namespace
}  // namespace phalanx
