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
  void pretrain(const std::string& flags = "") const {
    write_data();
    const Output output = run(
        "pretrain bert " + vocab() + shape() + flags +
        "--micro-batch-size 4 --global-batch-size 8 --lr 1e-2 --train-iters 30 --data-path "
        "data_text_document --split 90,10,0 --eval-interval 100 --save bert --save-interval 30");
    ASSERT_EQ(output.status, 0) << output.err;
  }
  // The evaluation lines of a run.
  std::vector<Json> evaluations(const std::string& save) const {
    std::vector<Json> lines;
    std::istringstream text(read(save + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
      Json json = Json::parse(line);
      if (json.contains("eval")) lines.push_back(std::move(json));
    }
    return lines;
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
               "and \"maybe\" is none of \"no\", \"yes\": give --label-column");
  expect_error(classify() + "--epochs 1 --save x --train-data nowhere.tsv", 66, "nowhere.tsv");
}

// What a small classifier says of pairs of words, beside what it was trained on.
class ClassifierCommands : public BertCommands {
 protected:
  // `rows_` are the table's rows without labels, `labels_` the labels.
  void train(const std::string& flags = "") {
    pretrain(flags);
    const Output output = run(classify() + "--epochs 3 --save run --tensorboard-dir events");
    ASSERT_EQ(output.status, 0) << output.err;
    log_ = output.err;
    std::istringstream table(read("table.tsv"));
    for (std::string line; std::getline(table, line);) {
      const std::size_t end = line.rfind('\t');
      rows_ += line.substr(0, end) + "\n";
      labels_ += line.substr(end + 1) + "\n";
    }
  }
  std::string classified(const std::string& flags, const std::string& lines) const {
    const Output output = run("classify " + flags, lines);
    EXPECT_EQ(output.status, 0) << output.err;
    return output.out;
  }
  void expect_refused(const std::string& words, const std::string& input, int status,
                      const std::string& mention) const {
    const Output output = run(words, input);
    EXPECT_EQ(output.status, status) << words << "\n" << output.err;
    EXPECT_NE(output.err.find(mention), std::string::npos) << words << "\n" << output.err;
  }

  std::string rows_, labels_, log_;
};

TEST_F(ClassifierCommands, ClassifySaysWhatWasLearnt) {
  train();
  EXPECT_EQ(classified("--load run", rows_), labels_);
  // What is said of a line does not depend on those beside it, nor on threads.
  const std::string all = classified("--load run --json", rows_);
  std::istringstream lines(rows_), documents(all);
  std::string line, document, apart;
  for (int i = 0; i < 3 && std::getline(lines, line) && std::getline(documents, document); ++i) {
    EXPECT_EQ(classified("--load run --json", line), document + "\n");
    const Json json = Json::parse(document);
    const double yes = json.at("probabilities").at("yes"), no = json["probabilities"].at("no");
    EXPECT_NEAR(yes + no, 1.0, 1e-12);
    EXPECT_EQ(json.at("label"), yes > no ? "yes" : "no");
  }
  EXPECT_EQ(classified("--load run --json --threads-per-rank 3", rows_), all);
  EXPECT_EQ(classified("--load run --probabilities", line + "\r\n").rfind("yes\t0.", 0), 0U);
  EXPECT_EQ(classified("--load run", ""), "");

  // Too long: cut as in training, and told once.
  const std::string many = "alpha alpha alpha alpha alpha alpha alpha alpha alpha alpha";
  const Output cut = run("classify --load run", many + "\t" + many + "\na\tb\n" + many + "\tb\n");
  EXPECT_EQ(cut.status, 0) << cut.err;
  EXPECT_EQ(
      cut.err,
      "warning: standard input: 1 of 3 rows have more than --seq-length 16 tokens: their ends "
      "are left out\n");
  // Lines before a wrong one have their labels.
  const Output wrong = run("classify --load run", line + "\n\n" + line + "\n");
  EXPECT_EQ(wrong.status, 65);
  EXPECT_EQ(wrong.out, "yes\n");
  EXPECT_EQ(wrong.err,
            "error: phalanx classify: standard input, line 2: a blank line: there is no text\n");
  expect_refused("classify --load run", "a\tb\tyes\n", 65,
                 "line 1: 3 columns; a row is two texts with a tab between them");
  expect_refused("classify --load run", "a\tb\nalone\n", 65, "line 2: 1 column;");
  expect_refused("classify --load run", "a\tb\xff\n", 65, "line 1: byte 3 is no UTF-8");
  expect_refused("classify --load bert", rows_, 78, "a BERT is no classifier");
  expect_refused("generate --load run --prompt x", "", 78, "phalanx classify");
  expect_refused("evaluate perplexity --load run --valid-data table.tsv", "", 78,
                 "phalanx classify");
}

