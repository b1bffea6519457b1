#include "phalanx/corpus/text_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/corpus/documents.h"
#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kObject = "{\"text\": \"a\"}\n";
constexpr auto kJson = CorpusFormat::kJsonLines;
constexpr auto kText = CorpusFormat::kText;

CorpusContent content_of(std::string_view text) { return look_at_corpus(text, "f").content; }

std::string repeated(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(CorpusFormat, ContentIsToldByTheLines) {
  const std::string object = kObject;
  EXPECT_EQ(content_of(""), CorpusContent::kBlank);
  EXPECT_EQ(content_of("\n \t\r\n"), CorpusContent::kBlank);
  for (const std::string& lines :
       {object, "\n\n" + object, object + "\r\n" + object, " { \"a\" :[1]} \r\n" + object,
        object + "bad\n" + object, object + "{}\n{}\n", std::string("{\"te\\\"xt\":{}}"),
        std::string("{\"text\": \"\xe9\"}\n"), "{\"text\": \"" + std::string(70'000, 'x'),
        repeated(object, 9000), "\xef\xbb\xbf" + object}) {
    EXPECT_EQ(content_of(lines.substr(0, kCorpusHeadBytes)), CorpusContent::kJsonLines) << lines;
  }
  for (const std::string& text :
       {std::string("Once upon a time\n"), std::string("{}x\n"), std::string("{a: 1}\n"),
        std::string("{ \"quoted\" by hand }\n"), std::string("[1] A footnote\n[2] Another\n"),
        std::string("{\"text\": \"a\"\n"), std::string("int main()\n{}\n{}\nint f();\nint g();\n"),
        "A page about JSON\n" + object + "\nEnd.\n", std::string(70'000, 'x')}) {
    EXPECT_EQ(content_of(text.substr(0, kCorpusHeadBytes)), CorpusContent::kText) << text;
  }
  for (const std::string& lines :
       {"torn\"}\n" + object + object, object + "One.\nTwo.\nThree.\n"}) {
    EXPECT_EQ(content_of(lines), CorpusContent::kMixed) << lines;
  }
  for (const char* document :
       {"{\n  \"text\": \"a\",\n  \"b\": 1\n}\n", "{\"text\": \"a\",\n\"b\": 1}",
        "[{\"text\": \"a\"}]", "[\n  {\n    \"text\": \"a\"\n  }\n]\n"}) {
    EXPECT_EQ(content_of(document), CorpusContent::kJsonDocument) << document;
  }
}

TEST(CorpusFormat, NamesTellSomething) {
  for (const char* name : {"a.json", "d/a.jsonl", "a.ndjson", "a.jsonl.gz", "a.json.zst"}) {
    EXPECT_EQ(format_of_corpus_name(name), kJson) << name;
  }
  for (const char* name : {"a.txt", "a.text.gz", "a.md.zstd"}) {
    EXPECT_EQ(format_of_corpus_name(name), kText) << name;
  }
  for (const char* name : {"-", "wiki_00", "part-00000", "x.gz", "/dev/fd/63", "a.jsonl.bz2"}) {
    EXPECT_EQ(format_of_corpus_name(name), std::nullopt) << name;
  }
}

TEST(CorpusFormat, ContentDecidesAndNamesMayNotContradictIt) {
  const auto format = [](const std::string& name, const std::string& text) {
    return format_of_corpus(name, look_at_corpus(text, name));
  };
  const auto refusal = [&](const std::string& name, const std::string& text, ErrorCode code) {
    return error_of(code, [&] { format(name, text); });
  };
  for (const char* name : {"-", "wiki_00", "x.gz", "/dev/fd/63"}) {
    EXPECT_EQ(format(name, kObject), kJson);
    EXPECT_EQ(format(name, "Once."), kText);
    EXPECT_EQ(format(name, ""), kJson);  // of which it has none
  }
  EXPECT_EQ(format("a.jsonl", kObject), kJson);
  EXPECT_EQ(format("a.txt", "Once."), kText);
  // Faults of lines are told line by line.
  EXPECT_EQ(format("a.jsonl", "{\"text\": \"a\"\n"), kJson);
  EXPECT_EQ(format("a.jsonl", "[1, 2]\n"), kJson);
  EXPECT_EQ(format("a.jsonl", std::string("bad\n") + kObject), kJson);
  EXPECT_THAT(
      refusal("a.txt", kObject, ErrorCode::kConfiguration),
      AllOf(StartsWith("a.txt: "), HasSubstr("--format jsonl"), HasSubstr("--format text")));
  EXPECT_THAT(refusal("a.jsonl", "Once.\n", ErrorCode::kConfiguration),
              AllOf(StartsWith("a.jsonl: "), HasSubstr("--format text")));
  EXPECT_THAT(refusal("-", std::string("bad\n") + kObject, ErrorCode::kConfiguration),
              AllOf(StartsWith("standard input: "), HasSubstr("--format jsonl")));
  for (const char* name : {"a.json", "a.txt", "wiki_00"}) {
    EXPECT_THAT(refusal(name, "{\n \"text\": \"a\"\n}\n", ErrorCode::kBadData),
                AllOf(HasSubstr("jq -c"), HasSubstr("--format text")));
  }
}

TEST(CorpusFormat, WhatIsNoTextIsToldAsWhatItIs) {
  const auto refusal = [](const std::string& bytes) {
    return error_of(ErrorCode::kBadData, [&] { look_at_corpus(bytes, "f"); });
  };
  const auto utf16 = [](bool is_big) {
    std::string bytes;
    for (const char c : std::string_view("{\"text\": \"One.\"}\n")) {
      bytes += is_big ? std::string({'\0', c}) : std::string({c, '\0'});
    }
    return bytes;
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\xff\xfe" + utf16(false), "UTF-16"},
      {"\xfe\xff" + utf16(true), "UTF-16"},
      {utf16(false), "UTF-16"},
      {utf16(true), "UTF-16"},
      {std::string("\xff\xfe\0\0a\0\0\0", 8), "UTF-32"},
      {"BZh91AY&SY....", "bzip2"},
      {std::string("\xfd"
                   "7zXZ\0\0\4",
                   8),
       "xz data"},
      {"\x1f\x8b\x08....", "gzip data within"},
      {"PK\x03\x04....", "zip archive"},
      {"PAR1\x15\x04", "Parquet"},
      {std::string(257, 'x') + "ustar", "tar archive"}};
  for (const auto& [bytes, word] : cases) {
    EXPECT_THAT(refusal(bytes), AllOf(StartsWith("f: "), HasSubstr(word)));
  }
  for (const std::string& text :
       {std::string("BZhou\n"), std::string("PKs\n"), std::string("a\0b\0", 4),
        std::string("\0\0\0\0\0\0\0\0\0\0", 10), std::string("7zip\n")}) {
    EXPECT_EQ(look_at_corpus(text, "f").content, CorpusContent::kText);
  }
}

TEST(CorpusFormat, AByteOrderMarkIsNoText) {
  EXPECT_EQ(look_at_corpus("\xef\xbb\xbfOne.", "f").mark_bytes, 3U);
  EXPECT_EQ(look_at_corpus("One.\xef\xbb\xbf", "f").mark_bytes, 0U);
  EXPECT_EQ(look_at_corpus("\xef\xbb", "f").mark_bytes, 0U);
}

TEST(CorpusFormat, CarriageReturnsAloneEndNoLines) {
  const auto check = [](std::string_view text, const CorpusRules& rules) {
    check_line_ends(look_at_corpus(text, "f"), rules, "f");
  };
  const CorpusRules json = {.format = kJson};
  const CorpusRules blank = {.split_on_blank_lines = true};
  for (const char* text : {"{\"a\": 1}\r{\"a\": 2}\r", "{\"a\": 1}\r\r{\"a\": 2}"}) {
    EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { check(text, json); }), HasSubstr("\\r"));
  }
  EXPECT_EQ(content_of("{\"a\": 1}\r{\"a\": 2}\r"), CorpusContent::kJsonLines);
  EXPECT_THAT(error_of(ErrorCode::kBadData, [&] { check("One.\r\rTwo.\r", blank); }),
              HasSubstr("\\r"));
  check("One.\r\rTwo.\r", {});  // characters of the one document
  check("{\"a\": 1}\r\n{\"a\": 2}\r\n", json);
  check("{\"a\": 1}\r", json);
  check("One.\r\n\r\nTwo.", blank);
}

}  // namespace
}  // namespace phalanx
