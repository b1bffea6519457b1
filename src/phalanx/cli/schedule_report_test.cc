#include "phalanx/cli/schedule_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

ScheduleReport report_of(std::string_view kind, int ranks, int microbatches) {
  return report_on_schedule(kind, {.ranks = ranks, .microbatches = microbatches});
}

std::vector<std::string> keys_of(const Json& document) {
  std::vector<std::string> keys;
  for (const auto& item : document.items()) keys.push_back(item.key());
  return keys;
}

TEST(ScheduleReportTest, TheDocumentHasItsKeysInOrder) {
  const Json document = Json::parse(to_json(report_of("1f1b", 4, 8), false));
  EXPECT_EQ(keys_of(document), (std::vector<std::string>{"kind",
                                                         "pipeline_size",
                                                         "microbatches",
                                                         "chunks",
                                                         "costs",
                                                         "makespan",
                                                         "span",
                                                         "ideal",
                                                         "idle_fraction",
                                                         "bubble_over_ideal",
                                                         "span_bubble",
                                                         "peak_freed_at_b",
                                                         "peak_freed_at_w",
                                                         "lower_bound",
                                                         "messages",
                                                         "update",
                                                         "trainable",
                                                         "training_obstacle",
                                                         "ranks",
                                                         "timeline"}));
  EXPECT_EQ(document["costs"].dump(), R"({"f":1,"b":1,"w":1,"latency":0})");
  EXPECT_EQ(document["makespan"].dump(), "33") << "whole numbers have no point";
  EXPECT_EQ(document["bubble_over_ideal"], 0.375);
  EXPECT_EQ(document["span_bubble"], 9.0 / 33.0);
  EXPECT_EQ(document["peak_freed_at_b"].dump(), "[4,3,2,1]");
  EXPECT_EQ(document["lower_bound"], 33);
  EXPECT_EQ(document["messages"], 48);
  EXPECT_EQ(document["update"], "flush");
  EXPECT_EQ(document["trainable"], true);
  EXPECT_EQ(document["training_obstacle"], nullptr);
  EXPECT_EQ(document["ranks"][3][1], "B0.0");
  EXPECT_EQ(document["ranks"][3].size(), 16U) << "passes alone";
  EXPECT_EQ(document["timeline"][3][1].dump(), R"(["B0.0",4,6])");
}

TEST(ScheduleReportTest, CopiesOfTheModelAreNoChunks) {
  const Json document = Json::parse(to_json(report_of("dualpipe", 4, 8), false));
  EXPECT_EQ(document["chunks"], 1);
  EXPECT_EQ(document["lower_bound"], nullptr);
  EXPECT_EQ(document["atomic_makespan"], 26);
  EXPECT_EQ(document["trainable"], false);
  EXPECT_TRUE(document["training_obstacle"].is_string());
  EXPECT_EQ(document["ranks"][0][3], "F0.0u");
  EXPECT_EQ(Json::parse(to_json(report_of("zb-v", 4, 8), false))["chunks"], 2);
}

TEST(ScheduleReportTest, ProgramsHaveMessagesAndUpdates) {
  const Json document = Json::parse(to_json(report_of("1f1b", 2, 1), true));
  EXPECT_EQ(document["programs"][1].dump(),
            R"(["receive act 0.0 from 0","F0.0","B0.0","send grad 0.0 to 0","reduce.0",)"
            R"("sent grad 0.0 to 0","step","gather"])");
  const std::string text = programs_text(report_of("1f1b", 2, 8));
  EXPECT_EQ(text.substr(0, 27), "rank 0:\n  F0.0, send act 0.");
  EXPECT_NE(text.find("gather\nrank 1:\n  receive act 0.0 from 0,"), std::string::npos) << text;
  EXPECT_EQ(text.find(",\n\n"), std::string::npos);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    EXPECT_LE(end - begin, 100U);
    begin = end + 1;
  }
}