TEST_F(ClassifierCommands, ScoreAndTrainingCountWhatIsRight) {
  train();
  const std::string table = read("table.tsv");
  const Json scored = Json::parse(run("score --load run --json", table).out);
  EXPECT_EQ(scored.at("texts"), 64);
  EXPECT_EQ(scored.at("accuracy"), 1.0);
  EXPECT_EQ(scored.at("f1"), 1.0);
  EXPECT_EQ(scored.at("confusion"), Json({{32, 0}, {0, 32}}));
  // A row that is labelled wrongly.
  const Json worse =
      Json::parse(run("score --load run --json", table + "alpha first\tbeta second\tno\n").out);
  EXPECT_EQ(worse.at("confusion"), Json({{32, 1}, {0, 32}}));
  EXPECT_DOUBLE_EQ(worse.at("accuracy"), 64.0 / 65.0);
  EXPECT_DOUBLE_EQ(worse.at("f1"), 64.0 / 65.0);
  EXPECT_GT(worse.at("loss"), scored.at("loss"));
  const Json row =
      Json::parse(run("score --load run --json --lines", "alpha first\tbeta second\tno\n").out);
  EXPECT_EQ(row.at("label"), "no");
  EXPECT_EQ(row.at("prediction"), "yes");
  expect_refused("score --load run --stride 4", table, 78, "--stride: a classifier");
  expect_refused("score --load run", "a\tb\n", 65, "standard input, line 1: 2 columns");

  // Training's evaluations say the same of the last checkpoint.
  const auto evaluations = this->evaluations("run");
  ASSERT_EQ(evaluations.size(), 4U);  // of three epochs, and the last one
  EXPECT_EQ(evaluations[3].at("accuracy"), 1.0);
  EXPECT_EQ(evaluations[3].at("f1"), 1.0);
  EXPECT_LT(evaluations[0].at("accuracy"), 1.0);
  EXPECT_NEAR(evaluations[3].at("lm_loss").get<double>(), scored.at("loss").get<double>(), 1e-6);
  EXPECT_NE(log_.find(" | classification loss value: "), std::string::npos) << log_;
  EXPECT_NE(log_.find(" | accuracy: 1.000000 | F1: 1.000000 |"), std::string::npos) << log_;
  EXPECT_EQ(log_.find("lm loss"), std::string::npos) << log_;
  const std::string page = read("run/report.html");
  EXPECT_NE(page.find("classification loss"), std::string::npos);
  EXPECT_EQ(page.find("lm loss"), std::string::npos);
  EXPECT_NE(page.find("Accuracy table.tsv, validation"), std::string::npos);
  EXPECT_NE(page.find("F1 table.tsv, validation"), std::string::npos);

  // Layouts count alike, samples that fill a batch up not at all.
  std::istringstream lines(table);
  std::string line, some;
  for (int i = 0; i < 13 && std::getline(lines, line); ++i) some += line + "\n";
  some += "alpha first\tbeta second\tno\n";
  write("some.tsv", some);
  const std::string flags =
      classify() + "--epochs 1 --valid-data some.tsv --pretrained-checkpoint run ";
  const Output one = run(flags + "--save one");
  ASSERT_EQ(one.status, 0) << one.err;
  const Output four = run(flags +
                          "--save four --nproc 4 --pipeline-model-parallel-size 2 "
                          "--micro-batch-size 2");
  ASSERT_EQ(four.status, 0) << four.err;
  const Json last = this->evaluations("one").back();
  EXPECT_NEAR(std::round(14.0 * last.at("accuracy").get<double>()),
              14.0 * last.at("accuracy").get<double>(), 1e-9);
  EXPECT_LT(last.at("accuracy"), 1.0);
  for (const char* key : {"accuracy", "f1"}) {
    EXPECT_DOUBLE_EQ(this->evaluations("four").back().at(key), last.at(key)) << key;
  }
}

