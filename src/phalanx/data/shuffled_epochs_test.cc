#include "phalanx/data/shuffled_epochs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "phalanx/data/blended_source.h"
#include "phalanx/data/torch_random.h"

namespace phalanx {
namespace {

// Sample i holds i.
class Numbers final : public SampleSource {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const BatchSchema& schema() const override { return schema_; }
  int losses() const override { return 1; }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override {
    sample.column<std::int32_t>(schema_.index("number"))[0] = static_cast<std::int32_t>(index);
    sample.column<float>(schema_.index("loss_mask"))[0] = 1.0F;
    counts[0] = 1.0;
  }

 private:
  std::int64_t size_;
  BatchSchema schema_{{{"number", DType::kI32, {1}}, {"loss_mask", DType::kF32, {1}}}};
};

std::vector<std::int32_t> numbers(const SampleSource& source, std::int64_t begin,
                                  std::int64_t count) {
  Sample sample(source.schema());
  std::vector<double> counts(1);
  std::vector<std::int32_t> found;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    source.fetch(i, sample, counts);
    const bool counts_it = counts[0] > 0.0;
    const auto number = sample.column<std::int32_t>(source.schema().index("number"))[0];
    found.push_back(counts_it ? number : -1);
  }
  return found;
}

TEST(ShuffledEpochs, AreTorchsPermutationsOfSeedAndEpoch) {
  const ShuffledEpochs source(std::make_shared<Numbers>(10), 10, 8, 3, 1234);
  EXPECT_EQ(source.size(), 24);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto order = torch_permutation(10, 1234 + static_cast<std::uint64_t>(epoch));
    const std::vector<std::int32_t> expected(order.begin(), order.begin() + 8);
    EXPECT_EQ(numbers(source, 8 * epoch, 8), expected) << epoch;
  }
  EXPECT_NE(numbers(source, 0, 8), numbers(source, 8, 8));
  // From whatever place a run goes on.
  EXPECT_EQ(numbers(source, 21, 1)[0], static_cast<std::int32_t>(torch_permutation(10, 1236)[5]));
}

TEST(ShuffledEpochs, MayKeepTheRest) {
  const auto padded = std::make_shared<PaddedSource>(std::make_shared<Numbers>(10), 4);
  const ShuffledEpochs source(padded, 10, 12, 2, 7);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    auto found = numbers(source, 12 * epoch, 12);
    EXPECT_EQ(std::vector(found.end() - 2, found.end()), (std::vector{-1, -1}));
    found.resize(10);
    std::ranges::sort(found);
    EXPECT_THAT(found, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  }
}

TEST(ShuffledEpochs, MayBeReadByManyThreads) {
  constexpr std::int64_t kSize = 100;
  const ShuffledEpochs source(std::make_shared<Numbers>(kSize), kSize, kSize, 20, 1);
  std::vector<std::vector<std::int32_t>> found(3);
  {
    std::vector<std::jthread> threads;
    for (auto& one : found) {
      threads.emplace_back([&] { one = numbers(source, 0, source.size()); });
    }
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

}  // namespace
}  // namespace phalanx
