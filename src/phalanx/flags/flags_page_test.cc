#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "phalanx/flags/views.h"

namespace phalanx {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Page {
  std::int64_t layers = 0;
  double rate = 0.1;
  bool fast = false;
  std::string style = "linear";
  std::vector<std::string> paths;
  FlagSet train{"phalanx train gpt", "Trains."};
  FlagSet plan{"phalanx plan gpt", "Plans."};
  FlagSet info{"phalanx data info", "Tells."};

  Page() {
    for (FlagSet* flags : {&train, &plan}) {
      flags->section("Size");
      flags->add({.name = "--num-layers",
                  .aliases = "--encoder-num-layers",
                  .old_names = "--depth --height",
                  .yaml_keys = "layers !shallow",
                  .help = "Transformer layers",
                  .required = true,
                  .range = from_to(1, 100),
                  .resume = ResumeClass::kShape},
                 &layers);
      flags->section("Training");
      flags->add({.name = "--rate",
                  .help = "Between a|b and <c>*\\",
                  .required_to_train = true,
                  .range = share_below_one(),
                  .needs = "--fast --style",
                  .excludes = "--num-layers --path",
                  .resume = ResumeClass::kSchedule},
                 &rate);
      flags->add({.name = "--fast", .help = "Without looking back. Really?"}, &fast);
      flags->add({.name = "--style",
                  .help = "How it falls",
                  .choices = "linear cosine",
                  .resume = ResumeClass::kWarned,
                  .since = "0.3"},
                 &style);
      flags->add({.name = "--path",
                  .help = "Data",
                  .value_name = "PREFIX",
                  .accumulates = true,
                  .resume = ResumeClass::kFixed},
                 &paths);
      flags->add({.name = "--quick", .help = "The old way", .stands_for = "--fast --style cosine"});
      flags->add({.name = "--fused",
                  .aliases = "--fuse",
                  .state = FlagState::kSatisfied,
                  .reason = "kernels are always fused"});
      flags->add({.name = "--optimizer",
                  .type = FlagType::kText,
                  .state = FlagState::kSatisfied,
                  .reason = "all-in-all it is Adam",
                  .satisfied_by = "adam adamw",
                  .otherwise = "sgd comes later"});
      flags->add({.name = "--wandb",
                  .state = FlagState::kPassedOver,
                  .reason = "nothing is sent there",
                  .instead = "metrics are in files"});
      flags->add({.name = "--strict",
                  .type = FlagType::kText,
                  .choices = "all none",
                  .state = FlagState::kPassedOver,
                  .reason = "it is always all"});
      flags->add({.name = "--fp8", .state = FlagState::kRefused, .reason = "--bf16: |it| works"});
      flags->add({.name = "--no-fused",
                  .yaml_keys = "!fusion",
                  .state = FlagState::kSatisfied,
                  .reason = "kernels are always fused"});
      flags->add({.name = "--fp4", .state = FlagState::kRefused, .reason = "--bf16: |it| works"});
      flags->add({.name = "--ramp-up",
                  .state = FlagState::kRefused,
                  .reason = "fp32.txt comes later",
                  .planned = "the final batch"});
    }
    plan.add({.name = "--world-size", .help = "Ranks", .range = at_least(1)}, &layers);
    info.add({.name = "--json", .help = "JSON"}, &fast);
    info.add({.name = "--num-layers", .help = "Something else"}, &layers);
    info.add({.name = "--fast", .help = "Without looking back. Really?"}, &fast);
  }