TEST_F(ClassifierCommands, GoToHuggingFaceAndBack) {
  train("--post-layernorm ");
  const std::string said = classified("--load run --json", rows_);
  ASSERT_EQ(run("export hf --load run --output folder").status, 0);
  const Json config = Json::parse(read("folder/config.json"));
  EXPECT_EQ(config.at("architectures"), Json({"BertForSequenceClassification"}));
  EXPECT_EQ(config.at("id2label"), (Json{{"0", "no"}, {"1", "yes"}}));
  EXPECT_EQ(config.at("label2id"), (Json{{"no", 0}, {"yes", 1}}));
  EXPECT_EQ(config.at("num_labels"), 2);
  EXPECT_EQ(config.at("problem_type"), "single_label_classification");
  EXPECT_TRUE(std::filesystem::exists(directory_ / "folder/vocab.txt"));
  ASSERT_EQ(run("import hf --input folder --output back").status, 0);
  std::filesystem::remove_all(directory_ / "folder");
  EXPECT_EQ(classified("--load back --json", rows_), said);
  // Nothing says there that it is of pairs.
  EXPECT_NE(classified("--load back", "alpha first\n"), "");
  expect_refused("classify --load back", "a\tb\tyes\n", 65, "line 1: 3 columns");
  const Json scored = Json::parse(run("score --load back --json", read("table.tsv")).out);
  EXPECT_EQ(scored, Json::parse(run("score --load run --json", read("table.tsv")).out));
  ASSERT_EQ(run("export hf --load back --output again").status, 0);
  const Json again = Json::parse(read("again/config.json"));
  for (const char* key : {"architectures", "id2label", "hidden_act", "problem_type"}) {
    EXPECT_EQ(again.at(key), config.at(key)) << key;
  }
  // Classes do not change places.
  expect_error(
      classify() + "--epochs 0 --load back --labels yes no", 78,
      "--labels: the classes are yes, no, but those of the checkpoint in back are no, yes");
  // A body to train further, with its head.
  const Output more = run(classify() + "--pretrained-checkpoint back --epochs 1 --save more");
  EXPECT_EQ(more.status, 0) << more.err;
  EXPECT_EQ(more.err.find("random weights"), std::string::npos) << more.err;
}

TEST_F(BertCommands, FinetuneTellsWhatIsWrongWithItsRows) {
  pretrain();
  const std::string table = read("table.tsv");
  write("one.tsv", "a\tb\tyes\nc\td\tyes\n");
  expect_error(classify() + "--epochs 1 --save x --train-data one.tsv", 65,
               "one.tsv: all 2 rows have the label yes");
  write("short.tsv", table + "alpha\tyes\n");
  expect_error(classify() + "--epochs 1 --save x --train-data short.tsv", 65,
               "short.tsv, line 65: 2 columns");
  std::string longer = "alpha first";
  for (int i = 0; i < 20; ++i) longer += " and";
  write("blank.tsv", "\n" + table + "\n" + longer + "\tbeta second\tyes\n");
  const Output told = run(classify() +
                          "--epochs 1 --save y --train-data blank.tsv --labels no yes "
                          "maybe --valid-data one.tsv");
  EXPECT_EQ(told.status, 0) << told.err;
  for (const char* warning :
       {"warning: blank.tsv: 2 blank lines are left out; the first is line 1\n",
        "warning: blank.tsv: 1 of 65 rows have more than --seq-length 16 tokens: their ends are "
        "left "
        "out\n",
        "warning: blank.tsv: no row has the label maybe: it will not be learnt\n",
        "warning: one.tsv: all 2 rows have the label yes: accuracy and F1 say little\n"}) {
    const std::size_t first = told.err.find(warning);
    EXPECT_NE(first, std::string::npos) << warning << told.err;
    EXPECT_EQ(told.err.find(warning, first + 1), std::string::npos) << warning << told.err;
  }
  expect_error(classify() + "--epochs 1 --save z --labels no yes no", 78, "no comes twice");
  // Without anything to evaluate on.
  const Output alone =
      run("finetune classify --pretrained-checkpoint bert --train-data table.tsv "
          "--text-columns 0 1 --labels no yes --micro-batch-size 8 --lr 1e-3 "
          "--threads-per-rank 1 --epochs 1 --save alone");
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_TRUE(evaluations("alone").empty());
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
