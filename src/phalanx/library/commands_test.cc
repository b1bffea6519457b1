// Commands in memory give what the program prints.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/library/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

class Commands : public testing::Test {
 protected:
  std::string program(const std::string& words, const std::string& input = "") const {
    return output_of_program(words, scratch_.path(), input);
  }
  const TemporaryDirectory scratch_{"commands"};
};

TEST_F(Commands, PlansAsTheProgramDoes) {
  const std::string expected = program("plan gpt --json" + words_of_flags(tiny_shape()));
  EXPECT_EQ(Answer(phalanx_plan(request_of(tiny_shape()).c_str())).text, expected);
  // The same as words; false and null leave flags out.
  Json words = {"gpt"};
  const Json shape = tiny_shape();
  for (const auto& [name, value] : shape.items()) {
    words.push_back("--" + name + "=" +
                    (value.is_string() ? value.get<std::string>() : value.dump()));
  }
  const Json request = {{"arguments", words}, {"flags", {{"bf16", false}, {"lr", nullptr}}}};
  EXPECT_EQ(Answer(phalanx_plan(request.dump().c_str())).text, expected);
  Json bf16 = tiny_shape();
  bf16["bf16"] = true;
  bf16["data_path"] = {0.5, "a", 0.5, "b"};
  EXPECT_EQ(
      Answer(phalanx_plan(request_of(bf16).c_str())).text,
      program("plan gpt --json --bf16 --data-path 0.5 a 0.5 b" + words_of_flags(tiny_shape())));
}

TEST_F(Commands, DrawsASchedule) {
  Json request = {
      {"flags", {{"kind", "1f1b"}, {"pipeline-size", 2}, {"microbatches", 4}, {"lowered", true}}}};
  const std::string words = "schedule --kind 1f1b --pipeline-size 2 --microbatches 4 ";
  const std::string expected = program(words + "--lowered --json");
  EXPECT_EQ(Answer(phalanx_schedule(request.dump().c_str())).text, expected);
  request["picture"] = true;
  Json drawn = Answer(phalanx_schedule(request.dump().c_str())).json();
  program(words + "--svg picture.svg");
  EXPECT_EQ(drawn["svg"].get<std::string>(), contents_of(scratch_.path() / "picture.svg"));
  drawn.erase("svg");
  EXPECT_EQ(drawn, Json::parse(expected));
  EXPECT_THAT(Answer(phalanx_schedule(R"({"picture": 1})")).error,
              HasSubstr("picture: 1 is neither true nor false"));
  // There is nothing to draw.
  EXPECT_EQ(Answer(phalanx_schedule(R"({"flags": {"list_kinds": true}, "picture": true})")).text,
            program("schedule --list-kinds --json"));
}

TEST_F(Commands, ListsAGrid) {
  EXPECT_EQ(
      Answer(phalanx_grid(R"({"flags": {"world-size": 8, "tensor_model_parallel_size": 2}})")).text,
      program("grid --world-size 8 --tensor-model-parallel-size 2 --json"));
}

TEST_F(Commands, RunsAnyOther) {
  const auto run = [](const Json& request) {
    return Answer(phalanx_command(request.dump().c_str())).json();
  };
  const std::string input = "3 1 4\n1 5\n";
  const Json tokenize = {
      {"command", {"tokenize"}},
      {"flags", {{"tokenizer_type", "NullTokenizer"}, {"vocab-size", 9}, {"lines", true}}},
      {"input", input}};
  const std::string printed =
      program("tokenize --tokenizer-type NullTokenizer --vocab-size 9 --lines", input);
  EXPECT_EQ(run(tokenize), Json({{"status", 0}, {"output", printed}}));
  // Nothing is read from the standard input of this process.
  Json no_input = tokenize;
  no_input.erase("input");
  EXPECT_EQ(run(no_input)["output"], "");
  EXPECT_EQ(run({{"command", {"help", "grid"}}})["output"], program("help grid"));
  EXPECT_EQ(run({{"command", {"completion"}}, {"arguments", {"bash"}}})["output"],
            program("completion bash"));
}

struct Log {
  std::mutex mutex;
  std::vector<std::pair<int, std::string>> lines;

  static void add(int level, const char* line, void* data) {
    auto& log = *static_cast<Log*>(data);
    const std::lock_guard lock(log.mutex);
    log.lines.emplace_back(level, line);
    // What it logs itself has no way back into it.
    if (log.lines.size() == 1) Answer(phalanx_plan(R"({"model": "gtp"})"));
  }
};

TEST_F(Commands, SayNotesToAFunction) {
  Json flags = tiny_shape();
  flags.erase("micro-batch-size");
  Log log;
  phalanx_set_log(Log::add, &log);
  const Answer answer = phalanx_plan(request_of(flags).c_str());
  phalanx_set_log(nullptr, nullptr);
  EXPECT_EQ(answer.code, 0) << answer.error;
  ASSERT_EQ(log.lines.size(), 1U);
  EXPECT_EQ(log.lines[0].first, 0);
  EXPECT_THAT(log.lines[0].second, HasSubstr("--micro-batch-size is not given"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(Answer(phalanx_plan(request_of(flags).c_str())).code, 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), log.lines[0].second + "\n");
  EXPECT_EQ(log.lines.size(), 1U);
}

}  // namespace
}  // namespace phalanx
