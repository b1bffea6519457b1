// `phalanx grid` as people and scripts use it.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/paths.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

struct Output {
  int status = 0;
  std::string text;
};

enum class Stream { kOut, kError };

Output run_grid(const std::string& words, Stream stream = Stream::kOut) {
  const std::string command = "'" + program_path() + "' grid " + words +
                              (stream == Stream::kOut ? " 2>/dev/null" : " 2>&1 >/dev/null");
  std::FILE* pipe = ::popen(command.c_str(), "r");
  Output output;
  std::array<char, 4096> part;
  while (const std::size_t size = std::fread(part.data(), 1, part.size(), pipe)) {
    output.text.append(part.data(), size);
  }
  output.status = WEXITSTATUS(::pclose(pipe));
  return output;
}

constexpr const char* kSixteen =
    "--world-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 ";

TEST(GridCommand, TableOfSixteenRanks) {
  const Output output = run_grid(kSixteen);
  EXPECT_EQ(output.status, 0);
  EXPECT_EQ(output.text,
            R"(16 ranks: tensor 2 x context 1 x data 2 x pipeline 4; rank order tp-cp-ep-dp-pp

   rank    tp    cp    dp    pp
      0     0     0     0     0
      1     1     0     0     0
      2     0     0     1     0
      3     1     0     1     0
      4     0     0     0     1
      5     1     0     0     1
      6     0     0     1     1
      7     1     0     1     1
      8     0     0     0     2
      9     1     0     0     2
     10     0     0     1     2
     11     1     0     1     2
     12     0     0     0     3
     13     1     0     0     3
     14     0     0     1     3
     15     1     0     1     3

tp: tensor parallel; 8 groups of 2
  [0,1] [2,3] [4,5] [6,7] [8,9] [10,11] [12,13] [14,15]

cp: context parallel; every rank alone

dp: data parallel; 8 groups of 2
  [0,2] [1,3] [4,6] [5,7] [8,10] [9,11] [12,14] [13,15]

pp: pipeline parallel; 4 groups of 4
  [0,4,8,12] [1,5,9,13] [2,6,10,14] [3,7,11,15]

mp: model parallel, tensor x pipeline; 2 groups of 8
  [0,1,4,5,8,9,12,13] [2,3,6,7,10,11,14,15]

tp-dp: tensor x data; 4 groups of 4
  [0,1,2,3] [4,5,6,7] [8,9,10,11] [12,13,14,15]

tp-cp: tensor x context; 8 groups of 2
  [0,1] [2,3] [4,5] [6,7] [8,9] [10,11] [12,13] [14,15]

dp-cp: data x context, which reduces gradients; 8 groups of 2
  [0,2] [1,3] [4,6] [5,7] [8,10] [9,11] [12,14] [13,15]

embd: first and last stages, which share the word embedding; 4 groups of 2
  [0,12] [1,13] [2,14] [3,15]

pos_embd: first stages, which hold the position embedding; 4 groups of 1
  [0] [1] [2] [3]
)");
}

TEST(GridCommand, DocumentOfSixteenRanks) {
  const Output output = run_grid(std::string(kSixteen) + "--json");
  EXPECT_EQ(output.status, 0);
  EXPECT_EQ(Json::parse(output.text), Json::parse(R"({
    "world_size": 16,
    "order": "tp-cp-ep-dp-pp",
    "groups": {
      "tp": [[0,1],[2,3],[4,5],[6,7],[8,9],[10,11],[12,13],[14,15]],
      "cp": [[0],[1],[2],[3],[4],[5],[6],[7],[8],[9],[10],[11],[12],[13],[14],[15]],
      "dp": [[0,2],[1,3],[4,6],[5,7],[8,10],[9,11],[12,14],[13,15]],
      "pp": [[0,4,8,12],[1,5,9,13],[2,6,10,14],[3,7,11,15]],
      "mp": [[0,1,4,5,8,9,12,13],[2,3,6,7,10,11,14,15]],
      "tp-dp": [[0,1,2,3],[4,5,6,7],[8,9,10,11],[12,13,14,15]],
      "tp-cp": [[0,1],[2,3],[4,5],[6,7],[8,9],[10,11],[12,13],[14,15]],
      "dp-cp": [[0,2],[1,3],[4,6],[5,7],[8,10],[9,11],[12,14],[13,15]],
      "embd": [[0,12],[1,13],[2,14],[3,15]],
      "pos_embd": [[0],[1],[2],[3]]
    }
  })"));
}

TEST(GridCommand, ExpertsHaveGroupsOfTheirOwn) {
  const std::string words =
      "--world-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
      "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1 ";
  const Json groups = Json::parse(run_grid(words + "--json").text).at("groups");
  EXPECT_EQ(groups.at("ep"), Json::parse("[[0,1,2,3],[4,5,6,7],[8,9,10,11],[12,13,14,15]]"));
  EXPECT_EQ(groups.at("tp-ep"), groups.at("ep"));
  EXPECT_EQ(groups.at("etp").size(), 16U);
  EXPECT_EQ(groups.at("tp-ep-pp").size(), 2U);
  EXPECT_EQ(groups.at("edp"),
            Json::parse("[[0,4],[1,5],[2,6],[3,7],[8,12],[9,13],[10,14],[11,15]]"));
  const std::string table = run_grid(words).text;
  EXPECT_NE(table.find("to experts: expert tensor 1 x expert 4 x expert data 2 x pipeline 2\n"),
            std::string::npos);
  EXPECT_NE(table.find("\n     13     1     0     2     1     0     1     1\n"), std::string::npos)
      << table;
}

