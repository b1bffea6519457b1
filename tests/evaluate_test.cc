// evaluate perplexity and evaluate cloze, as they are typed, against what score says of the same
// model.

#include <algorithm>
#include <cmath>
#include <functional>

#include "program_test.h"

namespace phalanx {
namespace {

using Output = ProgramOutput;

class EvaluateCommand : public ProgramTest {
 protected:
  void train() const {
    prepare();
    const Output output = run("pretrain gpt " + training() +
                              "--train-iters 8 --eval-iters 0 --threads-per-rank 1 "
                              "--save run --save-interval 8 ");
    ASSERT_EQ(output.status, 0) << output.err;
  }
  std::vector<int> ids_of(const std::string& text) const {
    return Json::parse(run("tokenize " + tokenizer(), text).out);
  }
  static std::string words(const std::vector<int>& ids) {
    std::string text;
    for (const int id : ids) text += fmt::format("{} ", id);
    return text;
  }
  Json score(const std::vector<int>& ids, const std::string& flags = "") const {
    return run_json("score --load run --json " + flags + " --tokens " + words(ids));
  }
};

TEST_F(EvaluateCommand, PerplexityIsTheMeanOverOverlappingWindows) {
  train();
  std::string text;
  for (int i = 0; i < 6; ++i) {
    text += fmt::format(" And the {} said unto the {} , behold . \n", i % 7, i);
  }
  write("wiki.test.tokens", text);
  std::string plain = text;
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {" . ", ". "}, {" , ", ", "}, {" \n", "\n"}, {"\n ", "\n"}}) {
    for (std::size_t at = 0; (at = plain.find(from, at)) != std::string::npos;) {
      plain.replace(at, from.size(), to);
    }
  }
  const std::vector<int> ids = ids_of(plain);
  const auto targets = static_cast<std::int64_t>(ids.size()) - 1;
  ASSERT_GT(targets, 60);
  // Window by window: 16 tokens, 5 further each, of which all but the first's last 5 count.
  double sum = 0.0;
  std::int64_t scored = 0;
  for (std::int64_t begin = 0; scored < targets; begin += 5) {
    const std::int64_t end = std::min(begin + 16, targets);
    const Json window = score({ids.begin() + begin, ids.begin() + end + 1});
    for (std::int64_t i = scored - begin; i < end - begin; ++i) {
      sum -= window.at("log_probabilities")[static_cast<std::size_t>(i)].get<double>();
    }
    scored = end;
  }
  const std::string command =
      "evaluate perplexity --load run --valid-data wiki.test.tokens --overlapping-eval 5 "
      "--seq-length 16 ";
  const Json result = run_json(command + "--json");
  const double loss = result.at("loss");
  EXPECT_NEAR(loss, sum / static_cast<double>(targets), 1e-6);
  EXPECT_NEAR(result.at("ppl").get<double>(), std::exp(loss), 1e-9 * std::exp(loss));
  const double ratio = static_cast<double>(targets) / 64.0;
  EXPECT_EQ(result.at("words"), 65);  // 11 blanks a line, but for two at the ends
  EXPECT_DOUBLE_EQ(result.at("token_ratio"), ratio);
  EXPECT_NEAR(result.at("adjusted_ppl").get<double>(), std::exp(std::min(20.0, loss * ratio)),
              1e-6 * std::exp(std::min(20.0, loss * ratio)));
  EXPECT_EQ(result.at("windows"), (targets + 4) / 5);
  EXPECT_EQ(result.at("tokens"), targets + 1);

  const Output line = run(command);
  EXPECT_NE(
      line.out.find(fmt::format("\n validation results on WIKITEXT103 | avg loss: {:.4E} |", loss)),
      std::string::npos)
      << line.out;
  EXPECT_NE(line.err.find(fmt::format("number of original tokens: 65, number of detokenized "
                                      "tokens: {} (detokenizer: wiki)",
                                      targets + 1)),
            std::string::npos)
      << line.err;

  // As it is, in one go, and with the model's own window.
  const Json whole = run_json(
      "evaluate perplexity --load run --valid-data wiki.test.tokens --detokenizer none --json "
      "--overlapping-eval 32");
  const Json scored_whole = Json::parse(run("score --load run --json --stride 32", text).out);
  EXPECT_NEAR(whole.at("loss").get<double>(), scored_whole.at("loss").get<double>(), 1e-6);
  EXPECT_EQ(whole.at("seq_length"), 32);

  expect_error(command + "--overlapping-eval 17", 78, "leaves tokens out");
  expect_error(command + "--seq-length 33", 78, "the model has 32 positions");
  expect_error("evaluate perplexity --load run --valid-data nowhere", 66, "nowhere");
  expect_error("evaluate perplexity --load nowhere --valid-data wiki.test.tokens", 66, "nowhere");
  expect_error("evaluate perplexity --load run", 64, "--valid-data");
  expect_error("evaluate", 64, "perplexity or cloze");
}

TEST_F(EvaluateCommand, ClozeCountsTheMostLikelyTokens) {
  train();
  const std::vector<std::string> texts = {"And the 3 said unto the",
                                          "And the 5 said unto the 2, behold", "And the 0 said",
                                          "behold unto the 4 And"};
  std::string lines;
  for (const std::string& text : texts) lines += Json{{"text", text}}.dump() + "\n";
  write("lambada.jsonl", lines);
  for (const bool strict : {false, true}) {
    int correct = 0;
    double loss = 0.0;
    for (const std::string& text : texts) {
      const std::size_t space = text.rfind(' ');
      std::vector<int> tokens = strict ? ids_of(text.substr(0, space)) : ids_of(text);
      std::vector<int> target = strict ? ids_of(text.substr(space)) : std::vector{tokens.back()};
      if (!strict) tokens.pop_back();
      bool right = true;
      for (const int id : target) {
        const Json whole = score(tokens, "--logits");
        const std::vector<double> logits = whole.at("logits");
        right = right && std::ranges::max_element(logits) - logits.begin() == id;
        double total = 0.0;
        for (const double logit : logits) total += std::exp(logit);
        loss += std::log(total) - logits[static_cast<std::size_t>(id)];
        tokens.push_back(id);
      }
      correct += right ? 1 : 0;
    }
    const std::string command =
        std::string("evaluate cloze --load run --valid-data lambada.jsonl") +
        (strict ? " --strict-lambada" : "");
    const Json result = run_json(command + " --json");
    EXPECT_EQ(result.at("correct"), correct);
    EXPECT_EQ(result.at("examples"), 4);
    EXPECT_EQ(result.at("accuracy"), correct / 4.0);
    EXPECT_NEAR(result.at("target_loss").get<double>(), loss / 4, 1e-4);
    EXPECT_NE(run(command).out.find(fmt::format("number correct: {:.4E} | total examples: "
                                                "4.0000E+00 | avg accuracy: {:.4E}\n",
                                                static_cast<double>(correct), correct / 4.0)),
              std::string::npos);
    if (!strict) {
      EXPECT_GT(correct, 0);  // else the above says little
      EXPECT_LT(correct, 4);
    }
  }
  // Longer than the window: what is far away goes.
  const Output shortened =
      run("evaluate cloze --load run --valid-data lambada.jsonl --seq-length 3 --json");
  EXPECT_GT(Json::parse(shortened.out).at("shortened"), 0);
  EXPECT_NE(shortened.err.find("their beginning is left out"), std::string::npos);
  write("bad.jsonl", lines + "{}\n");
  expect_error("evaluate cloze --load run --valid-data bad.jsonl", 65, "bad.jsonl, line 5");
}

}  // namespace
}  // namespace phalanx
