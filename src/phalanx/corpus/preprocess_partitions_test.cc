#include "phalanx/corpus/preprocess_partitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "phalanx/corpus/test_support.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

std::vector<std::string> documents_of(const std::vector<CorpusSegment>& segments) {
  std::vector<std::string> documents;
  CorpusReader reader(segments, {.batch_bytes = 5}, nullptr);
  TextBatch batch;
  while (reader.next(batch)) {
    for (std::size_t i = 0; i < batch.documents.size(); ++i) {
      documents.emplace_back(batch.document(i));
    }
  }
  return documents;
}

// However the files are cut, the documents are the same, and none is empty.
TEST(PartitionSegments, DocumentsAreTheSame) {
  const TemporaryDirectory directory;
  std::mt19937 random(11);
  const std::vector<CorpusRules> all_rules = {
      {CorpusFormat::kJsonLines, false, ""}, {CorpusFormat::kText, true, ""},
      {CorpusFormat::kText, false, ""},      {CorpusFormat::kText, false, "|"},
      {CorpusFormat::kText, false, "ab"},    {CorpusFormat::kText, false, "aba"}};
  const std::vector<std::string> pieces = {"a", "b", "ab", "|", "\n", "\n\n", "\r\n", " \n", "xyz"};
  for (int i = 0; i < 300; ++i) {
    const CorpusRules& rules = all_rules[i % all_rules.size()];
    std::vector<CorpusSegment> files;
    for (int f = 0; f < 3; ++f) {
      std::string text;
      for (auto n = random() % 40; n > 0; --n) text += pieces[random() % pieces.size()];
      const auto path = directory / std::to_string(f);
      put_file(path, random() % 4 == 0 ? testing::gzip_of(text) : text);
      files.push_back({.path = path, .rules = rules});
    }
    const auto expected = documents_of(files);
    for (const std::int64_t count : {1, 2, 3, 7, 50}) {
      std::vector<std::string> documents;
      const auto partitions = partition_segments(files, count);
      ASSERT_EQ(std::ssize(partitions), count);
      for (const auto& segments : partitions) {
        const auto some = documents_of(segments);
        documents.insert(documents.end(), some.begin(), some.end());
      }
      ASSERT_EQ(documents, expected) << "rules " << i % all_rules.size() << ", " << count;
    }
  }
}

TEST(PartitionSegments, PartsAreAboutEqual) {
  const TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "0123456789abcde\n";
  put_file(directory / "a", lines);
  const std::vector<CorpusSegment> files{
      {.path = directory / "a", .rules = {CorpusFormat::kJsonLines, false, ""}}};
  const auto partitions = partition_segments(files, 4);
  for (std::int64_t p = 0; p < 4; ++p) {
    const auto& segments = partitions[p];
    ASSERT_EQ(segments.size(), 1U);
    EXPECT_EQ(segments[0].range.begin, 4000 * p);
    EXPECT_EQ(segments[0].range.end, 4000 * (p + 1));
  }
}

TEST(PartitionRecord, IsForTheSameWorkAlone) {
  const TemporaryDirectory directory;
  put_file(directory / "in", "text");
  testing::write_counting_dataset(directory / "d", {3, 4});
  const std::vector<CorpusSegment> segments{{.path = directory / "in"}};
  const std::vector<std::string> data{directory / "d"};
  const auto record = [&](const std::string& settings, const std::vector<CorpusSegment>& parts) {
    return PartitionRecord(directory / "r.json", settings, parts);
  };
  EXPECT_FALSE(record("s", segments).read(data));
  record("s", segments).write({.documents = 2, .empty_documents = 1, .text_bytes = 9});
  const auto counts = record("s", segments).read(data);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->documents, 2);
  EXPECT_EQ(counts->empty_documents, 1);
  EXPECT_EQ(counts->text_bytes, 9);
  EXPECT_FALSE(record("other", segments).read(data));
  EXPECT_FALSE(record("s", {{.path = directory / "in", .range = {0, 2}}}).read(data));
  EXPECT_FALSE(record("s", {}).read(data));
  EXPECT_FALSE(record("s", segments).read(std::vector<std::string>{directory / "gone"}));
  // What was read is not what is there.
  const auto before = record("s", segments);
  put_file(directory / "in", "texts");
  EXPECT_FALSE(record("s", segments).read(data));
  error_of(ErrorCode::kBadData, [&] { before.write({}); });
  // Anything may stand in the file.
  for (const char* damaged : {"", "{", "[]", "{\"work\": 7}", "{\"work\": \"\"}"}) {
    put_file(directory / "r.json", damaged);
    EXPECT_FALSE(record("s", segments).read(data));
  }
}

TEST(RemovePartitions, TakesNothingElse) {
  const TemporaryDirectory directory;
  const std::vector<std::string> outputs{directory / "out_text_document"};
  for (const char* name :
       {"out.partition-0001-of-0002.json", "out_text_document.partition-0001-of-0002.bin",
        "out_text_document.partition-0002-of-0009.idx", "out_text_document.bin",
        "out_text_document.partition-1-of-x.bin", "out_body_document.partition-0001-of-0002.bin",
        "out.partition-0001-of-0002.txt"}) {
    put_file(directory / name, "x");
  }
  remove_partitions(directory / "out", outputs);
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "")) {
    left.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("out_text_document.bin",
                                                    "out_text_document.partition-1-of-x.bin",
                                                    "out_body_document.partition-0001-of-0002.bin",
                                                    "out.partition-0001-of-0002.txt"));
}

}  // namespace
}  // namespace phalanx
