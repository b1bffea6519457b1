#include "phalanx/cli/verb.h"

#include <gtest/gtest.h>

#include <array>

#include "phalanx/base/error.h"
#include "phalanx/flags/flag_set.h"

namespace phalanx {
namespace {

constexpr std::array<Verb, 3> kVerbs = {
    {{"info", "what it is"}, {"check", "whether it is"}, {"head", "how it begins"}}};

std::string complaint(std::span<const Verb> verbs, const Arguments& arguments) {
  try {
    return "none about " + verb_of("phalanx x", verbs, arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Verb, IsTheFirstWord) {
  EXPECT_EQ(verb_of("phalanx x", kVerbs, {"check"}), "check");
  EXPECT_EQ(verb_of("phalanx x", kVerbs, {"head", "info", "--help"}), "head");
}

TEST(Verb, IsOneOfThoseThereAre) {
  EXPECT_EQ(complaint(kVerbs, {}), "say info, check or head");
  EXPECT_EQ(complaint(kVerbs, {"chek"}), "say info, check or head, not chek");
  EXPECT_EQ(complaint(kVerbs, {"--json", "info"}), "say info, check or head, not --json");
  EXPECT_EQ(complaint(std::span(kVerbs).first(1), {"x"}), "say info, not x");
}

TEST(Verb, HelpNamesThem) {
  for (const std::string word : {"--help", "-h"}) {
    try {
      verb_of("phalanx x", kVerbs, {word, "info"});
      ADD_FAILURE() << "no help";
    } catch (const HelpRequested& help) {
      EXPECT_EQ(help.text,
                "usage: phalanx x VERB ...\n\n  info       what it is\n  check      whether it is\n"
                "  head       how it begins\n\nphalanx x VERB --help lists the flags of one.\n");
      EXPECT_EQ(help.command, "phalanx x");
      EXPECT_EQ(help.verbs, (std::vector<std::string>{"info", "check", "head"}));
    }
  }
}

}  // namespace
}  // namespace phalanx
