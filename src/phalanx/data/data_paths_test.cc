#include "phalanx/data/data_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/data/test_files.h"

namespace phalanx {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Words = std::vector<std::string>;

DataBlend parse(const Words& words) { return parse_data_blend(words, "--data-path"); }

TEST(DataPaths, AllForms) {
  EXPECT_THAT(parse({"a"}).prefixes, ElementsAre("a"));
  EXPECT_THAT(parse({"a"}).weights, IsEmpty());
  EXPECT_THAT(parse({"0.3", "a", "7", "b"}).prefixes, ElementsAre("a", "b"));
  EXPECT_THAT(parse({"0.3", "a", "7", "b"}).weights, ElementsAre(0.3, 7.0));
  EXPECT_THAT(parse({"+1e-2", "a"}).weights, ElementsAre(0.01));
  for (const Words& words : {Words{"a", "b"}, Words{"a", "b", "c"}, Words{"a", "1", "b", "2"}}) {
    EXPECT_EQ(parse(words).prefixes, words);
    EXPECT_THAT(parse(words).weights, IsEmpty());
  }
  // An odd number of words has no weights, whatever they look like.
  EXPECT_THAT(parse({"1", "2", "3"}).prefixes, ElementsAre("1", "2", "3"));
}

TEST(DataPaths, FaultsNameTheWord) {
  const auto fault = [](const Words& words) {
    return error_of(ErrorCode::kConfiguration, [&] { parse(words); });
  };
  EXPECT_THAT(fault({}), HasSubstr("--data-path"));
  EXPECT_THAT(fault({"0.3", "a", "x", "b"}),
              AllOf(HasSubstr("0.3 is a weight"), HasSubstr("x is none")));
  EXPECT_THAT(fault({"0.3", "a", "0", "b"}),
              AllOf(HasSubstr("the weight 0 of b"), HasSubstr("leave the dataset out")));
  EXPECT_THAT(fault({"-1", "a"}), HasSubstr("the weight -1 of a"));
  EXPECT_THAT(fault({"nan", "a"}), HasSubstr("the weight nan of a"));
  EXPECT_THAT(fault({"1", ""}), HasSubstr("empty"));
  EXPECT_THAT(fault(Words(40001, "p")), HasSubstr("40001 datasets"));
}

TEST(DataPaths, AFileOfWords) {
  const TemporaryDirectory directory;
  const std::string path = directory / "blend";
  put_file(path, "  0.3 a\n\t0.7\r\nb \n");
  const DataBlend blend = read_data_blend(path, "--data-args-path");
  EXPECT_THAT(blend.prefixes, ElementsAre("a", "b"));
  EXPECT_THAT(blend.weights, ElementsAre(0.3, 0.7));
  put_file(path, " \n");
  EXPECT_THAT(
      error_of(ErrorCode::kConfiguration, [&] { read_data_blend(path, "--data-args-path"); }),
      HasSubstr("--data-args-path " + path));
  EXPECT_THAT(error_of(ErrorCode::kInputMissing,
                       [&] { read_data_blend(directory / "no", "--data-args-path"); }),
              HasSubstr("--data-args-path"));
}

TEST(DataPaths, AFileOfSplits) {
  const TemporaryDirectory directory;
  const std::string path = directory / "splits.json";
  const auto read = [&](std::string_view text) {
    put_file(path, text);
    return read_split_blends(path, "--per-split-data-args-path");
  };
  const SplitBlends blends =
      read(R"({"train": ["0.5", "a", 2, "b"], "valid": "c d e", "test": null})");
  ASSERT_TRUE(blends[0] && blends[1]);
  EXPECT_THAT(blends[0]->prefixes, ElementsAre("a", "b"));
  EXPECT_THAT(blends[0]->weights, ElementsAre(0.5, 2.0));
  EXPECT_THAT(blends[1]->prefixes, ElementsAre("c", "d", "e"));
  EXPECT_FALSE(blends[2]);
  for (const auto& [text, fault] : std::vector<std::pair<std::string, std::string>>{
           {"[1]", "a JSON object"},
           {"{\"train\": [", "a JSON object"},
           {"{\"trian\": []}", "\"trian\" is none of"},
           {"{\"train\": {}}", "\"train\": a list"},
           {"{\"train\": [[]]}", "\"train\": the list holds array"},
           {"{\"train\": [1, \"a\", \"x\", \"b\"]}", "x is none"}}) {
    EXPECT_THAT(error_of(ErrorCode::kConfiguration, [&, &bad = text] { read(bad); }),
                AllOf(HasSubstr(path), HasSubstr(fault)));
  }
}

}  // namespace
}  // namespace phalanx
