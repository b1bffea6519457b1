#include "phalanx/data_parallel/weight_stash.h"

#include <gtest/gtest.h>

#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/data_parallel/test_support.h"

namespace phalanx {
namespace {

class WeightStashTest : public testing::TestWithParam<DType> {
 protected:
  // Changes the weights as an update would.
  void set_weights(int version) const {
    for (ParamId id = 0; id < rank_.table.size(); ++id) {
      set_each(rank_.parameters.weight(id), [&](std::int64_t i) { return value(version, id, i); });
    }
  }
  static double value(int version, ParamId id, std::int64_t i) {
    return version + 0.25 * static_cast<double>((static_cast<std::int64_t>(id) + i) % 4);
  }
  void expect_version(const WeightStash& stash, int version) const {
    const nn::Weights weights = stash.weights(version);
    ASSERT_EQ(weights.tensors.size(), rank_.table.specs().size());
    for (ParamId id = 0; id < rank_.table.size(); ++id) {
      EXPECT_EQ(weights[id].shape, rank_.table[id].local_shape);
      EXPECT_EQ(weights[id].dtype, rank_.table[id].dtype);
      const Values found = nn::values_of(weights[id]);
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i], value(version, id, static_cast<std::int64_t>(i)))
            << "version " << version << " of " << rank_.table[id].name;
      }
    }
  }

  StoreRank rank_{uneven_table(GetParam())};
  Arena arena_ = Arena("stash", 8 << 20);
};

// Three versions: the newest in the store, two older ones here.
TEST_P(WeightStashTest, KeepsTheVersionsBeforeTheNewest) {
  WeightStash stash(rank_.parameters, 3, arena_);
  stash.begin();
  set_weights(0);
  for (int version = 1; version < 8; ++version) {
    stash.keep(rank_.context);
    set_weights(version);
    for (int older = std::max(0, version - 2); older < version; ++older) {
      expect_version(stash, older);
    }
    EXPECT_THROW(stash.weights(version), InternalError) << "the newest is the store's";
    EXPECT_THROW(stash.weights(version + 1), InternalError);
    EXPECT_THROW(stash.weights(version - 3), InternalError);
  }
}

TEST_P(WeightStashTest, BeginDropsOldVersions) {
  WeightStash stash(rank_.parameters, 2, arena_);
  stash.begin();
  set_weights(0);
  stash.keep(rank_.context);
  set_weights(1);
  expect_version(stash, 0);
  stash.begin();  // version 1 becomes version 0
  EXPECT_THROW(stash.weights(0), InternalError);
  set_weights(0);
  stash.keep(rank_.context);
  set_weights(1);
  expect_version(stash, 0);
}

// The last stage of a pipeline reads only the newest weights and keeps none.
TEST_P(WeightStashTest, OneVersionTakesNoMemory) {
  WeightStash stash(rank_.parameters, 1, arena_);
  EXPECT_EQ(arena_.high_water(), 0);
  stash.begin();
  stash.keep(rank_.context);
  EXPECT_THROW(stash.weights(0), InternalError);
  WeightStash two(rank_.parameters, 2, arena_);
  EXPECT_GE(arena_.high_water(), rank_.parameters.flat().bytes());
  EXPECT_LT(arena_.high_water(), 2 * rank_.parameters.flat().bytes());
}

INSTANTIATE_TEST_SUITE_P(Storage, WeightStashTest, testing::Values(DType::kF32, DType::kBF16));

}  // namespace
}  // namespace phalanx
