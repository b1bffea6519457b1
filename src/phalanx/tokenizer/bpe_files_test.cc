#include "phalanx/tokenizer/bpe_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/tokenizer/test_files.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using tokenizer_test::make_tables;
using tokenizer_test::VocabularyDirectory;

constexpr std::string_view kMerges = "#version: 0.2\na b\n\u0120 ab\n";

// Valid files; each test breaks one.
class BpeFiles : public testing::Test {
 protected:
  BpeFiles() {
    write_bpe_files(make_tables({{"a", "b"}, {" ", "ab"}}), vocab_, merges_);
    vocab_text_ = read_file(vocab_);
  }

  BpeTables read() const { return read_bpe_files(vocab_, merges_); }

  // The error message for a vocab.json (or merges.txt) with this text; it must name the file.
  std::string vocab_error(std::string_view text) const {
    directory_.write("vocab.json", text);
    const std::string message = error_of<DataError>([this] { read(); });
    EXPECT_THAT(message, StartsWith(vocab_.string()));
    return message;
  }
  std::string merges_error(std::string_view text) const {
    directory_.write("merges.txt", text);
    const std::string message = error_of<DataError>([this] { read(); });
    EXPECT_THAT(message, StartsWith(merges_.string()));
    return message;
  }
  // The valid vocabulary with its first `from` replaced.
  std::string vocab_with(std::string_view from, std::string_view to) const {
    std::string text = vocab_text_;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }

  VocabularyDirectory directory_;
  std::filesystem::path vocab_ = directory_.file("vocab.json");
  std::filesystem::path merges_ = directory_.file("merges.txt");
  std::string vocab_text_;
};

