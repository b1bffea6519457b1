#include "phalanx/data/preprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryDirectory;
using testing::write_text;

// One id a byte.
std::vector<std::int32_t> encode_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  std::vector<std::int32_t> ids(bytes.size());
  std::transform(bytes.begin(), bytes.end(), ids.begin(), std::to_integer<std::int32_t>);
  return ids;
}

// The documents of a dataset as lists of texts; end-of-document (256) prints as '$'.
std::vector<std::vector<std::string>> documents_of(const std::string& prefix) {
  const IndexedDataset data(prefix);
  std::vector<std::vector<std::string>> documents;
  for (std::int64_t d = 0; d < data.documents(); ++d) {
    auto& texts = documents.emplace_back();
    for (auto i = data.document_begin(d); i < data.document_begin(d + 1); ++i) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(data.length(i)));
      data.get(i, 0, ids);
      auto& text = texts.emplace_back();
      for (const auto id : ids) text.push_back(id == 256 ? '$' : static_cast<char>(id));
    }
  }
  return documents;
}

class PreprocessTest : public ::testing::Test {
 protected:
  PreprocessTest() {
    options_.output_prefix = directory_ / "out";
    options_.eod = 256;
    options_.vocabulary_size = 257;
  }
  void add_input(const std::string& name, std::string_view text) {
    write_text(directory_ / name, text);
    options_.inputs.emplace_back(directory_ / name);
  }
  PreprocessResult run() const { return preprocess(options_, encode_bytes); }
  auto text_documents() const { return documents_of(directory_ / "out_text_document"); }
  TemporaryDirectory directory_;
  PreprocessOptions options_;
};

TEST_F(PreprocessTest, EachTextFileIsADocument) {
  add_input("a.txt", "one\n\ntwo\n");
  add_input("b.txt", "three");
  options_.append_eod = true;
  const auto result = run();
  EXPECT_THAT(text_documents(), ElementsAre(ElementsAre("one\n\ntwo\n$"), ElementsAre("three$")));
  EXPECT_EQ(result.documents, 2);
  EXPECT_EQ(result.empty_documents, 0);
  EXPECT_EQ(result.tokens, 16);
  EXPECT_EQ(result.bytes_read, 14);
  EXPECT_THAT(result.output_prefixes, ElementsAre(directory_ / "out_text_document"));
  EXPECT_EQ(IndexedDataset(result.output_prefixes[0]).type(), TokenType::kU16);
}

TEST_F(PreprocessTest, BlankLinesCut) {
  add_input("a.txt", "\n\none\nmore\n \t\r\n\ntwo\r\n\r\n   three\n\n\n");
  options_.split_on_blank_lines = true;
  run();
  EXPECT_THAT(text_documents(),
              ElementsAre(ElementsAre("one\nmore"), ElementsAre("two"), ElementsAre("   three")));
}

TEST_F(PreprocessTest, ASeparatorCuts) {
  add_input("a.txt", "one\n<|end|>\ntwo\n\nmore<|end|>\n<|end|>");
  options_.document_separator = "<|end|>";
  run();
  EXPECT_THAT(text_documents(), ElementsAre(ElementsAre("one"), ElementsAre("two\n\nmore")));
}

TEST_F(PreprocessTest, JsonLines) {
  add_input("a.jsonl",
            "{\"text\": \"one\", \"n\": 1}\n"
            "\n"
            "{\"text\": [\"a\", \"\", \"bc\", \"\"]}\r\n"
            "{\"text\": \"\"}\n"
            "{\"text\": []}\n"
            "{\"text\": \"\\u00e9\"}");
  options_.append_eod = true;
  const auto result = run();
  EXPECT_THAT(text_documents(), ElementsAre(ElementsAre("one$"), ElementsAre("a", "bc$"), IsEmpty(),
                                            IsEmpty(), ElementsAre("\xc3\xa9$")));
  EXPECT_EQ(result.documents, 5);
  EXPECT_EQ(result.empty_documents, 2);
}

TEST_F(PreprocessTest, OneOutputPerKey) {
  add_input("a.json",
            "{\"title\": \"t1\", \"body\": \"b1\"}\n{\"body\": \"b2\", \"title\": \"\"}\n");
  options_.json_keys = {"title", "body"};
  const auto result = run();
  EXPECT_THAT(documents_of(directory_ / "out_title_document"),
              ElementsAre(ElementsAre("t1"), IsEmpty()));
  EXPECT_THAT(documents_of(directory_ / "out_body_document"),
              ElementsAre(ElementsAre("b1"), ElementsAre("b2")));
  EXPECT_EQ(result.output_prefixes.size(), 2U);
}