  std::string text() const {
    return flags_page({{"train", "commands that train", {}},
                       {"train gpt", "train a model", train.rows()},
                       {"plan gpt", "what that takes", plan.rows()},
                       {"data", "what is in data", {}},
                       {"data info", "llm.c's data", info.rows()}});
  }
};

TEST(FlagsPage, HasATableForEachSectionAndState) {
  const std::string text = Page().text();
  EXPECT_EQ(text.find("# Flags\n\nThe flags of `phalanx train gpt`"), 0U);
  EXPECT_EQ(text.substr(text.find("\n## ")), R"(
## Flags of train gpt that work

### Size

| flag | value | default | what it does | on resume |
|---|---|---|---|---|
| --num-layers | N | | Transformer layers. Required. From 1 to 100. Also --encoder-num-layers. Formerly --depth, --height. In YAML also layers, shallow: false. | shape |

### Training

| flag | value | default | what it does | on resume |
|---|---|---|---|---|
| --rate | X | 0.1 | Between a\|b and \<c>\*\\. Required to train. At least 0, below 1. Needs --fast or --style. Not with --num-layers, --path. | schedule |
| --fast | | | Without looking back. Really? | free |
| --style | linear, cosine | linear | How it falls. Since version 0.3. | warned |
| --path | PREFIX... | | Data. Given twice, both count. | fixed |
| --quick | | | The old way. Stands for --fast --style cosine. | free |

## Satisfied flags

| flags | why they need nothing |
|---|---|
| --fused (also --fuse), --no-fused (in YAML also fusion: false) | Kernels are always fused. |
| --optimizer adam or adamw | All-in-all it is Adam. Other values are refused: sgd comes later. |

## Flags that are passed over

| flags | why no result depends on them |
|---|---|
| --wandb | Nothing is sent there. Metrics are in files. |
| --strict all or none | It is always all. |

## Refused flags

| flags | why, and what to use instead | a plan |
|---|---|---|
| --fp8, --fp4 | --bf16: \|it\| works. | refuses it too |
| --ramp-up | fp32.txt comes later. | the final batch |

## plan gpt

What that takes.

Takes the flags of train gpt.

| flag | value | default | what it does |
|---|---|---|---|
| --world-size | N | | Ranks. At least 1. |

## data info

llm.c's data.

As train gpt: --fast.

| flag | value | default | what it does |
|---|---|---|---|
| --json | | | JSON. |
| --num-layers | N | | Something else. |
)");
}

TEST(FlagsPage, NamesWhatACommandDoesNotTake) {
  Page page;
  page.train.add({.name = "--nproc", .help = "Ranks of this process"}, &page.layers);
  EXPECT_THAT(page.text(), HasSubstr("\nTakes the flags of train gpt, but not --nproc.\n"));
}

// For another command the page lists only satisfied and refused flags that the first lacks.
TEST(FlagsPage, HasOtherStatesOfOtherCommands) {
  Page page;
  page.info.add({.name = "--lazy", .state = FlagState::kSatisfied, .reason = "it always is"});
  page.info.add({.name = "--fp8", .state = FlagState::kRefused, .reason = "use --bf16"});
  const std::string text = page.text();
  EXPECT_THAT(text, HasSubstr("\n### Satisfied flags\n\n| flags | why they need nothing |\n"
                              "|---|---|\n| --lazy | It always is. |\n"));
  EXPECT_THAT(text, Not(HasSubstr("### Refused flags")));
}

std::string range_of(const FlagRange& range) {
  FlagSet flags("phalanx x", "X.");
  double value = 0;
  flags.add({.name = "--x", .help = "X", .range = range}, &value);
  const std::string text = flags_page({{"x", "x", flags.rows()}});
  const std::size_t begin = text.find("| X.") + 4;
  return text.substr(begin, text.find(" | free", begin) - begin);
}

TEST(FlagsPage, TellsRanges) {
  EXPECT_EQ(range_of({}), "");
  EXPECT_EQ(range_of(at_least(1)), " At least 1.");
  EXPECT_EQ(range_of(above(0)), " Above 0.");
  EXPECT_EQ(range_of(from_to(0, 1)), " From 0 to 1.");
  EXPECT_EQ(range_of({.most = 2}), " At most 2.");
  EXPECT_EQ(range_of({.most = 2, .excludes_most = true}), " Below 2.");
  EXPECT_EQ(range_of({.least = 0.5, .most = 2, .excludes_least = true}), " Above 0.5, at most 2.");
  // What only keeps numbers within their types is no news.
  EXPECT_EQ(range_of(from_to(1, 2147483647)), " At least 1.");
}

}  // namespace
}  // namespace phalanx
