#include "phalanx/corpus/preprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <random>
#include <span>

#include "phalanx/corpus/test_support.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
    put_file(directory_ / name, text);
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
  EXPECT_EQ(result.text_bytes, 14);
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
      {"{\"text\": \"a\"", "not JSON"},
      {"{\"text\": \"a\"} x", "not JSON"},
      {"{\"text\": \"\xff\"}", "not UTF-8"},
      {"{\"a\": " + std::string(100000, '['), "not JSON"},
      {"[1]", "object is expected, got array"},
      {"{\"Text\": \"a\"}", "no key \"text\""},
      {"{\"text\": 7}", "\"text\" is number"},
      {"{\"text\": null}", "\"text\" is null"},
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
  options_.max_document_bytes = 21;
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { run(); }), HasSubstr("a.jsonl:1: a line of 22"));
  options_.max_document_bytes = 22;
  run();
}

TEST_F(PreprocessTest, Progress) {
  add_input("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"c\"}\n");
  options_.progress_interval = 2;
  options_.batch_bytes = 1;
  std::vector<PreprocessProgress> calls;
  options_.progress = [&](const PreprocessProgress& progress) { calls.push_back(progress); };
  run();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].documents, 2);
  EXPECT_EQ(calls[0].bytes_read, 28);
  EXPECT_EQ(calls[0].text_bytes, 26);
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
  refused([](auto& o) { o.partitions = 0; }, "--partitions 0");
  refused([](auto& o) { o.skip_bad_lines = -1; }, "--skip-bad-lines -1");
  refused([](auto& o) { o.skip_bad_lines = 1; }, "plain text has no bad lines");
  refused([](auto& o) { o.max_document_bytes = 0; }, "--max-document-bytes 0");
  refused([](auto& o) { o.sentences.keep_newlines = true; }, "--split-sentences");
  refused([](auto& o) { o.inputs = {"-", "-"}; }, "only once");
  refused([](auto& o) { o.inputs = {"-"}, o.partitions = 2; }, "cannot be cut");
  refused([](auto& o) { o.split_on_blank_lines = true, o.document_separator = "x"; }, "exclude");
  refused([](auto& o) { o.split_on_blank_lines = true, o.format = CorpusFormat::kJsonLines; },
          "plain text");
}

TEST_F(PreprocessTest, BadLinesAreLeftOut) {
  add_input("a.jsonl", "{\"text\": \"a\"}\nbad\n\n{\"text\": 7}\n{\"text\": \"b\"}\n{}\n");
  add_input("b.jsonl", "{\"text\": \"" + std::string(300, 'x') + "\"}\n{\"text\": \"c\"}");
  options_.max_document_bytes = 100;
  options_.skip_bad_lines = 4;
  std::vector<std::string> problems;
  options_.skipped = [&](const std::string& problem) { problems.push_back(problem); };
  for (const std::size_t batch : {1, 1000}) {
    options_.batch_bytes = batch;
    problems.clear();
    const auto result = run();
    EXPECT_EQ(result.skipped_lines, 4);
    EXPECT_EQ(result.documents, 3);
    EXPECT_THAT(text_documents(),
                ElementsAre(ElementsAre("a"), ElementsAre("b"), ElementsAre("c")));
    EXPECT_THAT(problems,
                ElementsAre(HasSubstr("a.jsonl:2: not JSON"), HasSubstr("a.jsonl:4: "),
                            HasSubstr("a.jsonl:6: "), HasSubstr("b.jsonl:1: a line of 312 bytes")));
  }
  options_.skip_bad_lines = 3;
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { run(); }),
              AllOf(HasSubstr("b.jsonl:1: "), HasSubstr("number 4; --skip-bad-lines 3")));
}

TEST_F(PreprocessTest, LongTextsAreRefused) {
  add_input("a.txt", "one\n\n" + std::string(50, 'x') + "\n\ntwo");
  options_.max_document_bytes = 49;
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { run(); }), HasSubstr("--max-document-bytes"));
  options_.split_on_blank_lines = true;
  for (const std::size_t batch : {1, 1000}) {
    options_.batch_bytes = batch;
    EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { run(); }), HasSubstr("a.txt"));
  }
  options_.max_document_bytes = 50;
  run();
}

TEST_F(PreprocessTest, SentencesAreSequences) {
  add_input("a.jsonl",
            "{\"text\": \"One. Two!\\n\"}\n{\"text\": [\"Ab.  Cd.\", \"\", \"E.\"]}\n"
            "{\"text\": \" \"}\n");
  options_.split_sentences = true;
  options_.append_eod = true;
  const auto result = run();
  EXPECT_THAT(
      documents_of(directory_ / "out_text_sentence"),
      ElementsAre(ElementsAre("One.", "Two!$"), ElementsAre("Ab.", "Cd.", "E.$"), IsEmpty()));
  EXPECT_EQ(result.sequences, 5);
  options_.sentences.keep_newlines = true;
  run();
  EXPECT_THAT(documents_of(directory_ / "out_text_sentence"),
              ElementsAre(ElementsAre("One. ", "Two!\n$"), ElementsAre("Ab.  ", "Cd.", "E.$"),
                          ElementsAre(" $")));
}