TEST_F(BpeFiles, AreWrittenInTheFormatOfGpt2) {
  EXPECT_THAT(vocab_text_, StartsWith(R"({"!": 0, "\"": 1, "#": 2, )"));
  EXPECT_THAT(
      vocab_text_,
      testing::EndsWith(R"("\u0143": 255, "ab": 256, "\u0120ab": 257, "<|endoftext|>": 258})"));
  EXPECT_EQ(read_file(merges_), kMerges);
}

TEST_F(BpeFiles, AreReadBack) {
  const BpeTables tables = read();
  const BpeTables expected = make_tables({{"a", "b"}, {" ", "ab"}});
  EXPECT_EQ(tables.tokens, expected.tokens);
  EXPECT_EQ(tables.merges, expected.merges);
  EXPECT_EQ(tables.end_of_text, 258);
}

TEST_F(BpeFiles, VariantsAreAccepted) {
  const auto expected = make_tables({{"a", "b"}, {" ", "ab"}}).merges;
  for (const char* text : {"a b\n\u0120 ab", "#version: 0.2\r\na b\r\n\u0120 ab\r\n",
                           "#version: 0.2\na b\n\u0120 ab\n\n\n"}) {
    directory_.write("merges.txt", text);
    EXPECT_EQ(read().merges, expected) << text;
  }
  for (const char* text : {"", "\n", "#version: 0.2", "#version: 0.2\n"}) {
    directory_.write("merges.txt", text);
    EXPECT_TRUE(read().merges.empty()) << text;
  }
  // Ids may be in any order, and the end of text anywhere.
  directory_.write("merges.txt", "");
  directory_.write("vocab.json", vocab_with(R"("!": 0,)", R"("!": 258,)"));
  std::string moved = read_file(vocab_);
  moved.replace(moved.find(R"(>": 258)"), 7, R"(>": 0)");
  directory_.write("vocab.json", moved);
  EXPECT_EQ(read().end_of_text, 0);
  EXPECT_EQ(read().tokens[258], "!");
}

TEST_F(BpeFiles, MissingFiles) {
  const auto none = directory_.file("none");
  EXPECT_THAT(error_of<InputMissingError>([&] { read_bpe_files(none, merges_); }),
              HasSubstr(none.string()));
  EXPECT_THAT(error_of<InputMissingError>([&] { read_bpe_files(vocab_, none); }),
              HasSubstr(none.string()));
}

TEST_F(BpeFiles, VocabMustBeAJsonObjectOfIds) {
  EXPECT_THAT(vocab_error(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(vocab_error(R"({"a": 0)"), HasSubstr("not valid JSON"));
  EXPECT_THAT(vocab_error(vocab_text_ + "x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(vocab_error("{\"\xff\": 0}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(vocab_error(R"(["a"])"), HasSubstr("one JSON object {token: id}, not an array"));
  EXPECT_THAT(vocab_error("7"), HasSubstr("one JSON object {token: id}, not a number"));
  EXPECT_THAT(vocab_error("null"), HasSubstr("one JSON object {token: id}, not null"));
  for (const auto& [value, found] : std::vector<std::pair<std::string, std::string>>{
           {"-1", "a negative number"},
           {"1.0", "a number that is no integer"},
           {"99999999999999999999", "a number that is no integer"},
           {"\"7\"", "a string"},
           {"null", "null"},
           {"true", "a boolean"},
           {"[7]", "an array"},
           {"{}", "an object"}}) {
    EXPECT_THAT(vocab_error(vocab_with("\"%\": 4", "\"%\": " + value)),
                HasSubstr("key \"%\": expected an id (an integer from 0), not " + found));
  }
  EXPECT_THAT(vocab_error(std::string(100000, '[')), HasSubstr("not an array"));
}

TEST_F(BpeFiles, VocabIdsMustBeUniqueAndDense) {
  EXPECT_THAT(vocab_error(vocab_with("\"%\": 4", "\"%\": 4294967300")),
              HasSubstr("key \"%\": id 4294967300 is too large"));
  EXPECT_THAT(vocab_error(vocab_with("\"%\": 4", "\"%\": 259")),
              HasSubstr("key \"%\" has id 259, but 259 keys must have the ids 0 to 258"));
  EXPECT_THAT(vocab_error(vocab_with("\"%\": 4", "\"%\": 3")),
              HasSubstr(R"(keys "$" and "%" have the same id 3)"));
  EXPECT_THAT(vocab_error(vocab_with("\"%\": 4", "\"%\": 4, \"%\": 4")),
              HasSubstr("key \"%\" comes twice"));
  EXPECT_THAT(vocab_error(vocab_with("\"ab\": 256", "\"\": 256")),
              HasSubstr("the key of id 256 is empty"));
}

TEST_F(BpeFiles, VocabMustHoldEveryByteAndTheEndOfText) {
  EXPECT_THAT(vocab_error(vocab_with("\"%\": 4", "\"%%\": 4")),
              HasSubstr("the symbol \"%\" of byte 0x25 is missing"));
  EXPECT_THAT(vocab_error(vocab_with(R"("\u0120": 220)", R"("zz": 220)")),
              HasSubstr(R"(the symbol "\u0120" of byte 0x20 is missing)"));
  EXPECT_THAT(vocab_error(vocab_with("<|endoftext|>", "<|end|>")),
              HasSubstr("<|endoftext|> is missing"));
  EXPECT_THAT(vocab_error(vocab_with("\"ab\": 256", "\"a b\": 256")),
              HasSubstr("key \"a b\" has a character that stands for no byte"));
  EXPECT_THAT(vocab_error("{}"), HasSubstr("the symbol \"!\" of byte 0x21 is missing"));
}

TEST_F(BpeFiles, MalformedMerges) {
  const std::string good = "#version: 0.2\na b\n";
  for (const char* line : {"ab", " b", "a ", "a  b", "a b c", "a\tb", ""}) {
    EXPECT_THAT(merges_error(good + line + "\n\u0120 ab\n"),
                AllOf(HasSubstr("line 3"), HasSubstr("expected two tokens")))
        << line;
  }
  EXPECT_THAT(merges_error(good + "zq b\n"),
              HasSubstr("line 3: the left part \"zq\" is not in the vocabulary"));
  EXPECT_THAT(merges_error(good + "a zq\n"),
              HasSubstr("line 3: the right part \"zq\" is not in the vocabulary"));
  EXPECT_THAT(merges_error(good + "b a\n"),
              HasSubstr("line 3: the result \"ba\" is not in the vocabulary"));
  EXPECT_THAT(merges_error(good + "\u0120 ab\na b\n"),
              HasSubstr("line 4: the merge of line 2 again"));
  EXPECT_THAT(merges_error("a b\n\xff\xfe b\n"), HasSubstr("line 2: the left part"));
  EXPECT_THAT(merges_error("< |endoftext|>\n"), HasSubstr("line 1: a merge may not make"));
}

TEST_F(BpeFiles, RandomDamageNeverCrashes) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string vocab = vocab_text_;
    std::string merges(kMerges);
    std::string& text = i % 3 == 0 ? merges : vocab;
    for (std::size_t n = 1 + random() % 3; n > 0; --n) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    if (i % 5 == 0) text.resize(random() % text.size());
    directory_.write("vocab.json", vocab);
    directory_.write("merges.txt", merges);
    try {
      read();
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(i % 3 == 0 ? "merges.txt" : ".json"));
    }
  }
}

}  // namespace
}  // namespace phalanx
