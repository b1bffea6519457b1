// score and export llmc, as they are typed.

#include <cmath>

#include "program_test.h"

namespace phalanx {
namespace {

using Output = ProgramOutput;

class TrainedProgramTest : public ProgramTest {
 protected:
  // A text, and a model of it in `run`.
  void train(const std::string& flags = "") const {
    prepare();
    const Output output = run("pretrain gpt " + training() +
                              "--train-iters 2 --eval-iters 0 --threads-per-rank 1 "
                              "--save run --save-interval 2 " +
                              flags);
    ASSERT_EQ(output.status, 0) << output.err;
  }
  void refused(const std::string& words, const std::string& input, int status,
               const std::string& mention) const {
    const Output output = run(words, input);
    EXPECT_EQ(output.status, status) << words << "\n" << output.err;
    EXPECT_NE(output.err.find(mention), std::string::npos) << words << "\n" << output.err;
    EXPECT_EQ(output.out, "") << words;
  }
  std::vector<Json> json_lines(const Output& output) const {
    EXPECT_EQ(output.status, 0) << output.err;
    std::vector<Json> lines;
    std::istringstream text(output.out);
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    return lines;
  }
};

using ScoreCommand = TrainedProgramTest;

TEST_F(ScoreCommand, ScoresTexts) {
  train();
  const std::string text = "And the 3 said unto the 2, behold.";
  const Output one = run("score --load run --json", text);
  ASSERT_EQ(one.status, 0) << one.err;
  const Json score = Json::parse(one.out);
  EXPECT_EQ(score.size(), 4U);
  const std::vector<int> tokens = score.at("tokens");
  const std::vector<double> log_probabilities = score.at("log_probabilities");
  EXPECT_EQ(tokens, Json::parse(run("tokenize " + tokenizer(), text).out));
  ASSERT_EQ(log_probabilities.size() + 1, tokens.size());
  double sum = 0.0;
  for (const double value : log_probabilities) {
    EXPECT_LT(value, 0.0);
    sum -= value;
  }
  const double loss = score.at("loss");
  EXPECT_NEAR(loss, sum / static_cast<double>(log_probabilities.size()), 1e-5);
  EXPECT_NEAR(score.at("perplexity").get<double>(), std::exp(loss), 1e-6 * std::exp(loss));

  // The same as ids, in words, in one, and as a list.
  std::string ids;
  for (const int id : tokens) ids += fmt::format("{} ", id);
  EXPECT_EQ(run("score --load run --json --tokens " + ids).out, one.out);
  EXPECT_EQ(run("score --load run --json --tokens '" + ids + "'").out, one.out);
  EXPECT_EQ(run("score --load run --json --tokens '" + Json(tokens).dump() + "'").out, one.out);

  const Json with = Json::parse(run("score --load run --json --logits", text).out);
  EXPECT_EQ(with.at("logits").size(), 283U);
  EXPECT_EQ(with.at("log_probabilities"), score.at("log_probabilities"));

  const auto lines = json_lines(run("score --load run --json --lines", "behold\n" + text + "\r\n"));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1], score);

  // For people.
  const Output table = run("score --load run", text);
  EXPECT_NE(table.out.find(fmt::format("{} tokens, loss ", tokens.size())), std::string::npos)
      << table.out;
  EXPECT_NE(table.out.find("\" said\"\n"), std::string::npos) << table.out;
  const Output rows = run("score --load run --lines", "behold\n" + text);
  EXPECT_NE(rows.out.find("\n     all "), std::string::npos) << rows.out;

  // Longer than the 32 positions.
  std::string book;
  for (int i = 0; i < 20; ++i) book += text;
  refused("score --load run", book, 65,
          "enough for 33: shorten it, or give --stride N with N from 1 to 32");
  refused("score --load run --stride 0", book, 65,
          "enough for 33, and --stride 0 makes no windows: shorten it, or give --stride N with N "
          "from 1 to 32");
  const auto windows = json_lines(run("score --load run --json --stride 16", book));
  EXPECT_EQ(windows.at(0).at("tokens").size(), windows[0].at("log_probabilities").size() + 1);
}

