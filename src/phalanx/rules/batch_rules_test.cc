#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

using Words = std::vector<std::string>;
using Pieces = std::vector<BatchSchedule::Piece>;
using testing::AllOf;
using testing::HasSubstr;

TrainConfig config(std::int64_t ranks = 1) {
  TrainConfig c;
  c.layout.world_size = ranks;
  c.layout.micro_batch_size = 2;
  c.data.seq_length = 10;
  return c;
}

TrainConfig with_rampup(const Words& words, std::int64_t batch, std::int64_t ranks = 1) {
  TrainConfig c = config(ranks);
  c.layout.rampup_batch_size = words;
  c.layout.global_batch_size = batch;
  return c;
}

TrainConfig with_steps(const Words& words, std::int64_t batch = 0) {
  TrainConfig c = config();
  c.layout.step_batch_size_schedule = words;
  c.layout.global_batch_size = batch;
  return c;
}

std::string refusal(TrainConfig c) {
  return error_of<ConfigError>([&] { resolve_batch(c); });
}

TEST(BatchFlags, ARampIsJudged) {
  EXPECT_EQ(refusal(with_rampup({"4", "4", "60"}, 12)), "no error");
  for (const Words& words : {Words{"4", "4"},
                             {"4", "4", "60", "1"},
                             {"4", "x", "60"},
                             {"0", "4", "60"},
                             {"4", "4", "0"},
                             {"4", "-4", "60"},
                             {"4.5", "4", "60"}}) {
    EXPECT_THAT(refusal(with_rampup(words, 12)), HasSubstr("three whole numbers above 0"));
  }
  EXPECT_THAT(refusal(with_rampup({"4", "4", "60"}, 0)), HasSubstr("needs --global-batch-size"));
  EXPECT_THAT(refusal(with_rampup({"16", "4", "60"}, 12)),
              HasSubstr("begins above --global-batch-size 12"));
  EXPECT_THAT(refusal(with_rampup({"4", "6", "60"}, 12)),
              HasSubstr("from 4 it is 8 more, no multiple of 6"));
  EXPECT_THAT(refusal(with_rampup({"2", "2", "60"}, 40002)), HasSubstr("20000 steps"));
}

// The first batch that cannot be cut into microbatches is named, and what to change.
TEST(BatchFlags, EveryBatchIsAMultipleOfTheMicrobatches) {
  EXPECT_THAT(refusal(with_rampup({"4", "2", "60"}, 12, 2)),
              AllOf(HasSubstr("--rampup-batch-size 4 2 60"),
                    HasSubstr("the batch of 6 samples (after 15 samples) is not a multiple of 4: "
                              "--micro-batch-size 2 x 2 data-parallel ranks"),
                    HasSubstr("multiples of 4")));
  // 0 is no batch, so there may be one choice.
  const auto of_batch = [](std::int64_t batch) { return with_rampup({}, batch, 2); };
  EXPECT_THAT(refusal(of_batch(3)), HasSubstr("data-parallel ranks: 4 is (or give"));
  EXPECT_THAT(refusal(of_batch(6)), HasSubstr("data-parallel ranks: 4 or 8 is (or give"));
  TrainConfig rounded = with_rampup({"4", "2", "60"}, 12, 2);
  rounded.layout.decrease_batch_size_if_needed = true;
  EXPECT_EQ(refusal(rounded), "no error");
  EXPECT_EQ(batch_schedule(rounded).pieces(), (Pieces{{0, 4}, {30, 8}, {60, 12}}));
  rounded.layout.rampup_batch_size[0] = "2";
  EXPECT_THAT(refusal(rounded), HasSubstr("leaves nothing of it"));

  TrainConfig constant = config(2);
  constant.layout.global_batch_size = 10;
  EXPECT_THAT(refusal(constant), HasSubstr("8 or 12 is"));
  constant.layout.decrease_batch_size_if_needed = true;
  EXPECT_EQ(refusal(constant), "no error");
  EXPECT_EQ(batch_schedule(constant).last(), 8);
  EXPECT_EQ(num_microbatches(constant.layout), 2);
}

TEST(BatchFlags, StepsAreCountedInTokens) {
  for (const Words& words : {Words{"0:4 2.4K:8 1M:16"}, Words{"0:4", "2.4k:8", "1M:16"},
                             Words{"0:4,2400:8,1000000:16"}}) {
    TrainConfig c = with_steps(words);
    resolve_batch(c);
    EXPECT_EQ(batch_schedule(c).pieces(), (Pieces{{0, 4}, {240, 8}, {100000, 16}}));
    EXPECT_EQ(c.layout.global_batch_size, 16);
    resolve_batch(c);  // again, as a resumed run does
  }
  TrainConfig large = with_steps({"0:16 8.2B:320 0.3T:1536"});
  large.data.seq_length = 2048;
  resolve_batch(large);
  EXPECT_EQ(batch_schedule(large).pieces(), (Pieces{{0, 16}, {4003906, 320}, {146484375, 1536}}));
}

TEST(BatchFlags, StepsAreJudged) {
  for (const char* step : {"4", "0:", ":4", "0:x", "0:0", "0:4x", "x:4", "-1:4", "1e400:4"}) {
    EXPECT_THAT(refusal(with_steps({step})), HasSubstr("each step is TOKENS:BATCH")) << step;
  }
  EXPECT_THAT(refusal(with_steps({" "})), HasSubstr("TOKENS:BATCH"));
  EXPECT_THAT(refusal(with_steps({"10:4"})), HasSubstr("the first step must begin at 0"));
  EXPECT_THAT(refusal(with_steps({"0:4 100:8 100:16"})),
              HasSubstr("100:16: 100 tokens are 10 samples of --seq-length 10, and the step before "
                        "begins after 10"));
  EXPECT_THAT(refusal(with_steps({"0:4 100:8 109:16"})), HasSubstr("further and further on"));
  EXPECT_THAT(refusal(with_steps({"0:4 100:7"})), HasSubstr("the batch of 7 samples"));
  EXPECT_THAT(refusal(with_steps({"0:4 100:8"}, 16)), HasSubstr("leave the second out"));
  TrainConfig both = with_rampup({"4", "4", "60"}, 12);
  both.layout.step_batch_size_schedule = {"0:4"};
  EXPECT_THAT(refusal(both), HasSubstr("exclude each other"));
}

}  // namespace
}  // namespace phalanx
