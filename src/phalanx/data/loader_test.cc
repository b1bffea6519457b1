#include "phalanx/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <set>
#include <system_error>

#include "phalanx/base/cpu_affinity.h"
#include "phalanx/base/error.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/data/sampler.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kNone = -1;

// Sample i is i, i + 1, ..., and counts for i and 2 i tokens of two losses. Threads that read are
// kept waiting, each for another time.
class Numbers final : public SampleSource {
 public:
  std::int64_t size() const override { return 1000; }
  const BatchSchema& schema() const override { return schema_; }
  int losses() const override { return 2; }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(index * 37 % 5 * 100));
    {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      if (std::this_thread::get_id() != asks_) cores = cores_of_thread();
    }
    ++fetched;
    if (index == spoilt) throw DataError("sample {} is spoilt", index);
    const auto values = sample.column<std::int32_t>(schema_.index("values"));
    std::iota(values.begin(), values.end(), static_cast<std::int32_t>(index));
    counts[0] = static_cast<double>(index);
    counts[1] = static_cast<double>(2 * index);
  }

  std::int64_t spoilt = kNone;
  mutable std::atomic<int> fetched = 0;
  mutable std::mutex mutex;
  mutable std::set<std::thread::id> threads;
  mutable std::vector<int> cores;  // of the last reader that was not the one who asks

 private:
  std::thread::id asks_ = std::this_thread::get_id();
  BatchSchema schema_ = BatchSchema({{.name = "values", .dtype = DType::kI32, .extents = {3}},
                                     {.name = "sample", .dtype = DType::kI64, .extents = {3}}});
};

// Microbatches of the sampler, whose numbers are 500 above the indices.
BatchLoader::NextSamples in_order(const SamplerOptions& options) {
  return [sampler = SequentialSampler(options)]() mutable {
    std::vector<SampleId> ids = sampler.next();
    for (SampleId& id : ids) id.number += 500;
    return ids;
  };
}

class LoaderTest : public ::testing::TestWithParam<int> {
 protected:
  BatchLoader loader(int ahead, std::int64_t samples = 1000, std::int64_t micro_batch = 2) const {
    return BatchLoader(source_,
                       in_order({.total_samples = samples, .micro_batch_size = micro_batch}),
                       {.micro_batch_size = micro_batch, .ahead = ahead, .workers = GetParam()});
  }
  static std::vector<std::int32_t> values(const HostBatch& batch) {
    const auto column = batch.column<std::int32_t>("values");
    return {column.begin(), column.end()};
  }
  // The samples that readers have begun once they are that many, and a moment longer.
  int fetched_in_the_end(int expected) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (source_->fetched < expected && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return source_->fetched;
  }
  static bool has_threads() { return GetParam() > 0; }
  std::shared_ptr<Numbers> source_ = std::make_shared<Numbers>();
};

TEST_P(LoaderTest, HandsOutMicrobatchesInOrder) {
  BatchLoader loader = this->loader(5);
  for (std::int32_t m = 0; m < 40; ++m) {
    const HostBatch& batch = loader.next();
    const std::int32_t i = 2 * m;
    ASSERT_THAT(values(batch), ElementsAre(i, i + 1, i + 1, i + 2, i + 2, i + 3));
    const auto numbers = batch.column<std::int64_t>("sample");
    ASSERT_THAT(std::vector(numbers.begin(), numbers.end()),
                ElementsAre(500 + i, 501 + i, 500 + i, 501 + i, 500 + i, 501 + i));
  }
}

// What was handed out stays as it is while others read on.
TEST_P(LoaderTest, AMicrobatchStaysUntilTheNextOne) {
  BatchLoader loader = this->loader(1);
  for (std::int32_t m = 0; m < 4; ++m) {
    const HostBatch& batch = loader.next();
    const int expected = 2 * (m + (has_threads() ? 2 : 1));
    EXPECT_EQ(fetched_in_the_end(expected), expected);
    EXPECT_EQ(values(batch).front(), 2 * m);
  }
}

