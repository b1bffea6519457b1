#include "phalanx/rank/batch_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/text_batches.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

constexpr nn::RowPatterns kGpt = {RowPattern{.consecutive = true, .one_document = true}};

// Two samples of four rows, numbers 8 and 9.
HostBatch gpt_batch() {
  HostBatch batch(gpt_batch_schema(4), 2);
  for (std::size_t i = 0; i < 8; ++i) {
    batch.column<std::int64_t>("sample")[i] = 8 + static_cast<std::int64_t>(i % 2);
    batch.column<std::int32_t>("position")[i] = static_cast<std::int32_t>(i / 2);
    batch.column<std::int32_t>("document")[i] = 0;
  }
  return batch;
}

TEST(BatchCheck, NamesSampleRowAndColumn) {
  HostBatch batch = gpt_batch();
  check_row_patterns(batch, kGpt);
  batch.column<std::int32_t>("position")[5] = 7;
  EXPECT_THAT(error_of<DataError>([&] { check_row_patterns(batch, kGpt); }),
              HasSubstr("position of row 2 of sample 9 is 7, where this model's batches have 2"));
  batch = gpt_batch();
  batch.column<std::int32_t>("document")[6] = -1;
  EXPECT_THAT(error_of<DataError>([&] { check_row_patterns(batch, kGpt); }),
              HasSubstr("document of row 3 of sample 8 is -1, where this model's batches have 0"));
}

// A model that says nothing of its batches, or less.
TEST(BatchCheck, LooksAtWhatTheModelSays) {
  HostBatch batch = gpt_batch();
  batch.column<std::int32_t>("document")[6] = -1;
  check_row_patterns(batch, {RowPattern{.consecutive = true}});
  batch.column<std::int32_t>("position")[5] = 7;
  check_row_patterns(batch, {});
}

TEST(BatchCheck, KnowsTheSecondSequence) {
  HostBatch batch(t5_batch_schema(2, 3), 1);
  for (std::int32_t i = 0; i < 3; ++i) {
    if (i < 2) batch.column<std::int32_t>("position")[static_cast<std::size_t>(i)] = i;
    batch.column<std::int32_t>("decoder_position")[static_cast<std::size_t>(i)] = i == 2 ? 0 : i;
  }
  const nn::RowPatterns patterns = {RowPattern{.consecutive = true},
                                    RowPattern{.consecutive = true}};
  EXPECT_THAT(error_of<DataError>([&] { check_row_patterns(batch, patterns); }),
              HasSubstr("decoder_position of row 2 of sample 0 is 0"));
}

class CheckedRuns : public RunTest {
 protected:
  // The first step of a run whose data source is at fault in one row.
  void train_with_fault(const std::string& flags) const {
    TrainConfig c = with_flags(config(""), flags);
    resolve(c, true);
    const RunSetup setup(c);
    run_ranks(setup.config, *setup.model, [&](Rank& rank) {
      rank.initialise();
      RunData::Stream stream(*setup.data, SplitKind::kTrain, 0, rank.ranks().coordinates);
      HostBatch changed;
      const BatchSource source = stream.source();
      rank.train_step({.lr = 1e-3}, [&](int microbatch) -> const HostBatch& {
        changed = source(microbatch);
        changed.column<std::int32_t>("document")[3] = -1;
        return changed;
      });
    });
  }
};

TEST_F(CheckedRuns, EndAtABatchThatIsNoneOfTheModel) {
  train_with_fault("");
  EXPECT_THAT(error_of<DataError>([&] { train_with_fault("--check-batches"); }),
              HasSubstr("--check-batches: document of row 1 of sample 1 is -1"));
  // Documents are expected there.
  train_with_fault("--check-batches --reset-attention-mask --vocab-size 48");
}

TEST_F(CheckedRuns, PassWithTheSamplesOfGpt) {
  train(with_flags(config(""), "--check-batches --train-iters 3"));
}

}  // namespace
}  // namespace phalanx
