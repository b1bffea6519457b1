// A model family from outside the source tree: examples/own-model is built against an installed
// Phalanx by the commands of its README (tests/journeys/own_model.sh), and trains.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::json;

class OwnModel : public testing::Test {
 protected:
  OwnModel()
      : directory_(std::filesystem::temp_directory_path() /
                   fmt::format("phalanx_own_model_{}", ::getpid())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  ~OwnModel() override { std::filesystem::remove_all(directory_); }

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

  std::filesystem::path directory_;
};

constexpr const char* kFlags =
    "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 "
    "--max-position-embeddings 16 --micro-batch-size 16 --train-iters 200 --lr 3e-3 "
    "--lr-decay-style constant --tokenizer-type NullTokenizer --vocab-size 50 --mock-data "
    "--eval-iters 0 --save-interval 200 --peak-distance 2";

TEST_F(OwnModel, BuildsAgainstAnInstalledPhalanxAndTrains) {
  ASSERT_EQ(shell(fmt::format("PHALANX='{}' KEEP=\"$PWD\" bash '{}/tests/journeys/own_model.sh'",
                              PHALANX_PROGRAM, PHALANX_SOURCE_DIR)),
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
  EXPECT_EQ(shell(fmt::format("'{}' checkpoint info one --json", PHALANX_PROGRAM)), 0) << output();
  EXPECT_NE(output().find("\"--peak-distance\""), std::string::npos) << output();
}

}  // namespace