TEST_P(LoaderTest, KnowsTheCountsOfTheNextGlobalBatch) {
  BatchLoader loader = this->loader(4);
  EXPECT_THAT(loader.counts(4), ElementsAre(28, 56));
  EXPECT_THAT(loader.counts(4), ElementsAre(28, 56));
  EXPECT_EQ(values(loader.next()).front(), 0);
  for (int m = 1; m < 4; ++m) loader.next();
  // The batch grows or shrinks.
  EXPECT_THAT(loader.counts(1), ElementsAre(17, 34));
  EXPECT_THAT(loader.counts(3), ElementsAre(63, 126));
  EXPECT_EQ(values(loader.next()).front(), 8);
  EXPECT_THAT(loader.counts(4), ElementsAre(10 + 11 + 12 + 13 + 14 + 15 + 16 + 17, 216));
  EXPECT_EQ(values(loader.next()).front(), 10);
  EXPECT_THAT(loader.counts(0), ElementsAre(0, 0));
}

// Nothing before it is needed, then a global batch and no more.
TEST_P(LoaderTest, IsOneGlobalBatchAhead) {
  BatchLoader loader = this->loader(6);
  EXPECT_EQ(fetched_in_the_end(0), 0);
  for (int m = 1; m <= 20; ++m) {
    loader.next();
    // Never less than half of it.
    const int expected = 2 * (has_threads() ? m + 4 : m);
    const int fetched = fetched_in_the_end(expected);
    EXPECT_GE(fetched, expected);
    EXPECT_LE(fetched, 2 * (has_threads() ? m + 6 : m));
  }
  // The one that asks reads what no other has begun.
  EXPECT_LE(std::ssize(source_->threads), GetParam() + 1);
  EXPECT_TRUE(has_threads() || source_->threads.contains(std::this_thread::get_id()));
}

TEST_P(LoaderTest, AnErrorComesWithTheStepThatNeedsTheSample) {
  source_->spoilt = 13;
  BatchLoader loader = this->loader(4);
  for (std::int32_t m = 0; m < 6; ++m) {
    ASSERT_EQ(values(loader.next()).front(), 2 * m);
    // Of those two before it the spoilt one has been read, and nobody has heard of it.
    if (m == 4 && has_threads()) {
      EXPECT_GE(fetched_in_the_end(14), 14);
    }
  }
  const auto read = [&] { loader.next(); };
  EXPECT_EQ(error_of(ErrorCode::kBadData, read), "sample 13 is spoilt");
  EXPECT_EQ(error_of(ErrorCode::kBadData, read), "sample 13 is spoilt");
}

TEST_P(LoaderTest, CountsOfASpoiltBatchAreItsError) {
  source_->spoilt = 13;
  BatchLoader loader = this->loader(4);
  EXPECT_THAT(loader.counts(4), ElementsAre(28, 56));
  for (int m = 0; m < 4; ++m) loader.next();
  const auto count = [&] { loader.counts(4); };
  EXPECT_EQ(error_of(ErrorCode::kBadData, count), "sample 13 is spoilt");
  EXPECT_THAT(loader.counts(2), ElementsAre(38, 76));
  EXPECT_EQ(values(loader.next()).front(), 8);
  loader.next();
  EXPECT_EQ(error_of(ErrorCode::kBadData, [&] { loader.next(); }), "sample 13 is spoilt");
}

// A run that ends with its data reads ahead into nothing.
TEST_P(LoaderTest, TheEndOfTheDataIsAnErrorWhereItIsNeeded) {
  BatchLoader loader = this->loader(4, 7);
  for (int m = 0; m < 3; ++m) loader.next();
  EXPECT_EQ(fetched_in_the_end(6), 6);
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { loader.next(); }), HasSubstr("exhausted"));
}

TEST_P(LoaderTest, EndsAtOnce) {
  {
    BatchLoader never_asked = loader(4);
    BatchLoader in_the_middle = loader(400);
    in_the_middle.next();
  }
  const int fetched = source_->fetched;
  EXPECT_LT(fetched, 100);
  EXPECT_EQ(fetched_in_the_end(fetched), fetched);
}

INSTANTIATE_TEST_SUITE_P(Workers, LoaderTest, ::testing::Values(0, 1, 2, 7));

