// Whole runs with ZeRO, which also resume under another stage.

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"
#include "phalanx/watch/replica_check.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

constexpr Layout kPlain{.name = "d2", .data = 2};
constexpr Layout kFirst{.name = "d2-zero1", .data = 2, .sharded = true};
constexpr Layout kSecond{.name = "d2-zero2", .data = 2, .overlaps = true, .zero = 2};
constexpr Layout kThird{.name = "d2-zero3", .data = 2, .zero = 3};
constexpr Layout kThirdOverlapped{
    .name = "d2-zero3-overlap", .data = 2, .overlaps = true, .zero = 3, .stays_below = 100};
constexpr Layout kTwoCopies{.name = "d4-zero3-x2", .data = 4, .zero = 3, .copies = 2};
constexpr Layout kCut{.name = "t2-sp-d2-zero3",
                      .tensor = 2,
                      .data = 2,
                      .sequence = true,
                      .overlaps = true,
                      .zero = 3};

class ZeroRunTest : public RunTest {
 protected:
  // One sample at a time: on two data-parallel ranks a step is two microbatches.
  TrainConfig config(const Layout& layout) const { return config(layout, layout.name); }
  TrainConfig config(const Layout& layout, const std::string& save) const {
    return with_layout(with_flags(RunTest::config(save), "--micro-batch-size 1"), layout);
  }
};

TEST_F(ZeroRunTest, ResumesInTheSameStageBitwise) {
  for (const Layout& layout : {kSecond, kThird, kThirdOverlapped, kTwoCopies}) {
    SCOPED_TRACE(layout.name);
    std::filesystem::remove_all(path("parts"));
    expect_resume_is_bitwise(config(layout));
  }
}

TEST_F(ZeroRunTest, ResumesInTheSameStageBitwiseInBf16) {
  expect_resume_is_bitwise(
      with_flags(config(kCut), "--bf16 --recompute-granularity full --recompute-method uniform"));
}

// Evaluations between them included.
TEST_F(ZeroRunTest, StagesOfOneMicrobatchAreOneRun) {
  for (const bool bf16 : {false, true}) {
    const auto config_of = [&](const Layout& layout) {
      TrainConfig c = with_flags(config(layout), "--micro-batch-size 2");
      c.model.bf16 = bf16;
      return c;
    };
    train(config_of(kPlain));
    for (const Layout& layout : {kFirst, kSecond, kThird, kThirdOverlapped}) {
      train(config_of(layout));
      const auto found = difference(kPlain.name, layout.name);
      EXPECT_TRUE(found.tensors_equal()) << layout.name << "\n" << to_text(found);
      ASSERT_EQ(metrics(layout.name).size(), metrics(kPlain.name).size());
      for (std::size_t i = 0; i < metrics(kPlain.name).size(); ++i) {
        EXPECT_EQ(metrics(layout.name)[i].at("lm_loss"), metrics(kPlain.name)[i].at("lm_loss"));
      }
      EXPECT_EQ(metric(layout.name, "grad_norm"), metric(kPlain.name, "grad_norm"));
    }
  }
}

// A checkpoint does not depend on the ZeRO stage.
TEST_F(ZeroRunTest, ResumesInAnotherStage) {
  train(with_flags(config(kPlain), "--micro-batch-size 2"));
  for (const auto& [first, second] :
       {std::pair{kPlain, kThird}, std::pair{kThird, kPlain}, std::pair{kFirst, kSecond},
        std::pair{kSecond, kThirdOverlapped}, std::pair{kThirdOverlapped, kFirst}}) {
    const std::string save = fmt::format("{}-to-{}", first.name, second.name);
    train_and_change(with_flags(config(first, save), "--micro-batch-size 2"), second);
    const auto found = difference(kPlain.name, save);
    EXPECT_TRUE(found.tensors_equal()) << save << "\n" << to_text(found);
  }
}

TEST_F(ZeroRunTest, ResumesOnOtherRanks) {
  train(config({}, "one"));
  for (const auto& [first, second] :
       {std::pair{Layout{}, kCut}, std::pair{kCut, kTwoCopies}, std::pair{kTwoCopies, Layout{}}}) {
    const std::string save = fmt::format("{}-to-{}", first.name, second.name);
    train_and_change(config(first, save), second);
    expect_near(save, "one", "lm_loss", 1e-5);
    expect_near(save, "one", "grad_norm", 1e-4);
  }
}

// Whole weights are compared over all ranks, cut weights over the copies.
TEST_F(ZeroRunTest, CopiesOfPartsAreCompared) {
  TrainConfig c = with_flags(
      config(kTwoCopies, "run"),
      "--zero-persistence-threshold 32 --check-weight-hash-across-dp-replicas-interval 2");
  train(c);
  const RunSetup setup(c);
  const auto compare = [&](int rank_of_fault, const std::string& name) {
    run_ranks(setup.config, *setup.model, [&](Rank& rank) {
      rank.initialise();
      const bool is_it = rank.ranks().world->rank() == rank_of_fault;
      bool is_done = false;
      for (const Segment& segment : rank.parameters().states().segments()) {
        if (!is_it || is_done || rank.table()[segment.id].name != name) continue;
        is_done = true;
        ops::fill(rank.context(),
                  {.x = rank.parameters().weight(segment).slice(0, 1, 1), .value = 0.125});
      }
      EXPECT_EQ(is_it, is_done);
      check_replicas(rank, setup.places, 12, [] { return std::string(); });
    });
  };
  compare(-1, "");
  for (const char* name :
       {"decoder.layers.0.input_layernorm.bias", "decoder.layers.0.mlp.linear_fc2.weight"}) {
    EXPECT_THAT(
        error_of(ErrorCode::kTemporary, [&] { compare(2, name); }),
        HasSubstr(std::string("after iteration 12: rank 2 (tp 0, pp 0, dp 2) has other bits of ") +
                  name));
  }
}

TEST_F(ZeroRunTest, RanksWithOtherPartsAreNotCompared) {
  train(with_flags(config(kThird, "run"), "--check-weight-hash-across-dp-replicas-interval 2"));
}

}  // namespace
}  // namespace phalanx