// Random lines of JSON, some of them bad, in files that are compressed or not: the output is the
// same for any number of workers and partitions and any size of batches.
TEST_F(PreprocessTest, NothingButTheTextDecides) {
  std::mt19937 random(15);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::string> texts(3);
    for (auto& text : texts) {
      for (auto lines = random() % 60; lines > 0; --lines) {
        const auto words = std::string(random() % 90, static_cast<char>('a' + random() % 26));
        text += random() % 8 == 0
                    ? "bad\n"
                    : fmt::format("{{\"k\": {}, \"text\": [\"{}. B\", \"\"]}}\n", random(), words);
      }
    }
    texts[2] += "{\"text\": \"last\"}";
    options_.split_sentences = round % 2 == 0;
    options_.append_eod = round % 3 == 0;
    options_.skip_bad_lines = 1000;
    const auto output =
        directory_ / (options_.split_sentences ? "out_text_sentence" : "out_text_document");
    std::string idx, bin;
    std::int64_t skipped = 0;
    for (int variant = 0; variant < 7; ++variant) {
      options_.inputs.clear();
      for (std::size_t f = 0; f < texts.size(); ++f) {
        const auto& text = texts[f];
        add_input(fmt::format("{}.jsonl", f), variant % 3 == 1   ? testing::gzip_of(text)
                                              : variant % 3 == 2 ? testing::zstd_of(text)
                                                                 : text);
      }
      options_.workers = 1 + variant % 4;
      options_.partitions = variant < 4 ? 1 : 1 + static_cast<std::int64_t>(random() % 9);
      options_.batch_bytes = variant == 0 ? 1 << 20 : 1 + random() % 200;
      const auto result = run();
      if (variant == 0) {
        idx = read_file(output + ".idx");
        bin = read_file(output + ".bin");
        skipped = result.skipped_lines;
      }
      ASSERT_EQ(read_file(output + ".idx"), idx) << variant;
      ASSERT_EQ(read_file(output + ".bin"), bin) << variant;
      EXPECT_EQ(result.skipped_lines, skipped);
    }
  }
}

TEST_F(PreprocessTest, CompletePartitionsAreNotMadeAgain) {
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += fmt::format("{{\"text\": \"line {}\"}}\n", i);
  add_input("a.jsonl", lines);
  run();
  const auto idx = read_file(directory_ / "out_text_document.idx");
  const auto bin = read_file(directory_ / "out_text_document.bin");
  std::filesystem::remove(directory_ / "out_text_document.idx");
  std::filesystem::remove(directory_ / "out_text_document.bin");
  options_.partitions = 4;
  // Stops in the third partition.
  std::atomic<int> encoded = 0;
  const auto counted = [&](std::string_view text) {
    ++encoded;
    return encode_bytes(text);
  };
  options_.stop_requested = [&] { return encoded > 60; };
  EXPECT_THAT(error_of(ErrorCode::kTemporary, [&] { preprocess(options_, counted); }),
              HasSubstr("goes on from there"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "out_text_document.idx"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "out.partition-0002-of-0004.json"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "out.partition-0003-of-0004.json"));
  EXPECT_FALSE(
      std::filesystem::exists(directory_ / "out_text_document.partition-0003-of-0004.bin"));
  options_.stop_requested = nullptr;
  encoded = 0;
  const auto result = preprocess(options_, counted);
  EXPECT_LT(encoded, 60);
  EXPECT_EQ(result.reused_partitions, 2);
  EXPECT_EQ(result.documents, 100);
  EXPECT_EQ(read_file(directory_ / "out_text_document.idx"), idx);
  EXPECT_EQ(read_file(directory_ / "out_text_document.bin"), bin);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory_ / "")) {
    ++files;
  }
  EXPECT_EQ(files, 3);  // the input and the output
  // Other settings: nothing of it is used.
  options_.stop_requested = [&] { return encoded > 60; };
  encoded = 0;
  error_of(ErrorCode::kTemporary, [&] { preprocess(options_, counted); });
  options_.stop_requested = nullptr;
  options_.append_eod = true;
  EXPECT_EQ(preprocess(options_, counted).reused_partitions, 0);
}

