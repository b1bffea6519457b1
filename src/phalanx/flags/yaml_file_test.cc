#include "phalanx/flags/yaml_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// An entry as text: "key=word", "key=[a|b]".
std::vector<std::string> entries_of(std::string_view text,
                                    const Environment& environment = nullptr) {
  std::vector<std::string> result;
  for (const YamlEntry& entry : parse_yaml(text, "run.yaml", environment).entries) {
    const std::string words = fmt::format("{}", fmt::join(entry.words, "|"));
    result.push_back(entry.key + "=" + (entry.is_list ? "[" + words + "]" : words));
  }
  return result;
}

// The message of the DataError, "no error" where there is none.
std::string fault_of(std::string_view text, const Environment& environment = nullptr) {
  return error_of<DataError>([&] { parse_yaml(text, "run.yaml", environment); });
}

std::string repeated(std::string_view piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

TEST(YamlFile, KeysAreReadFlatAndBelowHeadings) {
  EXPECT_THAT(
      entries_of("# a run\n"
                 "language_model:\n"
                 "  num_layers: 24   # of them\n"
                 "  deeper:\n"
                 "    hidden-size: 1024\n"
                 "model_parallel: {bf16: True, lr: 2.5e-4}\n"
                 "seed: 1234\n"),
      ElementsAre("num_layers=24", "hidden-size=1024", "bf16=True", "lr=2.5e-4", "seed=1234"));
}

TEST(YamlFile, AFileWithoutKeysHasNoEntries) {
  for (const char* text : {"", "\n\n", "# nothing\n", "---\n", "---\n...\n", "{}", "model: {}\n"}) {
    EXPECT_THAT(entries_of(text), IsEmpty()) << text;
  }
}

TEST(YamlFile, ScalarsAreTextAsItIsWritten) {
  EXPECT_THAT(entries_of("a: 010\n"
                         "b: 1.e-5\n"
                         "c: '99, 1, 0'\n"
                         "d: \"tab\\there \\u00e9 \\\"\"\n"
                         "e: 'it''s'\n"
                         "f: two words\n"
                         "g: |\n  one\n  two\n"
                         "h: Grüße 😀\n"
                         "i: a:b#c\n"
                         "j: ''\n"
                         "k: ! x\n"),
              ElementsAre("a=010", "b=1.e-5", "c=99, 1, 0", "d=tab\there é \"", "e=it's",
                          "f=two words", "g=one\ntwo\n", "h=Grüße 😀", "i=a:b#c", "j=", "k=x"));
}

TEST(YamlFile, TextOfOtherSystemsIsRead) {
  EXPECT_THAT(entries_of("\xef\xbb\xbf"
                         "a: 1\r\nb:\r\n  - x\r\n  - y\r\n"),
              ElementsAre("a=1", "b=[x|y]"));
  EXPECT_THAT(entries_of("%YAML 1.2\n---\na: 1\n...\n"), ElementsAre("a=1"));
  EXPECT_THAT(entries_of("{\"a\": 1, \"b\": [\"x\", \"y\"]}"), ElementsAre("a=1", "b=[x|y]"));
}

TEST(YamlFile, ListsOfScalars) {
  EXPECT_THAT(entries_of("a: [32, 32, 65324160]\n"
                         "b:\n- x\n- 'y z'\n"
                         "c: []\n"
                         "d: [one, ]\n"),
              ElementsAre("a=[32|32|65324160]", "b=[x|y z]", "c=[]", "d=[one]"));
}

TEST(YamlFile, KeysWithoutAValueAreLeftOut) {
  EXPECT_THAT(entries_of("a: null\nb: ~\nc:\nd: Null\ne: NULL\nf: 'null'\ng: \"~\"\nh: ! null\n"),
              ElementsAre("f=null", "g=~", "h=null"));
}

TEST(YamlFile, APlaceIsTheLineAndColumnOfTheKey) {
  const auto entries =
      parse_yaml("a: 1\nmodel:\n  b: 2\n  c: {d: 3, ünd: 4, e: 5}\n", "x/run.yaml").entries;
  std::vector<std::string> places;
  for (const YamlEntry& entry : entries) places.push_back(entry.place);
  EXPECT_THAT(places, ElementsAre("x/run.yaml:1:1", "x/run.yaml:3:3", "x/run.yaml:4:7",
                                  "x/run.yaml:4:13", "x/run.yaml:4:22"));
}

TEST(YamlFile, KeysThatOccurTwice) {
  EXPECT_EQ(fault_of("a: 1\nb: 2\na: 3\n"),
            "run.yaml:3:1: a is there already, at run.yaml:1:1: keep one of them");
  for (const char* text : {
           "x:\n  num_layers: 1\ny:\n  num_layers: 1\n",  // below different headings
           "num_layers: 1\ny:\n  num_layers: 1\n",
           "x: {deep: {num_layers: 1}}\nnum_layers: 2\n",
           "num_layers: 1\nnum-layers: 1\n",
           "num_layers: 1\n--num-layers: 1\n",
           "num_layers: 1\nx: {num_layers: ~}\n",  // without a value
           "num_layers: {a: 1}\nnum_layers: {b: 1}\n",
           "num_layers: {a: 1}\nnum_layers: 1\n",
       }) {
    EXPECT_THAT(fault_of(text), HasSubstr("is there already, at run.yaml:")) << text;
  }
  // Headings are no flags.
  EXPECT_THAT(entries_of("a: {more: {x: 1}}\nb: {more: {y: 2}}\nmore: 3\n"),
              ElementsAre("x=1", "y=2", "more=3"));
}

struct Refused {
  const char* text;
  const char* place;
  const char* says;
};

TEST(YamlFile, WhatIsRefusedIsNamedAtItsPlace) {
  for (const Refused& refused : {
           Refused{"a: &x 1\n", "1:4", "anchor &x"},
           Refused{"a: &x\n  b: 1\n", "1:4", "anchor &x"},
           Refused{"a: &x [1]\n", "1:4", "anchor &x"},
           Refused{"a: &x ~\n", "1:4", "anchor &x"},
           Refused{"&x a: 1\n", "1:1", "anchor &x"},
           Refused{"a: 1\nb: *x\n", "2:4", "anchor"},
           Refused{"b:\n  <<: *x\n", "2:3", "a merge of keys"},
           Refused{"<<: {a: 1}\n", "1:1", "a merge of keys"},
           Refused{"a: !!str 1\n", "1:4", "tag tag:yaml.org,2002:str"},
           Refused{"a: !!null\n", "1:4", "tag"},
           Refused{"a: !mine [1]\n", "1:4", "tag !mine"},
           Refused{"a: !!map {b: 1}\n", "1:4", "tag"},
           Refused{"a: [1, !!int 2]\n", "1:8", "tag"},
           Refused{"!!str a: 1\n", "1:1", "tag"},
           Refused{"a: 1\n---\nb: 2\n", "2:1", "goes on behind its end"},
           Refused{"{a: 1}\n{b: 2}\n", "2:1", "goes on behind its end"},
           Refused{"a: [1, [2]]\n", "1:8", "a list in a list"},
           Refused{"a:\n  - 1\n  - - 2\n", "3:5", "a list in a list"},
           Refused{"a: [{b: 1}]\n", "1:5", "a missing ]"},
           Refused{"a: [b: 1]\n", "1:5", "a missing ]"},
           Refused{"a:\n  - b: 1\n", "2:5", "a missing ]"},
           Refused{"a: [1, ~]\n", "1:8", "has no value"},
           Refused{"a:\n  -\n  - 1\n", "3:3", "has no value"},
           Refused{"? [a]\n: 1\n", "1:3", "not lists"},
           Refused{"? {a: 1}\n: 1\n", "1:3", "is a } missing"},
           Refused{"[a]: 1\n", "1:1", "not lists"},
           Refused{": 1\n", "1:1", "the key is missing"},
           Refused{"~: 1\n", "1:1", "the key is missing"},
           Refused{"'': 1\n", "1:1", "the key is empty"},
           Refused{"- a\n- b\n", "1:1", "not a list"},
           Refused{"[a]\n", "1:1", "not a list"},
           Refused{"pretrain\n", "1:1", "num_layers: 24"},
           Refused{"a: 1\nb\nc: 2\n", "3:2", "this is no YAML"},
           Refused{"a: 1\nbf16\n", "2:1", "bf16 has no colon"},
           Refused{"a: 1\nbf16", "2:1", "bf16 has no colon"},
           Refused{"a: 1\nbf16\n...\n", "2:1", "bf16 has no colon"},
           Refused{"x:\n  a: 1\n  bf16\nb: 1\n", "4:2", "this is no YAML"},
           Refused{"a: [1\n", "1:5", "a missing ]"},
           Refused{"{a: 1", "1:1", "is a } missing"},
           Refused{"[a", "1:1", "is a ] missing"},
           Refused{"a: {b: 1\n", "2:1", "this is no YAML"},
           Refused{"a: 'x\n", "2:1", "a quoted text does not end"},
           Refused{"a: \"x\nb: 1", "3:1", "a quoted text does not end"},
           Refused{"a: \"\\\xc3\xa9\"", "1:7", "unknown escape character: ?"},
           Refused{"a: 1\n\tb: 2\n", "2:1", "this is no YAML"},
           Refused{"a: \"\\ud800\"\n", "1:11", "this is no YAML"},
           Refused{"a: \"\\0\"\n", "1:4", "a zero byte"},
       }) {
    EXPECT_THAT(fault_of(refused.text), StartsWith(fmt::format("run.yaml:{}: ", refused.place)))
        << refused.text;
    EXPECT_THAT(fault_of(refused.text), HasSubstr(refused.says)) << refused.text;
  }
}

TEST(YamlFile, CharactersThatTextDoesNotHave) {
  using namespace std::string_view_literals;
  EXPECT_THAT(fault_of("a: 1\nb: \0\n"sv), StartsWith("run.yaml:2:4: control character U+0000"));
  EXPECT_THAT(fault_of("a: 1\n\x04 b: ["), StartsWith("run.yaml:2:1: control character U+0004"));
  EXPECT_THAT(fault_of("# \xc2\x9b"), StartsWith("run.yaml:1:3: control character U+009B"));
  EXPECT_THAT(fault_of("a: é\xe9\n"), StartsWith("run.yaml:1:6: byte 0xe9 is no UTF-8"));
  EXPECT_THAT(fault_of("\xff\xfe"
                       "a\0:\0"sv),
              StartsWith("run.yaml:1:1: byte 0xff is no UTF-8"));
  EXPECT_THAT(entries_of("a: \"\\x04\"\n"), ElementsAre("a=\x04"));
}

TEST(YamlFile, HeadingsWithinEachOther) {
  const auto nested = [](int headings) {
    std::string text;
    for (int i = 0; i < headings; ++i) text += fmt::format("{:{}}h{}:\n", "", i, i);
    return text + fmt::format("{:{}}a: 1\n", "", headings);
  };
  EXPECT_THAT(entries_of(nested(kMostYamlDepth)), ElementsAre("a=1"));
  EXPECT_THAT(fault_of(nested(kMostYamlDepth + 1)),
              StartsWith("run.yaml:10:10: more than 8 headings"));
  EXPECT_THAT(fault_of("a: {b: {c: {d: {e: {f: {g: {h: {i: {j: 1}}}}}}}}}"),
              HasSubstr("more than 8 headings"));
}

// They would overflow the stack of a parser that goes all the way down, or take it minutes.
TEST(YamlFile, DeepFilesAreRefusedSoon) {
  for (const char* piece : {"[", "{", "- ", "? ", "a: {", "a: [", "{a: ", "[[]", "? [", "-\n", ": ",
                            "!a ", "&a ", "*a ", "'", "\"", "[?", "[a: "}) {
    EXPECT_NE(fault_of(repeated(piece, kMostYamlBytes / 8)), "no error") << piece;
    EXPECT_NE(fault_of("a: [" + repeated(piece, kMostYamlBytes / 8)), "no error") << piece;
  }
}

TEST(YamlFile, LargeFilesAreRefusedBeforeTheyAreRead) {
  EXPECT_EQ(entries_of("a: 1\n#" + std::string(kMostYamlBytes - 6, 'x')).size(), 1U);
  EXPECT_THAT(fault_of("a: 1\n#" + std::string(kMostYamlBytes - 5, 'x')),
              StartsWith("run.yaml: 1048577 bytes"));
}

std::optional<std::string> two_variables(const std::string& name) {
  if (name == "HOME_OF_DATA") return "/data/$x ${y}";
  if (name == "_n1") return "";
  return {};
}

TEST(YamlFile, VariablesOfTheEnvironmentAreReplacedInValues) {
  EXPECT_THAT(entries_of("a: ${HOME_OF_DATA}/text\n"
                         "b: ['${_n1}', \"x${_n1}y${HOME_OF_DATA}\"]\n"
                         "c: $${HOME} $$${HOME} $HOME $ {HOME} }\n"
                         "${HOME}: $\n",
                         two_variables),
              ElementsAre("a=/data/$x ${y}/text", "b=[|xy/data/$x ${y}]",
                          "c=${HOME} $${HOME} $HOME $ {HOME} }", "${HOME}=$"));
  EXPECT_THAT(fault_of("a: 1\nb: x${NOT_SET}\n", two_variables),
              StartsWith("run.yaml:2:4: the environment has no variable NOT_SET"));
  for (const char* value :
       {"${", "${}", "${a b}", "${1a}", "${a", "${a-b}", "${é}", "x${${_n1}}"}) {
    EXPECT_THAT(fault_of(fmt::format("a: '{}'", value), two_variables),
                HasSubstr("without a name of a variable"))
        << value;
  }
}

TEST(YamlFile, VariablesDoNotMakeAFileLarge) {
  const auto large = [](const std::string&) { return std::string(kMostYamlBytes / 2, 'x'); };
  EXPECT_EQ(entries_of("a: ${X}\nb: ${X}\n", large).size(), 2U);
  EXPECT_THAT(fault_of("a: ${X}\nb: ['${X}', 'y${X}']\n", large),
              StartsWith("run.yaml:2:13: with variables"));
}

TEST(YamlFile, VariablesAreReplacedOnlyWhereThatIsAskedFor) {
  EXPECT_THAT(fault_of("a: ${HOME}\n"),
              testing::AllOf(StartsWith("run.yaml:1:4: ${HOME}"), HasSubstr("--yaml-env"),
                             HasSubstr("$${HOME}")));
  EXPECT_THAT(entries_of("a: $${HOME} $HOME\n"), ElementsAre("a=${HOME} $HOME"));
}

TEST(YamlFile, TheEnvironmentOfTheProcess) {
  ASSERT_EQ(::setenv("PHALANX_YAML_TEST", "a b", 1), 0);
  EXPECT_EQ(process_environment("PHALANX_YAML_TEST"), "a b");
  ASSERT_EQ(::unsetenv("PHALANX_YAML_TEST"), 0);
  EXPECT_EQ(process_environment("PHALANX_YAML_TEST"), std::nullopt);
}

class YamlFiles : public testing::Test {
 protected:
  const TemporaryDirectory temporary_{"yaml_file"};
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(YamlFiles, AFileIsReadAndNamed) {
  const std::string path = folder_ / "run.yaml";
  std::ofstream(path) << "a: ${_n1}\n";
  const auto entries = read_yaml(path, two_variables).entries;
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].place, path + ":1:1");
  EXPECT_THROW(read_yaml(path), DataError);
}

TEST_F(YamlFiles, WhatIsNoFile) {
  EXPECT_THROW(read_yaml(folder_ / "none.yaml"), InputMissingError);
  EXPECT_THROW(read_yaml(folder_), DataError);
  EXPECT_THROW(read_yaml(""), InputMissingError);
  const std::string path = folder_ / "large.yaml";
  std::ofstream(path) << "a: 1\n";
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // a hole: it takes no space
  EXPECT_THROW(read_yaml(path), DataError);
}

}  // namespace
}  // namespace phalanx
