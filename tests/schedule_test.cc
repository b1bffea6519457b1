// `phalanx schedule` as people and scripts use it, and docs/schedules.md, which it draws.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "phalanx/base/test_support.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

struct Output {
  int status = 0;
  std::string out;
  std::string err;
};

class ScheduleTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string read(const std::string& name) const {
    std::ifstream file(directory_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Output run(const std::string& words) const {
    return run_command("'" + program_path() + "' schedule " + words);
  }
  Output run_command(const std::string& command) const {
    const int status =
        std::system((command + " >'" + path("out") + "' 2>'" + path("err") + "'").c_str());
    return {.status = WEXITSTATUS(status), .out = read("out"), .err = read("err")};
  }
  Json run_json(const std::string& words) const {
    const Output output = run(words + " --json");
    EXPECT_EQ(output.status, 0) << words << ": " << output.err;
    return Json::parse(output.out);
  }
  void expect_error(const std::string& words, int status, const std::string& part) const {
    const Output output = run(words);
    EXPECT_EQ(output.status, status) << words << ": " << output.err;
    EXPECT_EQ(output.out, "") << words;
    EXPECT_NE(output.err.find(part), std::string::npos) << words << ": " << output.err;
  }

  const TemporaryDirectory temporary_{"schedule"};
  const std::filesystem::path directory_ = temporary_.path();
};

constexpr const char* kSize = " --pipeline-size 4 --microbatches 8 ";

TEST_F(ScheduleTest, OneDocument) {
  const Json schedule = run_json(std::string("--kind zb-v") + kSize);
  EXPECT_EQ(schedule.at("makespan"), 51);
  EXPECT_EQ(schedule.at("span"), 48);
  EXPECT_EQ(schedule.at("ranks").at(3).at(2), "F1.0");
  EXPECT_FALSE(schedule.contains("programs"));
  const Json lowered = run_json(std::string("--kind zb-v --lowered") + kSize);
  EXPECT_EQ(lowered.at("programs").size(), 4U);
  EXPECT_EQ(lowered.at("programs").at(3).at(0), "receive act 0.0 from 2");
}

TEST_F(ScheduleTest, FlagsReachTheSchedule) {
  EXPECT_EQ(run_json(std::string("--kind hanayo --waves 2") + kSize).at("chunks"), 4);
  EXPECT_EQ(run_json(std::string("--kind interleaved --chunks 3") + kSize).at("chunks"), 3);
  EXPECT_EQ(run_json("--kind interleaved --pipeline-size 4 --microbatches 10 "
                     "--microbatch-group-size-per-virtual-pipeline-stage 4")
                .at("makespan"),
            79);
  EXPECT_EQ(run_json("--kind interleaved --pipeline-size 4 --microbatches 10").at("makespan"), 69);
  EXPECT_EQ(run_json(std::string("--kind zb-h1 --costs 2,3,1") + kSize).at("ideal"), 48);
  // The second stage takes twice as long: 1, then 4 x 6, then 2.
  const Json uneven =
      run_json("--kind 1f1b --pipeline-size 2 --microbatches 4 --costs 1,1,1/2,2,2");
  EXPECT_EQ(uneven.at("makespan"), 27);
  EXPECT_EQ(uneven.at("costs").at("f"), 1.5);
  EXPECT_EQ(uneven.at("costs").at("stages").at(1).at("w"), 2);
  EXPECT_EQ(run_json(std::string("--kind eager-1f1b --latency 1") + kSize).at("makespan"), 39);
  EXPECT_EQ(run_json(std::string("--kind pipedream-2bw --microbatches-per-update 8") + kSize)
                .at("update"),
            "double-buffered");
}

TEST_F(ScheduleTest, AnEncoderAndADecoder) {
  const std::string split = std::string("--pipeline-model-parallel-split-rank 3") + kSize;
  const Json even = run_json("--kind 1f1b " + split);
  EXPECT_EQ(even.at("split_rank"), 3);
  EXPECT_EQ(even.at("stacks").at(3), "decoder");
  EXPECT_EQ(even.at("makespan"), 33);
  // The decoder's only stage works for as long as all of the encoder's together.
  const Json uneven = run_json("--kind 1f1b --costs 3,3,3 --encoder-costs 1,1,1 " + split);
  EXPECT_EQ(uneven.at("costs").at("stages").at(2).at("f"), 1);
  EXPECT_EQ(uneven.at("costs").at("stages").at(3).at("f"), 3);
  EXPECT_EQ(uneven.at("ideal"), 72);
  EXPECT_EQ(uneven.at("makespan"), 3 + 72 + 6);
  EXPECT_EQ(run_json("--kind backward-first " + split).at("chunks"), 1);
  const Output text = run("--kind zb-h1 --split-rank 3 --encoder-costs 2,2,2" + std::string(kSize));
  EXPECT_NE(text.out.find("encoder on 3 ranks, decoder on 1, 8 microbatches; stages 0 to 2: F 2, B "
                          "2, W 2; F 1, B 1, W 1"),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("\nencoder "), std::string::npos) << text.out;
  for (const Json& kind : run_json("--list-kinds").at("kinds")) {
    if (kind.at("runs_encoder_decoder").get<bool>()) continue;
    expect_error("--kind " + kind.at("kind").get<std::string>() + " " + split, 78,
                 "cannot run an encoder and a decoder");
  }
  expect_error(std::string("--kind 1f1b --split-rank 4") + kSize, 78, "below --pipeline-size 4");
  expect_error(std::string("--kind 1f1b --encoder-costs 1,1,1") + kSize, 78,
               "--pipeline-model-parallel-split-rank");
  expect_error("--kind 1f1b --encoder-costs 1,1 " + split, 64, "--encoder-costs 1,1");
  expect_error("--kind backward-first --chunks 2 " + split, 78, "1 chunk on every rank");
}

TEST_F(ScheduleTest, TextIsTheDefault) {
  const Output text = run(std::string("--kind 1f1b") + kSize);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("rank 3  ...FB-FB-"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("makespan 33,"), std::string::npos) << text.out;
  const Output check = run(std::string("--kind 1f1b --check-only") + kSize);
  EXPECT_EQ(check.out.find('\n'), check.out.size() - 1) << check.out;
  const Output lowered = run(std::string("--kind 1f1b --lowered") + kSize);
  EXPECT_EQ(lowered.out.substr(0, 8), "rank 0:\n");
  const Output kinds = run("--list-kinds");
  EXPECT_NE(kinds.out.find("zb-interleaved"), std::string::npos) << kinds.out;
  EXPECT_GE(run_json("--list-kinds").at("kinds").size(), 17U);
}

TEST_F(ScheduleTest, WritesAPictureAndATrace) {
  const Output output = run(std::string("--kind dualpipe --svg '") + path("a.svg") + "' --trace '" +
                            path("a.json") + "'" + kSize);
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(read("a.svg").substr(0, 5), "<svg ");
  const Json events = Json::parse(read("a.json")).at("traceEvents");
  double last = 0.0;
  int passes = 0;
  for (const Json& event : events) {
    if (event.at("ph") != "X") continue;
    ++passes;
    last = std::max(last, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  EXPECT_EQ(last, 25e3) << "a unit of time is a millisecond";
  std::size_t expected = 0;
  const Json schedule = run_json(std::string("--kind dualpipe") + kSize);
  for (const Json& rank : schedule.at("ranks")) expected += rank.size();
  EXPECT_EQ(static_cast<std::size_t>(passes), expected);
  run(std::string("--kind zb-h2 --parallelogram --svg '") + path("b.svg") + "'" + kSize);
  EXPECT_NE(read("b.svg").find("from its own first pass"), std::string::npos);
}

TEST_F(ScheduleTest, WrongWordsAreOneClearError) {
  expect_error("--pipeline-size 4 --microbatches 8", 64, "--kind");
  expect_error("--kind 1f1b --microbatches 8", 64, "--pipeline-size");
  expect_error(std::string("--kind 2f2b") + kSize, 78, "zb-interleaved");
  expect_error("--kind 1f1b --pipeline-size 0 --microbatches 8", 78, "--pipeline-size 0");
  expect_error("--kind dualpipe --pipeline-size 3 --microbatches 8", 78, "even");
  expect_error(std::string("--kind zb-v --chunks 3") + kSize, 78, "2 chunks");
  expect_error(std::string("--kind zb-v --waves 1") + kSize, 64, "hanayo");
  expect_error(std::string("--kind hanayo --waves 1 --chunks 2") + kSize, 78, "--chunks");
  expect_error(std::string("--kind gpipe --microbatches-per-update 2") + kSize, 64,
               "pipedream-2bw");
  expect_error(std::string("--kind 1f1b --costs 1,x,1") + kSize, 64, "--costs 1,x,1");
  expect_error(std::string("--kind 1f1b --costs 1,1,1/2,2,2") + kSize, 64,
               "--costs has the times of 2 stages, the pipeline has 4");
  expect_error(std::string("--kind 1f1b --costs 1,1,1/2,2") + kSize, 64, "give three times");
  expect_error(std::string("--kind 1f1b --costs 1,0,1") + kSize, 64, "--costs 1,0,1");
  expect_error(std::string("--kind 1f1b --latency -1") + kSize, 78, "--latency");
  expect_error(std::string("--kind 1f1b --json --text") + kSize, 64, "--json");
  expect_error("--kind 1f1b --pipeline-size 100000 --microbatches 100000", 64, "too many");
  expect_error(std::string("--kind 1f1b --svg nowhere/a.svg") + kSize, 73, "nowhere/a.svg");
}

TEST_F(ScheduleTest, UnsoundSchedulesAreRefused) {
  expect_error(std::string("--kind 1f1b --memory-limit 3") + kSize, 78, "limit");
  expect_error(
      "--kind interleaved --pipeline-size 3 --microbatches 3 "
      "--microbatch-group-size-per-virtual-pipeline-stage 1",
      78, "waits for");
  expect_error(std::string("--kind pipedream-2bw --microbatches-per-update 2") + kSize, 78,
               "version");
}

// Every number and picture of the page is what this program says.
TEST_F(ScheduleTest, TheDocumentIsUpToDate) {
  const Output output = run_command("'" + source_path("tools/draw-schedules").string() +
                                    "' --check '" + program_path() + "'");
  EXPECT_EQ(output.status, 0) << output.out << output.err
                              << "run tools/draw-schedules and look at what it changed";
}

}  // namespace
}  // namespace phalanx
