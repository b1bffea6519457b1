// A model family from outside the source tree: examples/own-model is built against an installed
// Phalanx by the commands of its README (tests/journeys/own_model.sh), and trains.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "phalanx/base/test_support.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

class OwnModel : public testing::Test {
 protected:
  int shell(const std::string& command) const {
    const int status = std::system(
        fmt::format("cd '{}' && {} >out 2>&1 </dev/null", directory_.string(), command).c_str());
    return WEXITSTATUS(status);
  }
  std::string output() const {
    std::ifstream file(directory_ / "out");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  // The lines of a run's metrics.
  std::vector<Json> metrics(const std::string& save) const {
    std::ifstream file(directory_ / save / "metrics.jsonl");
    std::vector<Json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  const TemporaryDirectory temporary_{"own_model"};
  const std::filesystem::path directory_ = temporary_.path();
};

constexpr const char* kFlags =
    "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 16 --train-iters 200 --lr 3e-3 "
    "--lr-decay-style constant --tokenizer-type NullTokenizer --vocab-size 50 --mock-data "
    "--eval-iters 0 --save-interval 200 --peak-distance 2";

TEST_F(OwnModel, BuildsAgainstAnInstalledPhalanxAndTrains) {
  ASSERT_EQ(shell(fmt::format("PHALANX='{}' KEEP=\"$PWD\" bash '{}'", program_path(),
                              source_path("tests/journeys/own_model.sh").string())),
            0)
      << output();
  ASSERT_EQ(shell(fmt::format("own/peaks {} --save one", kFlags)), 0) << output();
  ASSERT_EQ(shell(fmt::format("own/peaks {} --save two --nproc 2 --pipeline-model-parallel-size 2 "
                              "--pipeline-schedule zb-h1",
                              kFlags)),
            0)
      << output();
  const std::vector<Json> one = metrics("one");
  const std::vector<Json> two = metrics("two");
  ASSERT_EQ(one.size(), 200U);
  ASSERT_EQ(two.size(), 200U);
  EXPECT_LT(one.back().at("peak_loss"), 0.6 * one.front().at("peak_loss").get<double>());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].at("peak_loss"), two[i].at("peak_loss")) << i;
  }
  // Its own flag is kept, and its own errors are told.
  EXPECT_EQ(shell("own/peaks " + std::string(kFlags) + " --peak-distance 0"), 78);
  EXPECT_NE(output().find("--peak-distance 0: give a number from 1 on"), std::string::npos);
  EXPECT_EQ(shell(fmt::format("'{}' checkpoint info one --json", program_path())), 0) << output();
  EXPECT_NE(output().find("\"--peak-distance\""), std::string::npos) << output();
  // The program's own name, and what else there is to do with the family.
  EXPECT_EQ(shell("own/peaks pretrain --help"), 0);
  EXPECT_TRUE(output().starts_with("usage: peaks pretrain FLAGS\n")) << output();
  EXPECT_EQ(output().find("phalanx pretrain"), std::string::npos);
  EXPECT_EQ(shell("own/peaks plan " + std::string(kFlags) + " --save one"), 0) << output();
  EXPECT_NE(output().find("parameters"), std::string::npos) << output();
  EXPECT_EQ(shell("own/peaks score --load one --tokens 1 2"), 78);
  EXPECT_NE(
      output().find("error: peaks score: a model that finds peaks does not go on with a text"),
      std::string::npos)
      << output();
}

// A family whose model goes on with a text has all of it.
TEST_F(OwnModel, ALanguageModelScoresAndGenerates) {
  const std::string model =
      "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
      "--max-position-embeddings 16 --tokenizer-type NullTokenizer --vocab-size 50 ";
  const std::string training = model +
                               "--micro-batch-size 4 --train-iters 2 --lr 1e-3 --mock-data "
                               "--eval-iters 0 --save-interval 2 ";
  const auto run = [&](const std::string& words) {
    return shell(fmt::format("'{}' {}", build_path("tests/echo").string(), words));
  };
  ASSERT_EQ(run("pretrain " + training + "--echo-note hello --save own"), 0) << output();
  EXPECT_EQ(run(training + "--save again"), 0) << output();  // a flag alone is of pretrain
  EXPECT_EQ(run("plan " + model + "--micro-batch-size 4 --json"), 0) << output();
  EXPECT_EQ(Json::parse(output()).at("ranks").size(), 1U);
  EXPECT_EQ(run("score --load own --tokens 1 2 3 --json"), 0) << output();
  EXPECT_EQ(Json::parse(output()).at("log_probabilities").size(), 2U);
  EXPECT_EQ(run("generate --load own --prompt '1 2' --max-tokens 3 --ignore-eos --json"), 0)
      << output();
  const std::string first_line = output().substr(0, output().find('\n'));
  EXPECT_EQ(Json::parse(first_line).at("tokens").size(), 3U) << output();

  // It says its own name wherever a command is typed.
  for (const std::string command : {"pretrain", "plan", "score", "generate"}) {
    EXPECT_EQ(run(command + " --help"), 0);
    EXPECT_TRUE(output().starts_with("usage: echo " + command + " ")) << output();
    EXPECT_EQ(output().find("phalanx " + command), std::string::npos) << output();
    EXPECT_EQ(run("help " + command), 0);
    EXPECT_EQ(run(command + " --no-such-flag"), 64);
    EXPECT_NE(output().find(fmt::format("error: echo {}: --no-such-flag: unknown flag", command)),
              std::string::npos)
        << output();
    EXPECT_NE(output().find(fmt::format("(echo {} --help lists the flags)", command)),
              std::string::npos)
        << output();
  }
  EXPECT_EQ(run("--help"), 0);
  EXPECT_TRUE(output().starts_with("echo: trains a model that says it again")) << output();
  EXPECT_EQ(run("pretran"), 64);
  EXPECT_NE(output().find("error: echo pretran: unknown command pretran; did you mean pretrain?"),
            std::string::npos)
      << output();

  // Neither computes with the other's models.
  EXPECT_EQ(shell(fmt::format("'{}' score --load own --tokens 1 2", program_path())), 78);
  EXPECT_NE(output().find("echo is no family of models that this program knows"), std::string::npos)
      << output();
  ASSERT_EQ(shell(fmt::format("'{}' pretrain gpt {} --save gpt", program_path(), training)), 0);
  EXPECT_EQ(run("score --load gpt --tokens 1 2"), 78);
  EXPECT_NE(output().find("the checkpoint is of a gpt, and a echo is asked for"), std::string::npos)
      << output();
}

}  // namespace
}  // namespace phalanx