// The line of a fault is that of the file, also in a part of it.
TEST_F(PreprocessTest, FaultsOfPartitionsNameTheLine) {
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += i == 83 ? "bad\n" : "{\"text\": \"a\"}\n";
  add_input("a.jsonl", lines);
  options_.partitions = 7;
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { run(); }), HasSubstr("a.jsonl:84: not JSON"));
}

TEST_F(PreprocessTest, TheTokenizersFaultsHaveAPlace) {
  add_input("a.txt", "fine\n\n\nfault\n");
  options_.split_on_blank_lines = true;
  const auto encode = [](std::string_view text) {
    if (text == "fault") throw DataError("no encoding");
    return encode_bytes(text);
  };
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { preprocess(options_, encode); }),
              HasSubstr("a.txt:4: no encoding"));
}

TEST_F(PreprocessTest, AStoppedRunLeavesNothing) {
  add_input("a.jsonl", "{\"text\": \"a\"}\n");
  options_.stop_requested = [] { return true; };
  error_of(ErrorCode::kTemporary, [&] { run(); });
  EXPECT_FALSE(std::filesystem::exists(directory_ / "out_text_document.bin"));
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / "")) {
    left.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(left, ElementsAre("a.jsonl"));
}

TEST_F(PreprocessTest, PatternsOfNames) {
  for (const char* name : {"b.jsonl", "a.jsonl", "c.txt", "x*.txt"}) add_input(name, "{}");
  const auto files = [&](const std::vector<std::string>& names) {
    std::vector<std::string> patterns;
    for (const auto& name : names) patterns.push_back(directory_ / name);
    return matching_files(patterns);
  };
  EXPECT_THAT(files({"c.txt", "*.jsonl", "none.txt"}),
              ElementsAre(directory_ / "c.txt", directory_ / "a.jsonl", directory_ / "b.jsonl",
                          directory_ / "none.txt"));
  EXPECT_THAT(files({"x*.txt"}), ElementsAre(directory_ / "x*.txt"));
  EXPECT_THAT(files({"[ab].jsonl"}).size(), 2U);
  EXPECT_THAT(error_of(ErrorCode::kInputMissing, [&] { files({"*.gz"}); }), HasSubstr("*.gz"));
  EXPECT_THAT(matching_files({"-"}), ElementsAre("-"));
}

TEST_F(PreprocessTest, NamesTellTheFormat) {
  for (const char* name : {"a.json", "a.ndjson.gz", "a.jsonl.zst"}) {
    options_.inputs.clear();
    add_input(name, "{\"text\": \"a\"}");
    run();
    EXPECT_THAT(text_documents(), ElementsAre(ElementsAre("a")));
  }
}

// Whatever a file is called, and whether it is compressed.
TEST_F(PreprocessTest, ContentTellsTheFormat) {
  for (const char* name : {"wiki_00", "part-00000", "x.gz", "a.raw"}) {
    options_.inputs.clear();
    add_input(name, testing::gzip_of("{\"text\": \"a\"}\n{\"text\": \"b\"}\n"));
    run();
    EXPECT_THAT(text_documents(), ElementsAre(ElementsAre("a"), ElementsAre("b"))) << name;
  }
  add_input("prose", "One.\n{\n");
  run();
  EXPECT_THAT(text_documents(),
              ElementsAre(ElementsAre("a"), ElementsAre("b"), ElementsAre("One.\n{\n")));
  options_.inputs.clear();
  add_input("a.txt", "{\"text\": \"a\"}\n");
  EXPECT_THAT(error_of(ErrorCode::kConfiguration, [&] { run(); }),
              AllOf(HasSubstr("a.txt: "), HasSubstr("--format jsonl")));
  options_.format = CorpusFormat::kJsonLines;
  run();
  EXPECT_THAT(text_documents(), ElementsAre(ElementsAre("a")));
}

// Nothing is encoded before all files are looked at.
TEST_F(PreprocessTest, AFileThatContradictsIsToldFirst) {
  add_input("a.jsonl", "{\"text\": \"a\"}\n");
  add_input("b.txt", "{\"text\": \"a\"}\n");
  const auto encode = [](std::string_view) -> std::vector<std::int32_t> {
    ADD_FAILURE();
    return {};
  };
  error_of(ErrorCode::kConfiguration, [&] { preprocess(options_, encode); });
}

TEST_F(PreprocessTest, AByteOrderMarkIsLeftOut) {
  add_input("a.txt",
            "\xef\xbb\xbf"
            "One.\n\nTwo.\n\n\xef\xbb\xbfThree.");
  options_.split_on_blank_lines = true;
  for (const std::int64_t partitions : {1, 2}) {
    options_.partitions = partitions;
    run();
    EXPECT_THAT(text_documents(), ElementsAre(ElementsAre("One."), ElementsAre("Two."),
                                              ElementsAre("\xef\xbb\xbfThree.")));
  }
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
