#include "phalanx/rank/reading_ahead.h"

#include <gmock/gmock.h>

#include <string>

#include "phalanx/base/error.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

class ReadingAheadTest : public RunTest {
 protected:
  TrainConfig config(const std::string& save, std::int64_t workers) const {
    TrainConfig c = with_flags(RunTest::config(save), "--micro-batch-size 1");
    c.model.attention_dropout = c.model.hidden_dropout = 0.1;
    c.data.num_workers = workers;
    return c;
  }
  void expect_same_run(const std::string& found, const std::string& expected) const {
    for (const char* key : {"iteration", "consumed_samples", "lm_loss", "grad_norm"}) {
      EXPECT_EQ(metric(found, key), metric(expected, key)) << key << " of " << found;
    }
    EXPECT_TRUE(equal(found, expected)) << found;
  }
};

// With growing batches, iterations that are left out, and evaluations in between.
TEST_F(ReadingAheadTest, ThreadsDecideNoBit) {
  const auto run = [&](const std::string& save, std::int64_t workers) {
    train(with_flags(
        config(save, workers),
        "--global-batch-size 12 --rampup-batch-size 4 4 24 --train-iters 0 --train-samples 60 "
        "--lr-warmup-iters 0 --eval-iters 2 --iterations-to-skip 2 5"));
  };
  run("none", 0);
  for (const int workers : {1, 2, 5}) {
    const std::string name = fmt::format("of {}", workers);
    run(name, workers);
    expect_same_run(name, "none");
  }
}

TEST_F(ReadingAheadTest, AResumedRunGoesOnWithTheNextSample) {
  train(config("whole", 2));
  const auto in_two = [&](const std::string& save, std::int64_t first, std::int64_t then,
                          std::int64_t micro_batch, const Layout& layout) {
    TrainConfig c = config(save, first);
    c.run.load = c.run.save;
    c.run.exit_interval = 3;
    train(c);
    c = with_layout(config(save, then), layout);
    c.run.load = c.run.save;
    c.layout.micro_batch_size = micro_batch;
    train(c);
  };
  in_two("none then 3", 0, 3, 1, {});
  expect_same_run("none then 3", "whole");
  in_two("2 then none", 2, 0, 1, {});
  expect_same_run("2 then none", "whole");
  // Sums are rounded in another order.
  in_two("larger", 2, 1, 4, {});
  expect_near("larger", "whole", "lm_loss", 1e-5);
  in_two("copies", 2, 3, 2, {.data = 2});
  expect_near("copies", "whole", "lm_loss", 1e-5);
}

// The sample was read ahead while the first iteration ran.
TEST_F(ReadingAheadTest, ASpoiltSampleEndsTheIterationThatNeedsIt) {
  write_dataset("spoilt", 3);
  for (const int workers : {0, 2}) {
    TrainConfig c = config("failed", workers);
    c.data.data_path = {path("spoilt")};
    set_flags(c, "--data-order sequential --eval-iters 0");
    EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { pretrain(c); }),
                testing::AllOf(HasSubstr("60000"), HasSubstr("spoilt")));
    EXPECT_EQ(losses("failed").size(), 1U);
  }
}

TEST_F(ReadingAheadTest, TakesAGlobalBatchAndAFewForEvaluations) {
  TrainConfig c = with_flags(config("", 2), "--global-batch-size 32");
  resolve(c, true);
  const BatchSchema schema = gpt_batch_schema(24);
  const std::int64_t microbatch = 24 * (8 + 6 * 4);
  EXPECT_EQ(reading_ahead(c, true).ahead, 32);
  EXPECT_EQ(reading_ahead(c, false).ahead, 4);
  constexpr std::int64_t kThreads = 2 << 20;
  EXPECT_EQ(bytes_read_ahead(c, schema), 33 * microbatch + 2 * 5 * microbatch + 3 * kThreads);
  c.run.eval_iters = 0;
  EXPECT_EQ(bytes_read_ahead(c, schema), 33 * microbatch + kThreads);
  c.data.num_workers = 0;
  EXPECT_EQ(bytes_read_ahead(c, schema), 32 * microbatch);
  c.layout.global_batch_size = 1;
  EXPECT_EQ(reading_ahead(c, false).ahead, 1);
  // The largest batch counts, wherever it is in the run.
  TrainConfig falling = with_flags(
      config("", 2), "--global-batch-size 0 --step-batch-size-schedule 0:2 48:48 4800:8");
  resolve(falling, true);
  EXPECT_EQ(reading_ahead(falling, true).ahead, 48);
}

}  // namespace
}  // namespace phalanx
