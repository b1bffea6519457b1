#include "phalanx/data/sentence_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "phalanx/base/hash.h"
#include "phalanx/data/index_cache.h"
#include "phalanx/data/test_files.h"
#include "phalanx/data/toy_corpus.h"

namespace phalanx {
namespace {

using ::testing::HasSubstr;
using Spans = std::vector<SentenceSpan>;

Spans spans_of(const SentenceMapping& mapping) {
  Spans spans;
  for (std::int64_t i = 0; i < mapping.size(); ++i) spans.push_back(mapping[i]);
  return spans;
}

class SentenceMappingTest : public ::testing::Test {
 protected:
  SentenceMappingTest() { testing::write_sentences(prefix_, testing::kToyLengths); }

  IndexedDataset toy() const { return IndexedDataset(prefix_); }
  Spans build(const SentenceMappingOptions& options) const {
    const IndexedDataset data = toy();
    return spans_of(build_sentence_mapping(data, {0, data.documents()}, options));
  }
  std::string write(const std::string& name, const testing::SentencesOfDocuments& lengths) const {
    testing::write_sentences(directory_ / name, lengths);
    return directory_ / name;
  }

  TemporaryDirectory directory_;
  std::string prefix_ = directory_ / "toy";
};

// Its SHA-256: a1e984cf4b1f7b54... and 159eb88b9ff96f51...
TEST_F(SentenceMappingTest, TheCorpusIsTheOneThatVectorsAreOf) {
  EXPECT_EQ(digest_to_text(digest_file(bin_path(prefix_)).xxh3), "2143b134d79c8081");
  EXPECT_EQ(digest_to_text(digest_file(idx_path(prefix_)).xxh3), "c411fca34cc7bb23");
}

// What Megatron's build_mapping says of the same arguments.
TEST_F(SentenceMappingTest, MegatronsRows) {
  constexpr std::int64_t kAll = std::int64_t{1} << 40;
  const auto rows = [&](std::int64_t epochs, std::int64_t samples, std::int64_t max_length,
                        double short_seq_prob, std::uint32_t seed, std::int64_t min_sentences) {
    return build({.samples = samples,
                  .most_epochs = epochs,
                  .max_length = max_length,
                  .short_seq_prob = short_seq_prob,
                  .seed = seed,
                  .min_sentences = min_sentences});
  };
  EXPECT_EQ(rows(1, kAll, 21, 0.1, 1234, 2),
            (Spans{{18, 20, 21}, {3, 7, 21}, {0, 3, 21}, {7, 9, 21}, {15, 18, 21}, {10, 13, 21}}));
  EXPECT_EQ(rows(1, kAll, 22, 0.1, 1234, 1), (Spans{{0, 3, 22},
                                                    {15, 18, 22},
                                                    {9, 10, 22},
                                                    {7, 9, 22},
                                                    {10, 13, 22},
                                                    {18, 20, 22},
                                                    {3, 7, 22}}));
  EXPECT_EQ(rows(3, kAll, 21, 0.5, 7, 2), (Spans{{10, 13, 21},
                                                 {17, 20, 21},
                                                 {0, 3, 21},
                                                 {7, 9, 8},
                                                 {0, 3, 18},
                                                 {7, 9, 21},
                                                 {15, 18, 21},
                                                 {0, 3, 20},
                                                 {18, 20, 12},
                                                 {3, 7, 21},
                                                 {10, 13, 12},
                                                 {10, 13, 10},
                                                 {18, 20, 10},
                                                 {15, 18, 21},
                                                 {15, 17, 14},
                                                 {5, 9, 21},
                                                 {3, 5, 10},
                                                 {3, 7, 21}}));
  EXPECT_EQ(
      rows(2147483646, 20, 21, 0.1, 1234, 2),
      (Spans{{3, 7, 21},   {0, 3, 21},   {0, 3, 21},   {7, 9, 21}, {18, 20, 21}, {15, 18, 21},
             {10, 13, 21}, {15, 18, 21}, {18, 20, 21}, {7, 9, 21}, {18, 20, 21}, {10, 13, 21},
             {15, 18, 21}, {15, 18, 21}, {5, 9, 21},   {7, 9, 21}, {0, 3, 21},   {3, 5, 2},
             {3, 7, 21},   {3, 7, 21},   {10, 13, 21}, {0, 3, 21}, {18, 20, 21}, {10, 13, 21}}));
  EXPECT_EQ(rows(2, kAll, 13, 0.0, 1, 2), (Spans{{0, 3, 13},
                                                 {10, 13, 13},
                                                 {10, 13, 13},
                                                 {5, 9, 13},
                                                 {17, 20, 13},
                                                 {3, 5, 13},
                                                 {5, 9, 13},
                                                 {15, 17, 13},
                                                 {17, 20, 13},
                                                 {3, 5, 13},
                                                 {15, 17, 13},
                                                 {0, 3, 13}}));
  EXPECT_EQ(rows(2, kAll, 13, 1.0, 1, 1),
            (Spans{{3, 4, 4},    {0, 3, 8},   {4, 7, 9},   {1, 3, 13},   {18, 20, 3}, {7, 9, 3},
                   {6, 7, 8},    {7, 9, 11},  {15, 16, 6}, {11, 13, 12}, {4, 6, 6},   {16, 18, 12},
                   {11, 13, 10}, {18, 20, 4}, {9, 10, 7},  {16, 18, 13}, {3, 4, 10},  {0, 1, 3},
                   {15, 16, 7},  {10, 11, 2}, {10, 11, 2}, {9, 10, 6}}));
}

// Whatever the lengths: samples of one epoch are disjoint, leave no sentence of a used document
// out, and have enough sentences.
TEST_F(SentenceMappingTest, AnEpochIsEveryUsedSentenceOnce) {
  testing::SentencesOfDocuments lengths;
  std::uint32_t k = 0;
  for (int d = 0; d < 60; ++d) {
    auto& document = lengths.emplace_back();
    for (std::uint32_t n = testing::mix(k++, 1) % 9; n > 0; --n) {
      const bool is_long = testing::mix(k++, 3) % 40 == 0;
      document.push_back(is_long ? 513 + static_cast<std::int32_t>(k)
                                 : 1 + static_cast<std::int32_t>(testing::mix(k, 2) % 30));
      ++k;
    }
  }
  const IndexedDataset data(write("random", lengths));
  for (const std::int64_t least : {1, 2}) {
    for (const double share : {0.0, 0.1, 0.9}) {
      auto spans = spans_of(build_sentence_mapping(
          data, {0, data.documents()},
          {.max_length = 40, .short_seq_prob = share, .seed = 5, .min_sentences = least}));
      std::ranges::sort(spans, {}, &SentenceSpan::first);
      std::vector<bool> is_seen(static_cast<std::size_t>(data.sequences()));
      for (const SentenceSpan& span : spans) {
        EXPECT_GE(span.end - span.first, least);
        EXPECT_GE(span.target, 2);
        EXPECT_LE(span.target, 40);
        for (std::int64_t j = span.first; j < span.end; ++j) {
          EXPECT_FALSE(is_seen[static_cast<std::size_t>(j)]) << j;
          is_seen[static_cast<std::size_t>(j)] = true;
        }
      }
      for (std::int64_t d = 0; d < data.documents(); ++d) {
        const std::int64_t first = data.document_begin(d);
        const std::int64_t count = data.document_begin(d + 1) - first;
        const auto& document = lengths[static_cast<std::size_t>(d)];
        const bool has_long = std::ranges::any_of(document, [](auto n) { return n > 512; });
        const bool is_used = count >= least && (count == 1 || !has_long);
        for (std::int64_t j = 0; j < count; ++j) {
          EXPECT_EQ(is_seen[static_cast<std::size_t>(first + j)], is_used) << d;
        }
      }
    }
  }
}

// A split's documents, and no others; sentences keep their numbers in the file.
TEST_F(SentenceMappingTest, APartOfTheDocuments) {
  const IndexedDataset data = toy();
  const auto spans = spans_of(
      build_sentence_mapping(data, {2, 5}, {.samples = 50, .max_length = 21, .min_sentences = 2}));
  EXPECT_GE(spans.size(), 50U);
  for (const SentenceSpan& span : spans) {
    EXPECT_GE(span.first, 3);
    EXPECT_LE(span.end, 13);
  }
}

TEST_F(SentenceMappingTest, WideRowsSayTheSame) {
  SentenceMappingOptions options{.samples = 30, .max_length = 13, .short_seq_prob = 0.5};
  const Spans narrow = build(options);
  const IndexedDataset data = toy();
  options.largest_narrow = data.sequences();
  EXPECT_EQ(build(options), narrow);
  options.largest_narrow = data.sequences() - 1;
  EXPECT_EQ(build(options), narrow);
  EXPECT_EQ(build_sentence_mapping(data, {0, 7}, options).owner.use_count(), 1);  // it is its own
}

TEST_F(SentenceMappingTest, NoUsableDocumentIsAnErrorAtOnce) {
  const IndexedDataset data(write("bad", {{}, {7}, {513, 2}, {5}}));
  const auto refused = [&](std::int64_t least) {
    return error_of(ErrorCode::kConfiguration, [&] {
      build_sentence_mapping(data, {0, 4},
                             {.samples = 9, .max_length = 20, .min_sentences = least});
    });
  };
  EXPECT_THAT(refused(2),
              AllOf(HasSubstr("none of 4 documents"), HasSubstr("3 have fewer than 2 sentences"),
                    HasSubstr("1 have a sentence of more than 512 tokens"),
                    HasSubstr("--split-sentences")));
  // One sentence suffices: a long one, too.
  EXPECT_EQ(build_sentence_mapping(data, {1, 2}, {.max_length = 20}).size(), 1);
  EXPECT_THAT(error_of(ErrorCode::kConfiguration,
                       [&] {
                         build_sentence_mapping(data, {0, 4}, {.max_length = 1});
                       }),
              HasSubstr("--seq-length"));
}

TEST_F(SentenceMappingTest, PollEndsIt) {
  SentenceMappingOptions options{.samples = std::int64_t{1} << 31, .max_length = 21};
  int polls = 0;
  options.poll = [&] {
    if (++polls == 3) throw 1;
  };
  EXPECT_THROW(build(options), int);
}

TEST_F(SentenceMappingTest, TheCacheKeepsRows) {
  const IndexCache cache(directory_ / "cache");
  const IndexedDataset data = toy();
  const IndexRange all{0, data.documents()};
  std::size_t files = 0;
  const auto check = [&](const IndexedDataset& file, IndexRange documents,
                         const SentenceMappingOptions& options) {
    const Spans built = spans_of(build_sentence_mapping(file, documents, options));
    for (int start = 0; start < 2; ++start) {
      const auto cached = cached_sentence_mapping(file, documents, options, cache);
      EXPECT_EQ(spans_of(cached), built);
      EXPECT_NE(cached.file, "");
    }
    ++files;
    const auto names = std::filesystem::directory_iterator(directory_ / "cache");
    EXPECT_EQ(static_cast<std::size_t>(std::distance(begin(names), end(names))), files);
  };
  // Everything that decides the rows has a file of its own.
  check(data, all, {.samples = 20, .max_length = 21});
  check(data, all, {.samples = 21, .max_length = 21});
  check(data, all, {.max_length = 21});
  check(data, all, {.samples = 20, .max_length = 20});
  check(data, all, {.samples = 20, .max_length = 21, .short_seq_prob = 0.1001});
  check(data, all, {.samples = 20, .max_length = 21, .seed = 1});
  check(data, all, {.samples = 20, .max_length = 21, .min_sentences = 2});
  check(data, all, {.samples = 20, .max_length = 21, .largest_narrow = 3});
  check(data, {0, 6}, {.samples = 20, .max_length = 21});
  // The same sentences in other documents.
  auto lengths = testing::kToyLengths;
  lengths[2].pop_back();
  lengths[3].insert(lengths[3].begin(), 7);
  const IndexedDataset other(write("other", lengths));
  check(other, {0, 7}, {.samples = 20, .max_length = 21});
}

TEST_F(SentenceMappingTest, ADamagedFileIsMadeAnew) {
  const IndexCache cache(directory_ / "cache");
  const IndexedDataset data = toy();
  const SentenceMappingOptions options{.samples = 20, .max_length = 21, .min_sentences = 2};
  const auto cached = [&] { return cached_sentence_mapping(data, {0, 7}, options, cache); };
  const auto made = cached();
  const std::string file = made.file;
  const Spans rows = spans_of(made);
  const auto bytes = std::filesystem::file_size(file);
  for (const std::uintmax_t left : {bytes - 1, bytes - 12, bytes / 2, std::uintmax_t{7}}) {
    std::filesystem::copy_file(file, file + ".cut");
    std::filesystem::resize_file(file + ".cut", left);
    std::filesystem::rename(file + ".cut", file);
    ::testing::internal::CaptureStderr();
    const auto again = cached();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("made anew"));
    EXPECT_EQ(spans_of(again), rows);
    EXPECT_EQ(std::filesystem::file_size(file), bytes);
  }
}

}  // namespace
}  // namespace phalanx
