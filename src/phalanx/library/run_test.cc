// Runs: what they tell, how they are stopped, and that they compute what the program computes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cfenv>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/digest.h"
#include "phalanx/library/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

// What a run told.
struct Told {
  std::vector<std::pair<std::string, std::string>> events;
  std::int64_t stops_after = -1;  // iteration
  phalanx_stop* stop = nullptr;   // asked, instead of the function's result
  std::thread::id caller = std::this_thread::get_id();

  static int add(const char* type, const char* text, void* data) {
    auto& told = *static_cast<Told*>(data);
    told.events.emplace_back(type, text);
    EXPECT_NE(std::this_thread::get_id(), told.caller);
    const bool stops = told.events.back().first == "iteration" &&
                       Json::parse(text)["iteration"] == told.stops_after;
    if (stops && told.stop != nullptr) phalanx_stop_request(told.stop);
    return stops && told.stop == nullptr ? 1 : 0;
  }
  std::vector<std::string> types() const {
    std::vector<std::string> types;
    for (const auto& [type, text] : events) types.push_back(type);
    return types;
  }
  std::string metrics() const {
    std::string lines;
    for (const auto& [type, text] : events) {
      if (type == "iteration" || type == "evaluation") lines += text + "\n";
    }
    return lines;
  }
};

class Runs : public testing::Test {
 protected:
  // Lines of the log are not for the test's output.
  Runs() {
    phalanx_set_log([](int, const char*, void*) {}, nullptr);
  }
  ~Runs() override { phalanx_set_log(nullptr, nullptr); }

  Json flags(const std::string& save, const Json& others = Json::object()) const {
    Json result = tiny_flags(data_);
    result["save"] = scratch_ / save;
    result["load"] = scratch_ / save;
    result["save-interval"] = 6;
    result.update(others);
    return result;
  }
  static Json run(const Json& flags, Told& told) {
    return Answer(phalanx_run(request_of(flags).c_str(), Told::add, &told, told.stop)).json();
  }
  // Of every tensor.
  std::string digest(const std::string& save) const {
    return to_json(digest_checkpoint(CheckpointReader::open(scratch_ / save)));
  }

  const TemporaryDirectory scratch_{"runs"};
  const std::string data_ = write_tiny_data(scratch_.path());
};

Json ended(const char* end, std::int64_t iteration) {
  return {{"end", end}, {"iteration", iteration}, {"consumed_samples", 4 * iteration}};
}

// The caller's mode of floating point is none of the run's.
TEST_F(Runs, TellWhatTheyDoAndGoOnWithTheBitsOfTheProgram) {
  output_of_program("pretrain gpt" + words_of_flags(flags("program")), scratch_.path());
  Told first;
  first.stops_after = 2;
  first.stop = phalanx_stop_new();
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  EXPECT_EQ(run(flags("parts"), first), ended("preempted", 2));
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  phalanx_stop_free(first.stop);
  Told second;  // the function asks by its result
  second.stops_after = 4;
  EXPECT_EQ(run(flags("parts"), second), ended("preempted", 4));
  Told rest;
  EXPECT_EQ(run(flags("parts"), rest), ended("finished", 6));
  EXPECT_EQ(digest("parts"), digest("program"));

  EXPECT_EQ(first.types(),
            (std::vector<std::string>{"begin", "iteration", "iteration", "note", "note", "end"}));
  const auto types = rest.types();
  EXPECT_EQ(types.front(), "begin");
  EXPECT_EQ(types.back(), "end");
  EXPECT_EQ(std::ranges::count(types, "iteration"), 2);
  EXPECT_EQ(std::ranges::count(types, "evaluation"), 3);
  EXPECT_EQ(first.metrics() + second.metrics() + rest.metrics(),
            contents_of(scratch_.path() / "parts/metrics.jsonl"));
  const Json begin = Json::parse(rest.events.front().second);
  EXPECT_EQ(begin["iteration"], 4);
  EXPECT_EQ(begin["last_iteration"], 6);
  EXPECT_EQ(begin["arguments"]["--seq-length"], "16");
  EXPECT_EQ(Json::parse(first.events.back().second)["outcome"], "preempted");
  EXPECT_EQ(Json::parse(rest.events.back().second)["outcome"], "finished");
}

TEST_F(Runs, AreStoppedBeforeTheyBegin) {
  Told told;
  told.stop = phalanx_stop_new();
  phalanx_stop_request(told.stop);
  EXPECT_EQ(run(flags("none"), told)["end"], "preempted");
  phalanx_stop_free(told.stop);
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "none/metrics.jsonl") &&
               !contents_of(scratch_.path() / "none/metrics.jsonl").empty());
}

TEST_F(Runs, WithoutADirectoryKeepNothing) {
  Told told;
  told.stops_after = 1;
  EXPECT_EQ(run(tiny_flags(data_), told), ended("stopped", 1));
}

TEST_F(Runs, GoOnBesideEachOther) {
  std::array<Json, 2> ends;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      threads.emplace_back([&, i] {
        Told told;
        ends[i] = run(flags(i == 0 ? "left" : "right", {{"nproc", 2}, {"eval-iters", 0}}), told);
      });
    }
  }
  EXPECT_EQ(ends[0], ended("finished", 6));
  EXPECT_EQ(ends[1], ends[0]);
  EXPECT_EQ(digest("left"), digest("right"));
  // Two in one directory: the second is refused.
  Told told;
  told.stops_after = 6;
  const Answer again = phalanx_run(request_of(flags("left", {{"load", nullptr}})).c_str(), nullptr,
                                   nullptr, nullptr);
  EXPECT_EQ(again.code, 78) << again.error;
  EXPECT_THAT(again.error, HasSubstr("left"));
}

}  // namespace
}  // namespace phalanx
