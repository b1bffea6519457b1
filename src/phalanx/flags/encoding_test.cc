#include "phalanx/flags/encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Parsed {
  std::string save = {};
  std::vector<std::string> paths = {};
  std::vector<std::string> words = {};
  std::int64_t seed = 0;
};

void parse(const std::vector<std::string>& arguments, Parsed& parsed) {
  FlagSet flags("phalanx do", "Does.");
  flags.add({.name = "--save", .help = "x"}, &parsed.save);
  flags.add({.name = "--data-path", .help = "x"}, &parsed.paths);
  flags.add({.name = "--seed", .help = "x"}, &parsed.seed);
  flags.add_positional(
      {.name = "DIR", .help = "x", .values = &parsed.words, .least = 0, .most = 2});
  flags.add_yaml();
  flags.parse(arguments);
}

// The error of a call.
std::string refusal(const std::vector<std::string>& arguments) {
  Parsed parsed;
  return error_of<UsageError>([&] { parse(arguments, parsed); });
}

TEST(Encoding, AFlagThatIsNoUtf8IsNamed) {
  EXPECT_THAT(refusal({"--save", "run\xff"}),
              AllOf(HasSubstr("--save 'run\\xff'"), HasSubstr("byte 4"), HasSubstr("mv")));
  EXPECT_THAT(refusal({"--save=\xe9t\xe9"}), HasSubstr("--save '\\xe9t\\xe9'"));
  EXPECT_THAT(refusal({"--save", "run", "--data-path", "a", "b\xc3", "c"}),
              HasSubstr("--data-path 'b\\xc3'"));
  EXPECT_THAT(refusal({"--seed", "\xff"}), HasSubstr("--seed '\\xff'"));
  // Before the file is looked for.
  EXPECT_THAT(refusal({"--yaml-cfg", "f\xff.yaml"}), HasSubstr("--yaml-cfg 'f\\xff.yaml'"));
  EXPECT_THAT(refusal({"d\xff"}), HasSubstr("the word 'd\\xff'"));
  EXPECT_THAT(refusal({"--sa\xffve", "run"}), HasSubstr("the word '--sa\\xffve'"));
}

TEST(Encoding, OtherLanguagesAreWelcome) {
  Parsed parsed;
  parse({"--save", "läufe/日本/😀", "données"}, parsed);
  EXPECT_EQ(parsed.save, "läufe/日本/😀");
  EXPECT_EQ(parsed.words, std::vector<std::string>{"données"});
}

}  // namespace
}  // namespace phalanx
