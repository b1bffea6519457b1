#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::Not;

// A command with a flag of each kind.
struct Command {
  FlagSet flags{"phalanx train", "Trains something."};
  std::int64_t layers = 0;
  std::int64_t heads = 8;
  double dropout = 0.1;
  std::optional<double> end;
  bool fast = false;
  std::string style = "linear";
  std::vector<std::string> paths;

  Command() {
    flags.section("Size");
    flags.add({.name = "--layers",
               .aliases = "--encoder-layers",
               .old_names = "--depth",
               .help = "Layers",
               .required = true},
              &layers);
    flags.add({.name = "--heads", .help = "Heads of a layer"}, &heads);
    flags.section("Training");
    flags.add({.name = "--dropout", .help = "Share that is dropped"}, &dropout);
    flags.add({.name = "--end", .help = "Last value", .required_to_train = true}, &end);
    flags.add({.name = "--fast", .help = "Without looking back"}, &fast);
    flags.section("Size");
    flags.add({.name = "--style", .help = "How it falls", .choices = "linear cosine"}, &style);
    flags.add({.name = "--path", .help = "Data", .value_name = "PREFIX"}, &paths);
  }
};

TEST(Help, IsAListOfFlagsBySection) {
  Command command;
  command.flags.add({.name = "--old-fusion",
                     .state = FlagState::kSatisfied,
                     .reason = "kernels are always fused"});
  command.flags.add({.name = "--fp8", .state = FlagState::kRefused, .reason = "not there"});
  command.flags.add_example("phalanx train --layers 2 --end 1", "A small one");
  EXPECT_EQ(help_text(command.flags),
            R"(usage: phalanx train FLAGS

Trains something.

Size:
  --layers N             Layers (required) [also --encoder-layers]
  --heads N              Heads of a layer [default: 8]
  --style linear|cosine  How it falls [default: linear]
  --path PREFIX...       Data

Training:
  --dropout X            Share that is dropped [default: 0.1]
  --end X                Last value (required)
  --fast                 Without looking back

2 more flags of Megatron's need nothing here or are refused: docs/flags.md says why.

Examples:
  A small one:
    phalanx train --layers 2 --end 1
)");
}

TEST(Help, MarksWhatThisCallRequires) {
  Command command;
  command.flags.plan_only();
  const std::string text = help_text(command.flags);
  EXPECT_THAT(text, HasSubstr("Layers (required)"));
  EXPECT_THAT(text, HasSubstr("Last value\n"));
  std::int64_t samples = 0;
  command.flags.add({.name = "--samples", .help = "So many", .required_unless = "--steps"},
                    &samples);
  EXPECT_THAT(help_text(command.flags), HasSubstr("So many (required, or --steps)"));
}

// What a long flag or meaning looks like; the flag before it keeps its column.
std::string last_entry(std::string_view name, std::string_view help) {
  FlagSet flags("phalanx x", "X.");
  std::int64_t value = 0;
  flags.add({.name = "--as-wide-as-the-column-may-be", .help = "Short"}, &value);
  std::int64_t other = 0;
  flags.add({.name = name, .help = help}, &other);
  const std::string text = help_text(flags);
  const std::string before = "  --as-wide-as-the-column-may-be N  Short\n";
  EXPECT_THAT(text, HasSubstr(before));
  return text.substr(text.find(before) + before.size());
}

TEST(Help, MeaningsBeginInOneColumn) {
  const std::string words = "A meaning that is a word too long for what is left of its line behind";
  EXPECT_EQ(last_entry("--a", "Short"), "  --a N                             Short\n");
  EXPECT_EQ(
      last_entry("--a", words),
      "  --a N                             A meaning that is a word too long for what is left "
      "of its line\n"
      "                                    behind\n");
  EXPECT_EQ(last_entry("--longer-than-where-meanings-begin-", "Short"),
            "  --longer-than-where-meanings-begin- N\n"
            "                                    Short\n");
}

TEST(Help, WrapsWhatDoesNotFit) {
  const std::string words =
      "A meaning that is so long that it does not fit into one line wherever that line begins, "
      "whatever one tries [default: of its own]";
  EXPECT_EQ(last_entry("--a", words),
            "  --a N                             A meaning that is so long that it does not fit "
            "into one line\n"
            "                                    wherever that line begins, whatever one tries\n"
            "                                    [default: of its own]\n");
  EXPECT_EQ(last_entry("--longer-than-where-meanings-begin-", words),
            "  --longer-than-where-meanings-begin- N\n"
            "                                    A meaning that is so long that it does not fit "
            "into one line\n"
            "                                    wherever that line begins, whatever one tries\n"
            "                                    [default: of its own]\n");
}

TEST(Help, NamesManyChoicesBehindTheMeaning) {
  FlagSet flags("phalanx x", "X.");
  std::string style;
  flags.add({.name = "--style",
             .help = "How it falls",
             .choices = "constant linear cosine inverse-square-root"},
            &style);
  EXPECT_THAT(help_text(flags),
              HasSubstr("  --style TEXT  How it falls (constant, linear, cosine or "
                        "inverse-square-root)\n"));
}

TEST(Help, ContinuesLongCallsBeforeAFlag) {
  FlagSet flags("phalanx x", "X.");
  flags.add_example(
      "phalanx x --first-flag 'some words' --second-flag 123456789 --third-flag 123456789 -v "
      "--fourth-flag 1 2 --fifth-flag",
      "all of them");
  EXPECT_THAT(help_text(flags),
              HasSubstr("\nExamples:\n  all of them:\n"
                        "    phalanx x --first-flag 'some words' --second-flag 123456789 "
                        "--third-flag 123456789 -v \\\n"
                        "        --fourth-flag 1 2 --fifth-flag\n"));
}

// "usage: phalanx x ..." with one word that may be said `least` to `most` times.
std::string usage(int least, int most) {
  FlagSet flags("phalanx x", "X.");
  bool json = false;
  std::vector<std::string> words;
  flags.add({.name = "--json", .help = "JSON"}, &json);
  flags.add_positional({"DIR", "A checkpoint", &words, least, most});
  const std::string text = help_text(flags);
  EXPECT_THAT(text, HasSubstr("\n\n  DIR     A checkpoint\n\nFlags:\n  --json  JSON\n"));
  return text.substr(0, text.find('\n'));
}

TEST(Help, NamesWordsWithoutDashes) {
  EXPECT_EQ(usage(1, 1), "usage: phalanx x DIR [FLAGS]");
  EXPECT_EQ(usage(2, 2), "usage: phalanx x DIR DIR [FLAGS]");
  EXPECT_EQ(usage(1, 2), "usage: phalanx x DIR [DIR] [FLAGS]");
  EXPECT_EQ(usage(1, 9), "usage: phalanx x DIR... [FLAGS]");
  EXPECT_EQ(usage(0, 9), "usage: phalanx x [DIR...] [FLAGS]");
}

TEST(Help, IsShortWhereThereIsLittleToSay) {
  EXPECT_EQ(help_text(FlagSet("phalanx version", "The version.")),
            "usage: phalanx version\n\nThe version.\n");
}

// Defaults that are no news.
TEST(Help, LeavesOutEmptyDefaults) {
  FlagSet flags("phalanx x", "X.");
  std::int64_t none = 0;
  bool on = true;
  std::string empty;
  flags.add({.name = "--none", .help = "A"}, &none);
  flags.add({.name = "--on", .help = "B"}, &on);
  flags.add({.name = "--empty", .help = "C"}, &empty);
  EXPECT_THAT(help_text(flags), Not(HasSubstr("default")));
}

}  // namespace
}  // namespace phalanx
