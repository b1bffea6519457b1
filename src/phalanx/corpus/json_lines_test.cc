#include "phalanx/corpus/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::ElementsAre;
using Texts = std::vector<std::vector<std::string>>;

struct Answer {
  std::optional<Texts> texts;
  std::string problem;
  friend bool operator==(const Answer&, const Answer&) = default;
};

template <typename Read>
Answer answer_of(Read read) {
  try {
    return {read(), ""};
  } catch (const DataError& error) {
    return {std::nullopt, error.what()};
  }
}

const std::vector<std::string> kKeys = {"text", "b"};

void expect_same(JsonTextReader& reader, const std::string& line) {
  const auto fast = answer_of([&] { return reader.texts(line, "f:1"); });
  const auto careful = answer_of([&] { return json_texts(line, kKeys, "f:1"); });
  EXPECT_EQ(fast.texts, careful.texts) << line;
  EXPECT_EQ(fast.problem, careful.problem) << line;
}

TEST(JsonTexts, KeepsTheWantedKeys) {
  const std::string line =
      R"({"a": {"text": "no", "b": ["no"]}, "b": ["x", "", "\u00e9\n"], "c": [1, [{"text": 2}]],)"
      R"( "text": 7, "text": "first", "text": "last", "d": null, "e": -1.5e3, "f": true})";
  EXPECT_THAT(json_texts(line, kKeys, ""),
              ElementsAre(ElementsAre("last"), ElementsAre("x", "", "\xc3\xa9\n")));
  JsonTextReader reader(kKeys);
  EXPECT_THAT(reader.texts(line, ""), json_texts(line, kKeys, ""));
}

// What either parser is told to be wrong, and things that parsers differ in.
TEST(JsonTexts, BothReadersAgree) {
  JsonTextReader reader(kKeys);
  const std::string rest = R"(, "b": "y"})";
  for (const char* value : {R"("x")",
                            R"("\ud83d\ude00")",
                            R"("\ud800")",
                            R"("\udc00")",
                            R"("\ud800\u0041")",
                            R"("\u0000")",
                            R"("a\/b\b\f\t")",
                            R"("\x")",
                            "\"\x01\"",
                            "\"\x7f\"",
                            "\"\xff\"",
                            "\"\xed\xa0\x80\"",
                            "\"\xf4\x90\x80\x80\"",
                            "\"\xc0\x80\"",
                            R"([])",
                            R"(["x", ["y"]])",
                            R"(["x", 1])",
                            R"([null])",
                            R"({})",
                            R"({"x": "y"})",
                            "1",
                            "null",
                            "false",
                            "01",
                            "1.",
                            "-",
                            "1e999",
                            "123456789012345678901234567890",
                            "[1,]",
                            "nul",
                            "'x'",
                            ""}) {
    expect_same(reader, R"({"text": )" + std::string(value) + rest);
    expect_same(reader, R"({"text": "z", "c": )" + std::string(value) + rest);
  }
  for (const auto& line :
       {std::string("\xef\xbb\xbf{\"text\": \"a\", \"b\": \"c\"}"), std::string("[]"),
        std::string("\"x\""), std::string("7"), std::string(" {\"text\":\"a\",\"b\":[]} \r"),
        std::string("{\"text\":\"a\",\"b\":[]}\0", 20), std::string("{\"text\":\"a\",\"b\":[]}{}"),
        std::string("{\"text\":\"a\",\"b\":[\"c\"],\"b\":\"d\",\"text\":[]}"),
        std::string("{\"te\\u0078t\":\"a\",\"b\":[]}"), std::string("{,}"), std::string("{"),
        "{\"text\":" + std::string(5000, '[') + std::string(5000, ']') + ",\"b\":[]}",
        "{\"c\":" + std::string(5000, '[') + std::string(5000, ']') +
            ",\"text\":\"a\",\"b\":[]}"}) {
    expect_same(reader, line);
  }
}

TEST(JsonTexts, FaultsOfCharactersAreNamed) {
  const auto problem = [](const std::string& value) {
    return answer_of(
               [&] { return json_texts("{\"text\": \"" + value + "\", \"b\": []}", kKeys, ""); })
        .problem;
  };
  for (const char* half : {"\\ud800", "\\udc00", "\\ud800\\u0041"}) {
    EXPECT_THAT(problem(half), ::testing::HasSubstr("half of a surrogate pair")) << half;
  }
  for (const char* bytes : {"\xe9", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_THAT(problem(bytes), ::testing::HasSubstr("not UTF-8, as JSON must be (at byte 1"))
        << bytes;
  }
  EXPECT_EQ(problem("\\ud83d\\ude00"), "");
}

TEST(JsonTexts, BothReadersAgreeOnDamage) {
  JsonTextReader reader(kKeys);
  std::mt19937 random(9);
  const std::string whole =
      R"({"text": "a\u00e9\ud83d\ude00 \"x\"", "n": [1, 2.5e-3, true, null, {"text": "z"}], "b": ["c", "d"]})";
  const std::string_view bytes = "{}[]\",:\\u0dt1-.e\n\x80\xc3 ";
  for (int i = 0; i < 5000; ++i) {
    std::string line = whole;
    for (auto n = 1 + random() % 3; n > 0; --n) {
      const auto at = random() % line.size();
      switch (random() % 3) {
        case 0:
          line[at] = bytes[random() % bytes.size()];
          break;
        case 1:
          line.erase(at, 1 + random() % 4);
          break;
        default:
          line.insert(at, 1, bytes[random() % bytes.size()]);
      }
    }
    expect_same(reader, line);
  }
}

}  // namespace
}  // namespace phalanx