TEST_F(PreprocessTest, MalformedLinesAreNamed) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{\"text\": \"a\"", "not JSON"},           {"{\"text\": \"a\"} x", "not JSON"},
      {"{\"text\": \"\xff\"}", "not JSON"},       {std::string(100000, '['), "not JSON"},
      {"[1]", "object is expected, got array"},   {"{\"Text\": \"a\"}", "no key \"text\""},
      {"{\"text\": 7}", "\"text\" is number"},    {"{\"text\": null}", "\"text\" is null"},
      {"{\"text\": [\"a\", {}]}", "holds object"}};
  for (const auto& [line, problem] : cases) {
    options_.inputs.clear();
    add_input("a.jsonl", "{\"text\": \"fine\"}\n" + line + "\n{\"text\": \"fine\"}\n");
    EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { run(); }),
                AllOf(HasSubstr("a.jsonl:2: "), HasSubstr(problem)));
    EXPECT_FALSE(std::filesystem::exists(directory_ / "out_text_document.bin"));
  }
}

TEST_F(PreprocessTest, LongLinesAreRefused) {
  add_input("a.jsonl", "{\"text\": \"0123456789\"}\n");
  options_.max_line_bytes = 21;
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { run(); }), HasSubstr("a.jsonl:1: a line of 22"));
  options_.max_line_bytes = 22;
  run();
}

TEST_F(PreprocessTest, Progress) {
  add_input("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"c\"}\n");
  options_.progress_interval = 2;
  std::vector<PreprocessProgress> calls;
  options_.progress = [&](const PreprocessProgress& progress) { calls.push_back(progress); };
  run();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].documents, 2);
  EXPECT_EQ(calls[0].bytes_read, 27);
  EXPECT_EQ(calls[1].documents, 3);
  EXPECT_EQ(calls[1].bytes_read, 42);
  EXPECT_EQ(calls[1].bytes_total, 42);
}

// Several batches: the texts are larger than one.
TEST_F(PreprocessTest, WorkersDoNotChangeTheOutput) {
  std::string lines;
  for (int i = 0; i < 50; ++i) {
    lines += "{\"text\": \"" +
             std::string(static_cast<std::size_t>(i * 3001 % 200000), "abc"[i % 3]) + "\"}\n";
  }
  add_input("a.jsonl", lines);
  const auto one = run();
  const auto idx = read_file(directory_ / "out_text_document.idx");
  const auto bin = read_file(directory_ / "out_text_document.bin");
  options_.workers = 3;
  EXPECT_EQ(run().tokens, one.tokens);
  EXPECT_EQ(one.documents, 50);
  EXPECT_EQ(read_file(directory_ / "out_text_document.idx"), idx);
  EXPECT_EQ(read_file(directory_ / "out_text_document.bin"), bin);
  add_input("b.jsonl", "{\"text\": \"fine\"}\n{}\n[]\n");
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { run(); }), HasSubstr("b.jsonl:2: "));
}

TEST_F(PreprocessTest, TheFormatCanBeForced) {
  add_input("a.jsonl", "{\"text\": \"a\"}");
  options_.format = CorpusFormat::kText;
  run();
  EXPECT_THAT(text_documents(), ElementsAre(ElementsAre("{\"text\": \"a\"}")));
}

TEST_F(PreprocessTest, BadOptions) {
  const auto refused = [&](auto change, const char* problem) {
    auto options = options_;
    change(options);
    EXPECT_THAT(error_of(ErrorCode::kConfiguration, [&] { preprocess(options, encode_bytes); }),
                HasSubstr(problem));
  };
  refused([](auto&) {}, "--input");
  add_input("a.txt", "text");
  refused([](auto& o) { o.output_prefix = ""; }, "--output-prefix");
  refused([](auto& o) { o.json_keys.clear(); }, "--json-keys");
  refused([](auto& o) { o.json_keys = {"a", "a"}; }, "twice");
  refused([](auto& o) { o.json_keys = {"body"}; }, "a.txt");
  refused([](auto& o) { o.append_eod = true, o.eod = -1; }, "--append-eod needs");
  refused([](auto& o) { o.append_eod = true, o.eod = 257; }, "outside the vocabulary");
  refused([](auto& o) { o.workers = 0; }, "--workers 0");
  refused([](auto& o) { o.progress_interval = 0; }, "--log-interval 0");
  refused([](auto& o) { o.split_on_blank_lines = true, o.document_separator = "x"; }, "exclude");
  refused([](auto& o) { o.split_on_blank_lines = true, o.format = CorpusFormat::kJsonLines; },
          "plain text");
}

TEST_F(PreprocessTest, MissingAndEmptyInputs) {
  options_.inputs = {directory_ / "none.txt"};
  EXPECT_THAT(error_of(ErrorCode::kInputMissing, [&] { run(); }), HasSubstr("none.txt"));
  options_.inputs.clear();
  add_input("a.jsonl", "\n\n");
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { run(); }), HasSubstr("no document"));
}

}  // namespace
}  // namespace phalanx