TEST(GridCommand, OrderOfTheRanks) {
  const auto document = [](const std::string& words) {
    return Json::parse(run_grid(kSixteen + words + " --json").text);
  };
  const Json mapping = document("--use-tp-pp-dp-mapping");
  EXPECT_EQ(mapping.at("order"), "tp-cp-ep-pp-dp");
  EXPECT_EQ(mapping.at("groups").at("pp"),
            Json::parse("[[0,2,4,6],[1,3,5,7],[8,10,12,14],[9,11,13,15]]"));
  EXPECT_EQ(document("--rank-order tp-pp-dp").at("groups"), mapping.at("groups"));
  EXPECT_EQ(document("--rank-order pp-dp-tp").at("groups").at("pp"),
            Json::parse("[[0,1,2,3],[4,5,6,7],[8,9,10,11],[12,13,14,15]]"));
}

TEST(GridCommand, LargeWorldsStayWithinTheLine) {
  const Output output = run_grid(
      "--world-size 3072 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 64");
  EXPECT_EQ(output.status, 0);
  std::istringstream lines(output.text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  EXPECT_LE(longest, 100U);
  EXPECT_NE(output.text.find("[0,48,..,3024]"), std::string::npos);
  EXPECT_NE(output.text.find("[0..47]"), std::string::npos);
  EXPECT_NE(output.text.find("[0..7,48..55,"), std::string::npos);
}

TEST(GridCommand, ErrorsNameTheFlags) {
  const auto expect_error = [](const std::string& words, int status, const std::string& mention) {
    const Output output = run_grid(words, Stream::kError);
    EXPECT_EQ(output.status, status) << words;
    EXPECT_NE(output.text.find(mention), std::string::npos) << words << "\n" << output.text;
    EXPECT_EQ(std::count(output.text.begin(), output.text.end(), '\n'), 1) << output.text;
    EXPECT_EQ(run_grid(words).text, "") << words;
  };
  expect_error("", 64, "--world-size");
  expect_error("--world-size x", 64, "--world-size");
  expect_error("--world-size 0", 78, "--world-size 0: must be at least 1");
  expect_error("--world-size 16 --tensor-model-parallel-size 3", 78,
               "--world-size 16 is not a multiple of --tensor-model-parallel-size 3");
  expect_error("--world-size 16 --expert-model-parallel-size 3", 78,
               "--expert-model-parallel-size 3");
  expect_error("--world-size 16 --rank-order tp-up", 78, "--rank-order tp-up: \"up\" is no axis");
  expect_error("--world-size 16 --rank-order tp-pp", 78, "dp is missing, and its size is 16");
  expect_error("--world-size 16 --rank-order tp-dp-pp --use-tp-pp-dp-mapping", 78,
               "--use-tp-pp-dp-mapping and --rank-order tp-dp-pp");
  expect_error(
      "--world-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
      "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --use-tp-pp-dp-mapping",
      78, "ends with pp");
  EXPECT_NE(run_grid("--help").text.find("--rank-order"), std::string::npos);
}

// Megatron-core's groups for an encoder with fewer tensor ranks than its decoder.
TEST(GridCommand, AnEncoderWithSizesOfItsOwn) {
  const std::string flags =
      "--world-size 6 --tensor-model-parallel-size 2 --encoder-pipeline-model-parallel-size 1 "
      "--encoder-tensor-model-parallel-size 1 ";
  const Output output = run_grid(flags + "--json");
  ASSERT_EQ(output.status, 0);
  const Json document = Json::parse(output.text);
  EXPECT_EQ(document.at("groups").at("pp").dump(), "[[0,2],[1,3],[0,4],[1,5]]");
  EXPECT_EQ(document.at("groups").at("mp").dump(), "[[0,2,3],[1,4,5]]");
  EXPECT_EQ(document.at("split_rank"), 1);
  EXPECT_EQ(document.at("encoder_outputs").dump(),
            R"([{"from":0,"gradient_from":2,"to":[2,3]},{"from":1,"gradient_from":4,"to":[4,5]}])");
  const Output text = run_grid(flags);
  for (const char* part :
       {"6 ranks: decoder tensor 2 x context 1 x data 2 x pipeline 1; rank order tp-cp-ep-dp-pp\n",
        "encoder: tensor 1 x context 1 x data 2 x pipeline 1, stage 0; decoder: stage 1\n",
        "      1     0     0     1     0  encoder\n", "      5     1     0     1     1  decoder\n",
        "tp: tensor parallel; 4 groups of 1 and 2\n", "  0 > 2,3\n", "pipelines mix replicas"}) {
    EXPECT_NE(text.text.find(part), std::string::npos) << part << " is not in\n" << text.text;
  }
  EXPECT_EQ(run_grid("--world-size 7 --encoder-pipeline-model-parallel-size 2").status, 78);
}

TEST(GridCommand, ASplitRank) {
  const Output output = run_grid(
      "--world-size 4 --pipeline-model-parallel-size 4 "
      "--pipeline-model-parallel-split-rank 2 --json");
  const Json document = Json::parse(output.text);
  EXPECT_EQ(document.at("groups").at("embd").dump(), "[[0,2,3]]");
  EXPECT_EQ(document.at("groups").at("pos_embd").dump(), "[[0,2]]");
  EXPECT_EQ(document.at("split_rank"), 2);
  EXPECT_FALSE(document.contains("encoder_outputs"));
}

}  // namespace
}  // namespace phalanx
