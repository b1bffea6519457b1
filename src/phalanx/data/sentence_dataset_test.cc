#include "phalanx/data/sentence_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "phalanx/base/file.h"
#include "phalanx/data/test_files.h"
#include "phalanx/data/toy_corpus.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

class SentenceDatasetTest : public ::testing::Test {
 protected:
  SentenceDatasetTest() { testing::write_sentences(prefix_, testing::kToyLengths); }

  SentenceDataset open(IndexRange documents = {0, 7}) const {
    return SentenceDataset(std::make_shared<const IndexedDataset>(prefix_), documents, 42, options_,
                           &cache_);
  }
  // Puts other rows into the file of the cache, as if they had been built.
  void forge(const std::vector<std::uint32_t>& rows, std::size_t extra_bytes = 0) const {
    std::string description;
    std::filesystem::remove_all(directory_ / "cache");
    {
      const SentenceDataset built = open();
      const MappedFile file(built.mapping().file);
      std::uint32_t length = 0;
      std::memcpy(&length, file.bytes().data() + 12, sizeof length);
      description.assign(reinterpret_cast<const char*>(file.bytes().data()) + 40, length);
    }
    std::vector<std::byte> bytes(rows.size() * 4 + extra_bytes);
    if (!rows.empty()) std::memcpy(bytes.data(), rows.data(), rows.size() * 4);
    cache_.put({.name = "sentences", .description = description, .bytes = std::nullopt}, bytes);
  }

  TemporaryDirectory directory_;
  std::string prefix_ = directory_ / "toy";
  IndexCache cache_{directory_ / "cache"};
  SentenceMappingOptions options_{.samples = 20, .max_length = 21, .min_sentences = 2};
};

TEST_F(SentenceDatasetTest, ReadsAcrossSentences) {
  const SentenceDataset data = open();
  EXPECT_EQ(data.length(0, 3), 19);
  EXPECT_EQ(data.length(3, 3), 0);
  Ids whole(19);
  data.read(0, 3, 0, whole);
  EXPECT_THAT(Ids(whole.begin(), whole.begin() + 6), ElementsAre(5, 17, 36, 17, 20, 27));
  for (std::int64_t offset = 0; offset <= 19; ++offset) {
    for (std::int64_t count = 0; offset + count <= 19; ++count) {
      Ids part(static_cast<std::size_t>(count));
      data.read(0, 3, offset, part);
      EXPECT_EQ(part, Ids(whole.begin() + offset, whole.begin() + offset + count));
    }
  }
  Ids more(20);
  error_of(ErrorCode::kBadData, [&] { data.read(0, 3, 0, more); });
}

// Whoever can write the cache can have a run end, and no more.
TEST_F(SentenceDatasetTest, RowsOfAFileAreChecked) {
  const auto refused = [&](const std::vector<std::uint32_t>& row) {
    forge(row);
    const SentenceDataset data = open();
    EXPECT_EQ(data.size(), 1);
    EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { data.span(0); }),
                HasSubstr("no place in " + prefix_ + ".idx"));
  };
  refused({0, 21, 21});           // behind the last sentence
  refused({0, 0xffffffffU, 21});  // far behind it
  refused({3, 3, 21});            // no sentence
  refused({3, 4, 21});            // one, where two are needed
  refused({4, 3, 21});
  refused({0, 3, 22});  // more than fits
  refused({0, 3, 1});
  forge({0, 3, 21});
  EXPECT_EQ(open().span(0), (SentenceSpan{0, 3, 21}));
  forge({0, 3, 21}, 4);
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { open(); }), HasSubstr("16 bytes"));
  forge({});
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { open(); }), HasSubstr("0 bytes"));
}

TEST_F(SentenceDatasetTest, SentencesOfOtherDocumentsAreNotItsOwn) {
  const SentenceDataset data = open({2, 5});
  for (std::int64_t i = 0; i < data.size(); ++i) EXPECT_GE(data.span(i).first, 3);
  EXPECT_EQ(data.text_of(0).substr(0, 9), "sample 0 ");
}

TEST_F(SentenceDatasetTest, CoordinatesOfRows) {
  Ids position(4);
  Ids position_ids(4);
  Ids document(4);
  fill_coordinates(position, position_ids, document, 3);
  EXPECT_THAT(position, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(position_ids, position);
  EXPECT_THAT(document, ElementsAre(0, 0, 0, -1));
}

}  // namespace
}  // namespace phalanx
