#include "phalanx/corpus/document_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <thread>

#include "phalanx/corpus/test_support.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CorpusWorkTest : public ::testing::Test {
 protected:
  void add_input(const std::string& name, std::string_view text) {
    put_file(directory_ / name, text);
    options_.inputs.emplace_back(directory_ / name);
  }
  // Sorted: with several threads they come in any order.
  std::vector<std::string> texts() const {
    std::mutex mutex;
    std::vector<std::string> all;
    for_each_corpus_text(options_, [&](std::string_view text) {
      const std::lock_guard lock(mutex);
      all.emplace_back(text);
    });
    std::sort(all.begin(), all.end());
    return all;
  }
  TemporaryDirectory directory_;
  CorpusOptions options_;
};

TEST_F(CorpusWorkTest, ReadsEveryKindOfFile) {
  add_input("a.jsonl", "{\"text\": \"1\", \"b\": \"no\"}\n{\"text\": [\"2\", \"3\"]}\n");
  add_input("b", testing::gzip_of("{\"text\": \"4\"}\n"));
  add_input("c.txt",
            "\xef\xbb\xbf"
            "5\n");
  EXPECT_THAT(texts(), ElementsAre("1", "2", "3", "4", "5\n"));
  options_.workers = 3;
  options_.batch_bytes = 1;
  EXPECT_THAT(texts(), ElementsAre("1", "2", "3", "4", "5\n"));
  options_.inputs = {directory_ / "a.jsonl"};
  options_.json_keys = {"b"};
  options_.skip_bad_lines = 1;
  EXPECT_THAT(texts(), ElementsAre("no"));
  options_.inputs = {directory_ / "c.txt"};
  EXPECT_THAT(error_of(ErrorCode::kConfiguration, [&] { texts(); }), HasSubstr("--json-keys"));
}

TEST_F(CorpusWorkTest, PipesAreReadButOnce) {
  const auto read_pipe = [&](const std::string& text) {
    const auto path = directory_ / "pipe";
    std::filesystem::remove(path);
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    options_.inputs = {path};
    const std::jthread writer([&] { std::ofstream(path, std::ios::binary) << text; });
    return texts();
  };
  EXPECT_THAT(read_pipe("{\"text\": \"1\"}\n{\"text\": \"2\"}\n"), ElementsAre("1", "2"));
  EXPECT_THAT(read_pipe(testing::zstd_of("{\"text\": \"1\"}\n")), ElementsAre("1"));
  EXPECT_THAT(read_pipe("One.\nTwo.\n"), ElementsAre("One.\nTwo.\n"));
  options_.split_on_blank_lines = true;
  EXPECT_THAT(error_of(ErrorCode::kConfiguration, [&] { read_pipe("{\"text\": \"1\"}\n"); }),
              HasSubstr("--split-on-blank-lines"));
  EXPECT_THAT(error_of(ErrorCode::kBadData,
                       [&] {
                         read_pipe(
                             "\xff\xfe"
                             "a");
                       }),
              HasSubstr("UTF-16"));
}

// A text beyond memory comes in pieces, which end where they may.
TEST_F(CorpusWorkTest, TextsAreCutWhereTheyMayBe) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i) + (i % 5 == 0 ? "|" : " ");
  add_input("a.txt", text);
  options_.batch_bytes = 1000;
  options_.max_document_bytes = 2000;
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { texts(); }), HasSubstr("--max-document-bytes"));
  options_.cut_text = [](std::string_view piece) { return piece.rfind('|') + 1; };
  std::string together;
  std::size_t longest = 0;
  for_each_corpus_text(options_, [&](std::string_view piece) {
    EXPECT_TRUE(piece.back() == '|' || together.size() + piece.size() == text.size());
    longest = std::max(longest, piece.size());
    together += piece;
  });
  EXPECT_EQ(together, text);
  EXPECT_LE(longest, 1000U);
}

TEST_F(CorpusWorkTest, BytesThatAreNoUtf8AreWarnedOf) {
  std::vector<std::string> warnings;
  options_.warned = [&](const std::string& problem) { warnings.push_back(problem); };
  options_.batch_bytes = 4;
  options_.split_on_blank_lines = true;
  add_input("a.txt", "one\n\ntwo\ncaf\xe9\n\n\xff\n");
  add_input("b.txt", "caf\xc3\xa9\n");
  EXPECT_THAT(texts(), ElementsAre("caf\xc3\xa9", "one", "two\ncaf\xe9", "\xff"));
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("a.txt:4: not UTF-8")));
  warnings.clear();
  options_.split_on_blank_lines = false;
  options_.inputs.clear();
  add_input("c.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\xe9\"}\n");
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { texts(); }),
              HasSubstr("c.jsonl:2: not UTF-8, as JSON must be (at byte "));
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(CorpusWorkTest, EmptyFilesGoWithAllOptions) {
  add_input("a", "{\"b\": \"1\", \"c\": \"2\"}\n");
  add_input("empty.txt", "");
  add_input("blank", "\n\n");
  options_.json_keys = {"b", "c"};
  EXPECT_THAT(texts(), ElementsAre("1", "2"));
  options_.inputs.erase(options_.inputs.begin());
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { texts(); }), HasSubstr("no document"));
}

}  // namespace
}  // namespace phalanx