TEST(ScheduleReportTest, CostsAreNamedInTheTitleAndRead) {
  const ScheduleReport report = report_on_schedule(
      "gpipe",
      {.ranks = 2, .microbatches = 2, .costs = {.stages = {{1.5, 2, 0.25}}, .latency = 0.5}});
  EXPECT_EQ(picture_of(report, false).title,
            "gpipe: 2 ranks, 2 microbatches; F 1.5, B 2, W 0.25, latency 0.5");
  const Json document = Json::parse(to_json(report, false));
  EXPECT_EQ(document["costs"].dump(), R"({"f":1.5,"b":2,"w":0.25,"latency":0.5})");
  EXPECT_EQ(document["ideal"], 7.5);
  // Three slots of each pass and two messages.
  EXPECT_EQ(document["makespan"], 12.25);
}

TEST(ScheduleReportTest, MeasuresForPeople) {
  EXPECT_EQ(measures_text(report_of("zb-h1", 4, 8)),
            "makespan 27, longest span of a rank 27, ideal 24\n"
            "bubble: 11.11 % of the time idle; 0.1250 of the ideal; 0.1111 of the span\n"
            "activations held at most: 4 3 2 1 freed at b; 4 on every rank freed at w\n"
            "lower bound 27; 48 messages\n"
            "can be used for training");
  const std::string two_copies = measures_text(report_of("dualpipe", 4, 8));
  EXPECT_NE(two_copies.find("\nmakespan with pairs as one piece of work 26; 48 messages\n"),
            std::string::npos)
      << two_copies;
  EXPECT_NE(two_copies.find("\ncannot be used for training: "), std::string::npos) << two_copies;
  const std::string many = measures_text(report_of("1f1b", 24, 48));
  EXPECT_NE(many.find("activations held at most: 1 to 24, by rank\n"), std::string::npos) << many;
  EXPECT_EQ(check_text(report_of("zb-v", 2, 4)),
            "zb-v: 2 ranks, 4 microbatches, 2 chunks of every rank: 48 passes verified, 16 "
            "messages, at most 4 activations on a rank, makespan 25, 4.00 % idle\n");
}

TEST(ScheduleReportTest, TheMemoryLimitCountsHalfOfWhatWaitsForW) {
  const auto fits = [](std::string_view kind, double limit) {
    try {
      report_on_schedule(kind, {.ranks = 4, .microbatches = 8, .memory_limit = limit});
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  };
  EXPECT_FALSE(fits("1f1b", 3.0));
  EXPECT_TRUE(fits("1f1b", 4.0));
  // What is found within a limit is accepted within it.
  EXPECT_TRUE(fits("auto", 4.5));
  EXPECT_FALSE(fits("auto", 0.5));
}

TEST(ScheduleReportTest, EveryKindIsListedOnce) {
  const Json kinds = Json::parse(kinds_json())["kinds"];
  EXPECT_EQ(kinds.size(), schedule_kinds().size());
  EXPECT_EQ(kinds[0]["kind"], "naive");
  std::string updates;
  for (const auto& kind : kinds) {
    if (kind["update"] != "flush") updates += kind["update"].get<std::string>() + " ";
    EXPECT_NE(kinds_text().find(kind["summary"].get<std::string>() + "\n"), std::string::npos);
  }
  EXPECT_EQ(updates, "per-microbatch double-buffered ");
}

// Between the two stages of the decoder every microbatch has a message each way with two tensors.
TEST(ScheduleReportTest, OfAnEncoderAndADecoder) {
  const ScheduleReport report =
      report_on_schedule("1f1b", {.ranks = 4, .microbatches = 8, .split = 2});
  const Json document = Json::parse(to_json(report, false));
  EXPECT_EQ(document["messages"], 48);
  EXPECT_EQ(document["two_stream_messages"], 16);
  EXPECT_EQ(document["split_rank"], 2);
  EXPECT_EQ(document["stacks"].dump(), R"(["encoder","encoder","decoder","decoder"])");
  EXPECT_NE(measures_text(report).find("48 messages, 16 of them with the encoder's output"),
            std::string::npos);
  const TimelinePicture picture = picture_of(report, false);
  EXPECT_EQ(picture.split, 2);
  EXPECT_EQ(picture.title, "1f1b: encoder on 2 ranks, decoder on 2, 8 microbatches; F 1, B 1, W 1");
  // A decoder on the last rank alone hands nothing on.
  const ScheduleReport last =
      report_on_schedule("zb-h1", {.ranks = 4, .microbatches = 8, .split = 3});
  EXPECT_EQ(two_stream_messages_of(last), 0U);
}

}  // namespace
}  // namespace phalanx
