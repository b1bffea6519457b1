#include "phalanx/data_parallel/tile_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "phalanx/data_parallel/test_support.h"
#include "phalanx/offload/storage_folder.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx {
namespace {

using nn::values_of;

// A shard in tiles of 8,192 elements, some in a file.
class Tiles : public testing::Test {
 protected:
  explicit Tiles(double share = 0.5)
      : directory_(std::filesystem::temp_directory_path() /
                   ("phalanx_tiles_" + std::to_string(::getpid()))),
        folder_(directory_, "run", 0, "--offload-optimizer-to"),
        states_(table_, {.gradients = true, .states_in_files = share, .tile = 8192}),
        staging_(states_.largest_tile_in_file(), 8, 2, arena_) {
    StorageOptions options;
    options.staging.push_back(staging_.memory());
    storage_ = make_disk_storage(folder_, options, arena_);
    for (StateColumn* column : {&a_, &b_}) {
      *column =
          StateColumn(column == &a_ ? "a" : "b", DType::kF32, states_, memory_, storage_.get());
    }
  }

  // Sets every element of the shard to its number plus `base`.
  void fill(const StateColumn& column, double base) {
    const TileAccess access{.column = &column, .reads = false};
    visit_tiles(context_, states_, &staging_, {&access, 1}, [&](const auto& tile, auto tensors) {
      set_each(tensors[0],
               [&](std::int64_t i) { return base + static_cast<double>(tile.local.begin + i); });
    });
  }
  Values all(const StateColumn& column) {
    Values values;
    const TileAccess access{.column = &column, .writes = false};
    visit_tiles(context_, states_, &staging_, {&access, 1},
                [&](const auto& /*tile*/, auto tensors) {
                  const Values of_tile = values_of(tensors[0]);
                  values.insert(values.end(), of_tile.begin(), of_tile.end());
                });
    return values;
  }

  std::filesystem::path directory_;
  StorageFolder folder_;
  nn::ParamTable table_ = uneven_table(DType::kF32);
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
  Arena arena_{"staging", 32 << 20};
  Arena memory_{"memory", 4 << 20};
  Arena workspace_{"workspace", 1 << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
  StateLayout states_;
  TileStaging staging_;
  std::unique_ptr<Storage> storage_;
  StateColumn a_, b_;
};

TEST_F(Tiles, SomeAreInFilesAndSomeInMemory) {
  int in_files = 0;
  std::int64_t in_memory = 0;
  for (std::size_t t = 0; t < states_.tiles().size(); ++t) {
    const StateLayout::Tile& tile = states_.tiles()[t];
    EXPECT_EQ(a_.file()->has(static_cast<int>(t)), tile.states_in_file);
    in_files += tile.states_in_file ? 1 : 0;
    in_memory += tile.states_in_file ? 0 : tile.local.count;
  }
  EXPECT_GT(in_files, 1);
  EXPECT_GT(in_memory, 0);
  EXPECT_EQ(in_memory, states_.memory_elements());
  for (const Segment& segment : states_.segments()) {
    if (states_.tile(segment).states_in_file) {
      EXPECT_THROW(a_.in_memory(segment), InternalError);
    } else {
      EXPECT_EQ(a_.in_memory(segment).count(), segment.count);
    }
  }
}

TEST_F(Tiles, ReturnAsTheyWereWritten) {
  fill(a_, 0.5);
  fill(b_, 1e6);
  const Values a = all(a_);
  ASSERT_EQ(std::ssize(a), states_.shard_elements());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], 0.5 + static_cast<double>(i));
  EXPECT_EQ(all(b_)[7], 1e6 + 7);
}

// One column is read, the other changes; elements that are not written stay.
TEST_F(Tiles, FollowTheAccessOfAVisit) {
  fill(a_, 0.5);
  fill(b_, 1e6);
  const std::array<TileAccess, 2> accesses = {TileAccess{.column = &a_, .writes = false},
                                              TileAccess{.column = &b_}};
  visit_tiles(context_, states_, &staging_, accesses, [&](const auto& tile, auto tensors) {
    const Values a = values_of(tensors[0]);
    const Values b = values_of(tensors[1]);
    set_each(tensors[1], [&](std::int64_t i) { return b[static_cast<std::size_t>(i)] + 1.0; });
    // An unwritten change is lost only in tiles in files.
    if (tile.states_in_file) set_each(tensors[0], [](std::int64_t) { return -1.0; });
    EXPECT_EQ(a[0] - 0.5, static_cast<double>(tile.local.begin));
  });
  EXPECT_EQ(all(a_)[3], 3.5);
  EXPECT_EQ(all(b_)[3], 1e6 + 4);
  EXPECT_EQ(all(b_).back(), 1e6 + static_cast<double>(states_.shard_elements()));
}

// Unread tiles start as zeros; an absent column has no tensor.
TEST_F(Tiles, ThatAreNotReadAreZeros) {
  fill(a_, 0.5);
  const std::array<TileAccess, 2> accesses = {TileAccess{.column = &a_, .reads = false},
                                              TileAccess{}};
  visit_tiles(context_, states_, &staging_, accesses, [&](const auto& tile, auto tensors) {
    EXPECT_FALSE(tensors[1].defined());
    if (!tile.states_in_file) return;
    for (const double value : values_of(tensors[0])) ASSERT_EQ(value, 0.0);
  });
}

TEST_F(Tiles, StayUntilTheNextTurn) {
  fill(a_, 0.5);
  int tile = 0;
  while (!a_.file()->has(tile)) ++tile;
  const std::int64_t count = states_.tiles()[static_cast<std::size_t>(tile)].local.count;
  Recorder recorder;
  context_.recorder = &recorder;
  const Tensor kept = staging_.read_once(context_, *a_.file(), tile, count);
  EXPECT_EQ(staging_.read_once(context_, *a_.file(), tile, count).offset, kept.offset);
  EXPECT_EQ(recorder.transfers().size(), 1U);
  EXPECT_EQ(values_of(kept)[0],
            0.5 + static_cast<double>(states_.tiles()[static_cast<std::size_t>(tile)].local.begin));
  staging_.next(context_);
  staging_.read_once(context_, *a_.file(), tile, count);
  EXPECT_EQ(recorder.transfers().size(), 2U);
  context_.recorder = nullptr;
}

}  // namespace
}  // namespace phalanx