// Every sample is read once, by whatever ranks, in whatever microbatches, by whatever threads: a
// run goes on with the first that was not consumed.
TEST(LoaderResume, GoesOnWithTheNextSample) {
  const auto source = std::make_shared<Numbers>();
  std::set<std::int64_t> seen;
  struct Stretch {
    std::int64_t micro_batch, ranks;
    int microbatches, workers;
  };
  std::int64_t consumed = 0;
  for (const Stretch& s : {Stretch{2, 2, 3, 2}, Stretch{3, 1, 4, 0}, Stretch{1, 4, 3, 3},
                           Stretch{4, 3, 1, 1}, Stretch{2, 2, 6, 2}}) {
    for (int rank = 0; rank < s.ranks; ++rank) {
      BatchLoader loader(
          source,
          in_order({.total_samples = 1000,
                    .consumed_samples = consumed,
                    .micro_batch_size = s.micro_batch,
                    .data_parallel_rank = rank,
                    .data_parallel_size = s.ranks}),
          {.micro_batch_size = s.micro_batch, .ahead = s.microbatches, .workers = s.workers});
      for (int m = 0; m < s.microbatches; ++m) {
        const auto numbers = std::as_const(loader.next()).column<std::int64_t>("sample");
        for (std::int64_t i = 0; i < s.micro_batch; ++i) {
          EXPECT_TRUE(seen.insert(numbers[static_cast<std::size_t>(i)]).second);
        }
      }
    }
    consumed += s.micro_batch * s.ranks * s.microbatches;
    EXPECT_EQ(std::ssize(seen), consumed);
    EXPECT_EQ(*seen.rbegin(), 500 + consumed - 1);
  }
}

// A rank's own cores are its team's.
TEST(LoaderThreads, RunOnTheGivenCores) {
  const std::vector<int> usable = cores_of_thread();
  if (usable.empty()) GTEST_SKIP() << "the system does not tell cores";
  const auto source = std::make_shared<Numbers>();
  const auto read_on = [&](std::vector<int> cores) {
    BatchLoader loader(source, in_order({.total_samples = 1000}), {.cores = std::move(cores)});
    source->fetched = 0;
    loader.next();
    while (source->fetched < 2) std::this_thread::yield();  // the next one
    const std::lock_guard lock(source->mutex);
    return source->cores;
  };
  EXPECT_THAT(read_on({usable.back()}), ElementsAre(usable.back()));
  EXPECT_EQ(read_on({}), usable);
}