TEST_F(ScoreCommand, RefusesWhatHasNoScore) {
  train();
  const std::string score = "score --load run";
  refused(score, "", 65, "standard input is empty");
  refused(score, "A", 65, "standard input: one token");
  refused(score, "And the \xff", 65, "standard input: byte 8 is no UTF-8");
  refused(score + " --lines", "And the\n\nbehold\n", 65, "standard input, line 2: no tokens");
  refused(score + " --lines", "And the\nA\xc3\n", 65, "line 2: byte 1 is no UTF-8");
  expect_error(score + " --tokens 1 2 283", 65, "token 2 is 283; the model's vocabulary has 283");
  expect_error(score + " --tokens '1 two'", 65, "--tokens: two is not a token id");
  expect_error(score + " --tokens -1 2", 65, "--tokens: -1 is not a token id");
  expect_error(score + " --tokens 7", 65, "--tokens: one token");
  expect_error(score + " --tokens 1 2 --lines", 78, "exclude");
  expect_error(score + " --tokens 1 2 --logits", 78, "--logits needs --json");
  expect_error(score + " --tokens 1 2 --stride 33", 78, "the model has 32 positions");
  expect_error("score --tokens 1 2", 64, "--load");
  expect_error("score --load nowhere --tokens 1 2", 66, "nowhere: no checkpoint");
  const Output full = run_between("", score + " --tokens 1 2", ">/dev/full");
  EXPECT_EQ(full.status, 73) << full.err;
}

using ExportCommand = TrainedProgramTest;

TEST_F(ExportCommand, WritesLlmcsFilesAndReadsThemAgain) {
  train();
  const Output written = run(
      "export llmc --load run --output gpt.bin --tokens tokens.bin --data-path data_text_document");
  ASSERT_EQ(written.status, 0) << written.err;
  ASSERT_EQ(run("import llmc --checkpoint gpt.bin --tokens tokens.bin --output back").status, 0);
  const Json first = run_json("checkpoint digest run --json").at("tensors");
  const Json second = run_json("checkpoint digest back/checkpoint --json").at("tensors");
  EXPECT_EQ(second.size(), 28U);
  for (const auto& [name, digest] : second.items()) EXPECT_EQ(first.at(name), digest) << name;
  EXPECT_EQ(run_json("dataset info --data-path data_text_document --json").at("tokens"),
            run_json("dataset info --data-path back/tokens --json").at("tokens"));
  // The model is the same one, too.
  const std::string ids = " --tokens 5 6 7 8 9 --json";
  EXPECT_EQ(run("score --load run" + ids).out, run("score --load back/checkpoint" + ids).out);

  ASSERT_EQ(run("export llmc --load back/checkpoint --output again.bin").status, 0);
  EXPECT_EQ(read("again.bin"), read("gpt.bin"));
  expect_error("export llmc --load back/checkpoint --output again.bin", 78, "--overwrite");
  EXPECT_EQ(run("export llmc --load back/checkpoint --output again.bin --overwrite").status, 0);
  EXPECT_EQ(read("again.bin"), read("gpt.bin"));

  // Where it fails nothing is left.
  const std::string llmc = "export llmc --load run --output new.bin ";
  expect_error(llmc + "--tokens new.bin --data-path back/tokens", 78, "the same file");
  expect_error(llmc + "--tokens back/tokens.bin --overwrite --data-path back/tokens", 78,
               "would replace the dataset");
  expect_error(llmc + "--tokens t.bin", 78, "--data-path");
  expect_error(llmc + "--tokens t.bin --data-path nowhere", 66, "nowhere");
  expect_error("export llmc --load nowhere --output new.bin", 66, "nowhere: no checkpoint");
  expect_error("export llmc --load run --output no/new.bin", 73, "no/new.bin");
  expect_error("export llmc --load run --output /dev/null --overwrite", 73, "no regular file");
  const Output full = run_between("ulimit -f 50", llmc, "");
  EXPECT_EQ(full.status, 73) << full.err;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(!name.starts_with("new.bin") && !name.starts_with("t.bin")) << name;
  }
}

TEST_F(ExportCommand, SaysWhatLlmcHasNot) {
  train(
      "--untie-embeddings-and-output-weights --ffn-hidden-size 64 --kv-channels 8 "
      "--no-bias-gelu-fusion --norm-epsilon 1e-6 --group-query-attention --num-query-groups 1");
  const Output output = run("export llmc --load run --output gpt.bin");
  EXPECT_EQ(output.status, 78);
  for (const char* flag : {"untie-embeddings-and-output-weights", "ffn-hidden-size", "kv-channels",
                           "no-bias-gelu-fusion", "norm-epsilon", "num-query-groups"}) {
    EXPECT_NE(output.err.find(fmt::format("llm.c cannot have this model: --{}: ", flag)),
              std::string::npos)
        << flag << "\n"
        << output.err;
  }
  ASSERT_EQ(run("pretrain gpt " + training() +
                "--train-iters 1 --eval-iters 0 --fp16 --initial-loss-scale 65536 --save half "
                "--save-interval 1")
                .status,
            0);
  expect_error("export llmc --load half --output gpt.bin", 78, "give --dtype fp32");
  EXPECT_EQ(run("export llmc --load half --output gpt.bin --dtype bf16").status, 0);
}

}  // namespace
}  // namespace phalanx