TEST(LoaderThreads, ThatAreRefusedAreAnErrorOfTheSystem) {
  int started = 0;
  const ThreadStarter two = [&](std::function<void()> body) {
    if (started++ == 2) {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
    return start_thread(std::move(body));
  };
  BatchLoader loader(std::make_shared<Numbers>(), in_order({.total_samples = 1000}),
                     {.workers = 3, .start_thread = two});
  EXPECT_THAT(error_of(ErrorCode::kSystem, [&] { loader.next(); }), HasSubstr("thread"));
}

// Of a GPT: sample i has documents of 5 and 2 rows, cut for two ranks, and counts for all rows of
// its second document and i + 1 of its first.
class Documents final : public SampleSource {
 public:
  std::int64_t size() const override { return 4; }
  const BatchSchema& schema() const override { return schema_; }
  int losses() const override { return 1; }
  void fetch(std::int64_t index, Sample& sample, std::span<double> counts) const override {
    const auto of = [&](const char* name) {
      return sample.column<std::int32_t>(schema_.index(name));
    };
    const auto base = static_cast<std::int32_t>(100 * index);
    std::ranges::copy(std::array{0, 0, 0, 0, 0, -1, -1, -1, 1, 1, -1, -1}, of("document").begin());
    for (std::int32_t row = 0; row < 12; ++row) {
      const auto at = static_cast<std::size_t>(row);
      of("tokens")[at] = base + row;
      of("labels")[at] = base + row + 1;
      of("position_ids")[at] = row < 5 ? row : row == 9 ? 1 : 0;
      of("position")[at] = row;
      const bool counts_for_loss = row <= index || row == 8 || row == 9;
      sample.column<float>(schema_.index("loss_mask"))[at] = counts_for_loss ? 1.0F : 0.0F;
    }
    counts[0] = static_cast<double>(index + 3);
  }

 private:
  BatchSchema schema_ = gpt_batch_schema(12);
};

// What `rank` of two reads of samples 1 and 2.
BatchLoader reader_of(int rank, ContextCut::Kind kind) {
  return BatchLoader(
      std::make_shared<Documents>(),
      in_order({.total_samples = 4, .consumed_samples = 1, .micro_batch_size = 2}),
      {.micro_batch_size = 2, .workers = 0, .cut = ContextCut(2, kind), .context_rank = rank});
}

template <typename T>
std::vector<T> of_place(const HostBatch& batch, std::string_view name, std::size_t place) {
  std::vector<T> elements;
  const auto column = batch.column<T>(name);
  for (std::size_t i = place; i < column.size(); i += 2) elements.push_back(column[i]);
  return elements;
}

TEST(LoaderOfContextRanks, HaveTheirOwnRowsOfASequence) {
  BatchLoader loader = reader_of(1, ContextCut::Kind::kSequence);
  const HostBatch& batch = loader.next();
  EXPECT_EQ(batch.schema(), context_schema(gpt_batch_schema(12), 2));
  EXPECT_THAT(of_place<std::int32_t>(batch, "tokens", 0),
              ElementsAre(103, 104, 105, 106, 107, 108));
  EXPECT_THAT(of_place<std::int32_t>(batch, "tokens", 1),
              ElementsAre(203, 204, 205, 206, 207, 208));
  EXPECT_THAT(of_place<std::int32_t>(batch, "labels", 1),
              ElementsAre(204, 205, 206, 207, 208, 209));
  EXPECT_THAT(of_place<std::int32_t>(batch, "position_ids", 0), ElementsAre(3, 4, 0, 0, 0, 0));
  EXPECT_THAT(of_place<float>(batch, "loss_mask", 0), ElementsAre(0, 0, 0, 0, 0, 1));
  EXPECT_THAT(of_place<std::int64_t>(batch, "sample", 0),
              ElementsAre(501, 501, 501, 501, 501, 501));
  // The coordinates of all rows, rank after rank.
  EXPECT_THAT(of_place<std::int32_t>(batch, "position", 0),
              ElementsAre(0, 1, 2, 9, 10, 11, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(of_place<std::int32_t>(batch, "document", 1),
              ElementsAre(0, 0, 0, 1, -1, -1, 0, 0, -1, -1, -1, 1));
}

TEST(LoaderOfContextRanks, HaveTheirOwnRowsOfDocuments) {
  BatchLoader loader = reader_of(0, ContextCut::Kind::kDocuments);
  const HostBatch& batch = loader.next();
  EXPECT_THAT(of_place<std::int32_t>(batch, "tokens", 0),
              ElementsAre(100, 101, 106, 107, 108, 111));
  EXPECT_THAT(of_place<float>(batch, "loss_mask", 1), ElementsAre(1, 1, 0, 0, 1, 0));
  EXPECT_THAT(of_place<std::int32_t>(batch, "position", 1),
              ElementsAre(0, 1, 6, 7, 8, 11, 2, 3, 4, 5, 9, 10));
  EXPECT_THAT(of_place<std::int32_t>(batch, "document", 1),
              ElementsAre(0, 0, -1, -1, 1, -1, 0, 0, 0, -1, 1, -1));
}

// A rank counts what its own rows count for, and all together count what the samples do: 4 and 5.
TEST(LoaderOfContextRanks, CountTheirOwnRows) {
  for (const auto kind : {ContextCut::Kind::kSequence, ContextCut::Kind::kDocuments}) {
    std::vector<double> counts;
    for (const int rank : {0, 1}) {
      BatchLoader loader = reader_of(rank, kind);
      counts.push_back(loader.counts(1).at(0));
    }
    if (kind == ContextCut::Kind::kSequence) {
      EXPECT_THAT(counts, ElementsAre(7, 2));
    } else {
      EXPECT_THAT(counts, ElementsAre(6, 3));
    }
  }
}

TEST(LoaderOfContextRanks, ASampleWithSeveralLossesIsNotCut) {
  EXPECT_THROW(BatchLoader(std::make_shared<Numbers>(), in_order({.total_samples = 4}),
                           {.cut = ContextCut(2, ContextCut::Kind::kSequence)}),
               InternalError);
}

TEST(LoaderMemory, IsOneGlobalBatchAndTheOneInUse) {
  const Numbers source;
  const BatchLoaderOptions options{.micro_batch_size = 2, .ahead = 4};
  EXPECT_EQ(BatchLoader::bytes(source.schema(), options), (4 + 1) * 2 * 3 * (4 + 8));
}

}  // namespace
}  // namespace phalanx
