#include "phalanx/flags/flag_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A flag of every type, state and relation.
struct Values {
  std::int64_t layers = 0;
  std::int64_t heads = 1;
  double rate = 0.5;
  std::optional<double> scale;
  std::string split = "9,1";
  std::string style = "linear";
  std::string save;
  std::string prompt;
  std::int64_t interval = 0;
  bool half = false;
  bool brain = false;
  std::vector<std::string> paths;
  std::vector<std::string> allowed;
};

void add_flags(FlagSet& flags, Values& v) {
  flags.section("Shape");
  flags.add({.name = "--num-layers",
             .aliases = "--encoder-num-layers",
             .old_names = "--layers",
             .yaml_keys = "n_layer",
             .required = true,
             .range = from_to(1, 100)},
            &v.layers);
  flags.add({.name = "--heads"}, &v.heads);
  flags.section("Rates");
  flags.add({.name = "--rate", .range = share_below_one()}, &v.rate);
  flags.add({.name = "--style",
             .required_to_train = true,
             .choices = "linear cosine",
             .same_values = "cos=cosine"},
            &v.style);
  flags.add({.name = "--scale", .needs = "--half --brain"}, &v.scale);
  flags.add({.name = "--split", .type = FlagType::kNumbers}, &v.split);
  flags.section("Files");
  flags.add({.name = "--save"}, &v.save);
  flags.add({.name = "--prompt", .may_be_empty = true}, &v.prompt);
  flags.add({.name = "--interval", .needs = "--save"}, &v.interval);
  flags.add({.name = "--paths"}, &v.paths);
  flags.add({.name = "--allow-changed", .accumulates = true}, &v.allowed);
  flags.section("Shape");
  flags.add({.name = "--half", .yaml_keys = "!full", .excludes = "--brain"}, &v.half);
  flags.add({.name = "--brain"}, &v.brain);
  flags.add({.name = "--all", .stands_for = "--style cosine --half"});
  flags.add({.name = "--styled", .type = FlagType::kText, .stands_for = "--style @"});
  flags.section("Others");
  flags.add(
      {.name = "--main-fp32", .state = FlagState::kSatisfied, .reason = "sums always are fp32"});
  flags.add({.name = "--optimizer",
             .type = FlagType::kText,
             .state = FlagState::kSatisfied,
             .reason = "Adam is the optimizer",
             .satisfied_by = "adam",
             .otherwise = "Adam is the only optimizer"});
  flags.add({.name = "--experts",
             .type = FlagType::kInteger,
             .state = FlagState::kRefused,
             .reason = "there are no experts"});
  flags.add({.name = "--ramp",
             .type = FlagType::kList,
             .state = FlagState::kRefused,
             .reason = "the batch is constant",
             .planned = "the plan is of the final batch"});
  flags.add_yaml();
}

class FlagSetTest : public testing::Test {
 protected:
  FlagSetTest() { begin(); }

  void begin(bool plans = false) {
    values_ = {};
    flags_ = std::make_unique<FlagSet>("phalanx x", "");
    if (plans) flags_->plan_only();
    add_flags(*flags_, values_);
  }

  const Values& parse(const std::vector<std::string>& words, bool plans = false) {
    begin(plans);
    std::vector<std::string> all = {"--num-layers", "2", "--style", "linear"};
    all.insert(all.end(), words.begin(), words.end());
    flags_->parse(all);
    return values_;
  }

  // The message of a call as it stands, and its code.
  std::string refusal(const std::vector<std::string>& words, bool plans = false) {
    begin(plans);
    try {
      flags_->parse(words);
    } catch (const Error& error) {
      return std::to_string(error.exit_status()) + " " + error.what();
    }
    return "no error";
  }
  // The refusal of a call that has all required flags.
  std::string fault(std::vector<std::string> words, bool plans = false) {
    words.insert(words.begin(), {"--num-layers=2", "--style=linear"});
    return refusal(words, plans);
  }

  std::string file(const std::string& text) const {
    const auto path = directory_ / "f.yaml";
    std::ofstream(path) << text;
    return path.string();
  }

  const TemporaryDirectory temporary_{"flag_set"};
  const std::filesystem::path directory_ = temporary_.path();
  Values values_;
  std::unique_ptr<FlagSet> flags_;
};

constexpr const char* kHint = " (phalanx x --help lists the flags)";

TEST_F(FlagSetTest, ReadsEveryType) {
  const Values& v =
      parse({"--num_layers", "010", "--rate=.25", "--scale", "-1e3", "--half", "--split", "90, 10",
             "--paths", "a", "-1", "b c", "--prompt", "", "--save", "-x", "--interval", "-5"});
  EXPECT_EQ(v.layers, 10);
  EXPECT_EQ(v.rate, 0.25);
  EXPECT_EQ(v.scale, -1000.0);
  EXPECT_TRUE(v.half);
  EXPECT_EQ(v.split, "90, 10");
  EXPECT_THAT(v.paths, ElementsAre("a", "-1", "b c"));
  EXPECT_EQ(v.save, "-x");
  EXPECT_EQ(v.interval, -5);
  EXPECT_TRUE(flags_->given("--half"));
  EXPECT_FALSE(flags_->given("--brain"));
  EXPECT_FALSE(parse({"--half", "--half=false"}).half);
}

TEST_F(FlagSetTest, TheLastOneWinsAndListsAreWhole) {
  const Values& v = parse({"--rate", "0.1", "--rate", "0.2", "--paths", "a", "b", "--paths", "c",
                           "--encoder-num-layers", "7"});
  EXPECT_EQ(v.rate, 0.2);
  EXPECT_EQ(v.layers, 7);
  EXPECT_THAT(v.paths, ElementsAre("c"));
  EXPECT_THAT(parse({"--allow-changed", "a,b", "--allow-changed", "c", "d,"}).allowed,
              ElementsAre("a", "b", "c", "d"));
}

// A golden message for each kind of fault.
TEST_F(FlagSetTest, FaultsOfWords) {
  const auto usage = [](const std::string& text) { return "64 " + text + kHint; };
  EXPECT_EQ(fault({"--num-layrs", "3", "4"}),
            usage("--num-layrs: unknown flag; did you mean --num-layers?"));
  EXPECT_EQ(fault({"--zzz"}), usage("--zzz: unknown flag"));
  EXPECT_EQ(fault({"-s", "1"}), usage("-s: unknown flag"));
  EXPECT_EQ(fault({"word"}), usage("word belongs to no flag"));
  EXPECT_EQ(fault({"--rate"}), usage("--rate: a value must follow, X"));
  EXPECT_EQ(fault({"--heads", "--half"}), usage("--heads: a value must follow, N"));
  EXPECT_EQ(fault({"--paths", "--half"}), usage("--paths: a value must follow, TEXT"));
  EXPECT_EQ(fault({"--heads", "two"}), usage("--heads two: is not a whole number"));
  EXPECT_EQ(fault({"--half=2"}), usage("--half 2: is a switch: true or false"));
  EXPECT_EQ(fault({"--split", "a,b"}),
            usage("--split a,b: is no list of numbers: give them between commas"));
  EXPECT_EQ(fault({"--save", ""}),
            usage("--save '': is empty: is a variable of the script not set?"));
  EXPECT_EQ(refusal({}), usage("--num-layers, --style must be given"));
  EXPECT_EQ(refusal({}, true), usage("--num-layers must be given"));
}

TEST_F(FlagSetTest, FaultsOfValues) {
  EXPECT_EQ(fault({"--num-layers", "0"}), "78 --num-layers 0: must be from 1 to 100");
  EXPECT_EQ(fault({"--rate", "1"}), "78 --rate 1: must be at least 0 and below 1");
  EXPECT_EQ(fault({"--style", "sine"}), "78 --style sine: choose one of linear, cosine");
  EXPECT_EQ(fault({"--scale", "2"}), "78 --scale 2 needs --half or --brain");
  EXPECT_EQ(fault({"--scale", "2", "--half=false"}), "78 --scale 2 needs --half or --brain");
  EXPECT_EQ(fault({"--scale", "2", "--brain"}), "no error");
  EXPECT_EQ(fault({"--interval", "5"}), "78 --interval 5 needs --save");
  EXPECT_EQ(fault({"--interval", "5", "--save", "d"}), "no error");
  EXPECT_EQ(fault({"--brain", "--half"}), "78 --half and --brain exclude each other: give one");
}

// Both rows may say it, and the rules behind the flags again, in words of their own.
TEST(FlagSets, TellOnceThatTwoFlagsExcludeEachOther) {
  bool half = false, brain = false;
  double rate = 0.0;
  FlagSet flags("phalanx train", "");
  flags.add({.name = "--half", .excludes = "--brain"}, &half);
  flags.add({.name = "--brain", .excludes = "--half"}, &brain);
  flags.add({.name = "--brain-rate"}, &rate);
  const auto judge = [] {
    throw ConfigError(
        "--brain and --half are two types\n--half with --brain-rate 0: give a rate\n--half is new");
  };
  EXPECT_EQ(error_of<ConfigError>([&] {
              flags.parse({"--half", "--brain"}, nullptr, judge);
            }),
            "--half and --brain exclude each other: give one\n"
            "--half with --brain-rate 0: give a rate\n--half is new");
}

TEST(FlagSets, PassOverWithOneNote) {
  const auto notes = [](const std::vector<std::string>& arguments) {
    FlagSet flags("phalanx train", "");
    const auto add = [&](std::string_view name, FlagType type, std::string_view instead) {
      flags.add({.name = name,
                 .type = type,
                 .state = FlagState::kPassedOver,
                 .reason = "nothing depends on it",
                 .instead = instead});
    };
    add("--project", FlagType::kText, "metrics are in files");
    add("--entity", FlagType::kText, "metrics are in files");
    add("--async", FlagType::kSwitch, "");
    add("--ranks", FlagType::kList, "perf sees them");
    flags.add({.name = "--strict",
               .type = FlagType::kText,
               .choices = "all none",
               .state = FlagState::kPassedOver,
               .reason = "it is always all"});
    flags.parse(arguments);
    return flags.notes();
  };
  EXPECT_THAT(notes({}), IsEmpty());
  EXPECT_THAT(notes({"--async=false"}), IsEmpty());
  EXPECT_THAT(notes({"--async"}), ElementsAre("passed over, for no result depends on it: --async"));
  EXPECT_THAT(
      notes({"--ranks", "0", "1", "--entity=e", "--strict", "all", "--async", "--project", "a b"}),
      ElementsAre("passed over, for no result depends on them: --project 'a b', --entity e, "
                  "--async, --ranks 0 1, --strict all; metrics are in files; perf sees them"));
  EXPECT_THROW(notes({"--strict", "some"}), ConfigError);
  EXPECT_THROW(notes({"--project"}), UsageError);
}

// One for each state.
TEST_F(FlagSetTest, StatesAreAnswered) {
  parse({"--main-fp32", "--optimizer", "adam", "--layers", "3", "--half=false"});
  EXPECT_THAT(flags_->notes(), ElementsAre("--layers is now called --num-layers",
                                           "--main-fp32: sums always are fp32",
                                           "--optimizer adam: Adam is the optimizer"));
  EXPECT_EQ(fault({"--optimizer", "sgd"}), "78 --optimizer sgd: Adam is the only optimizer");
  EXPECT_EQ(fault({"--experts", "4"}), "78 --experts 4: there are no experts");
  EXPECT_EQ(fault({"--experts", "4"}, true), "78 --experts 4: there are no experts");
  EXPECT_EQ(fault({"--ramp", "1", "2"}), "78 --ramp 1 2: the batch is constant");
  parse({"--ramp", "1", "2"}, true);
  EXPECT_THAT(flags_->notes(), ElementsAre("--ramp 1 2: the plan is of the final batch"));
}

TEST_F(FlagSetTest, AllFaultsAreToldAtOnce) {
  EXPECT_EQ(refusal({"--nm-layers", "3", "--rate", "2", "--scale", "x", "w", "--brain", "--half"}),
            std::string("64 --nm-layers: unknown flag; did you mean --num-layers?\n"
                        "--rate 2: must be at least 0 and below 1\n"
                        "--scale x: is not a number\n"
                        "w belongs to no flag\n"
                        "--half and --brain exclude each other: give one\n"
                        "--num-layers, --style must be given") +
                kHint);
}

// What could not be read is neither missing nor absent.
TEST_F(FlagSetTest, AFaultHasNoEcho) {
  EXPECT_EQ(refusal({"--num-layers", "x", "--style", "linear"}),
            std::string("64 --num-layers x: is not a whole number") + kHint);
  EXPECT_EQ(fault({"--save", "", "--interval", "2"}),
            std::string("64 --save '': is empty: is a variable of the script not set?") + kHint);
}

TEST_F(FlagSetTest, FlagsStandForOthers) {
  EXPECT_EQ(parse({"--all", "--style", "cosine"}).style, "cosine");
  EXPECT_TRUE(values_.half);
  begin();
  flags_->parse({"--num-layers", "1", "--styled", "cos"});
  EXPECT_EQ(values_.style, "cosine");
  EXPECT_EQ(fault({"--all"}),
            "78 --all means --style cosine and contradicts --style linear: give one");
}

TEST_F(FlagSetTest, WhatIsMissingCanBeCompleted) {
  flags_->parse({"--style", "linear"}, [&] {
    flags_->set_default("--num-layers", "12");
    flags_->set_default("--style", "cosine");  // given: stays
    flags_->set_default("--unknown", "1");
  });
  EXPECT_EQ(values_.layers, 12);
  EXPECT_EQ(values_.style, "linear");
  EXPECT_FALSE(flags_->given("--num-layers"));
}

TEST_F(FlagSetTest, ValuesMakeTheSameAgain) {
  parse({"--paths", "a b", "c", "--rate", "0.125", "--half", "--scale", "3"});
  const auto values = flags_->values();
  Values again;
  FlagSet other("phalanx x", "");
  add_flags(other, again);
  for (const auto& [name, value] : values) other.set_default(name, value);
  EXPECT_EQ(other.values(), values);
  EXPECT_THAT(again.paths, ElementsAre("a b", "c"));
}

TEST_F(FlagSetTest, FilesGiveWayToTheCommandLine) {
  const std::string path = file(
      "shape:\n  num_layers: 010\n  full: false\nrates:\n  deep:\n    rate: 0.75\n"
      "split: [90, 10]\npaths: [x, y]\noptimizer: ''\nallow_changed: [a, b]\nstyle: wrong\n");
  begin();
  flags_->parse({"--allow-changed", "c", "--style", "cosine", "--yaml-cfg", path, "--paths", "z"});
  EXPECT_EQ(values_.layers, 10);
  EXPECT_TRUE(values_.half);  // "full" is its negation
  EXPECT_EQ(values_.rate, 0.75);
  EXPECT_EQ(values_.split, "90,10");
  EXPECT_THAT(values_.paths, ElementsAre("z"));
  EXPECT_THAT(values_.allowed, ElementsAre("a", "b", "c"));
  EXPECT_FALSE(flags_->given("--optimizer"));
}

TEST_F(FlagSetTest, FaultsInFilesHaveAPlace) {
  const std::string path =
      file("n_layer: 3\nstyle: linear\nrat: 1\nheads: [1, 2]\nyaml_env: true\nrate: x\n");
  EXPECT_EQ(refusal({"--yaml-cfg", path}),
            "64 " + path + ":3:1: rat: no flag has this name; did you mean rate?\n" + path +
                ":4:1: heads takes one value, not a list\n" + path +
                ":5:1: yaml_env: does not belong in a file\n" + path +
                ":6:1: rate x: is not a number" + kHint);
  begin();
  flags_->parse({"--yaml-cfg", file("layers: 3\nstyle: linear\n")});
  EXPECT_THAT(flags_->notes(), ElementsAre(testing::HasSubstr("layers is now called")));
}

// What would be lost without a word.
TEST_F(FlagSetTest, AFileSaysAThingOnce) {
  const auto in_file = [&](const std::string& text) {
    const std::string path = file("style: linear\n" + text);
    std::string message = refusal({"--yaml-cfg", path});
    for (auto at = message.find(path); at != std::string::npos; at = message.find(path)) {
      message.replace(at, path.size(), "F");
    }
    return message;
  };
  EXPECT_EQ(in_file("num_layers: 3\nlayers: 4\n"),
            std::string("64 F:3:1: layers means --num-layers, which F:2:1: num_layers says "
                        "already: keep one of them") +
                kHint);
  EXPECT_EQ(
      in_file("num_layers: 3\nhalf:\n  rate: 0.1\n"),
      std::string("64 F:3:1: half is a flag: give it a value, or call the heading otherwise") +
          kHint);
  EXPECT_EQ(
      in_file("num_layers: 3\nsave: ''\n"),
      std::string("64 F:3:1: save '': is empty: is a variable of the script not set?") + kHint);
}

// Settings of another program: half of them in a file, the other half of what all flags say.
class TwiceTheLayers : public SettingsFile {
 public:
  FileFlags read(const std::string& path) override {
    return {.flags = {{.name = "--num-layers", .words = {"3"}, .place = path + ": depth"},
                      {.name = "--style", .words = {"cosine"}, .place = path + ": style"}},
            .notes = {path + " is read"},
            .misuses = {},
            .faults = {}};
  }
  FileFlags settle(const FlagSet& flags) override {
    FileFlags result;
    if (flags.source("--num-layers") != "x.json: depth") result.faults = {"of the settings"};
    result.flags = {{.name = "--heads", .words = {heads}, .place = "x.json: heads"}};
    return result;
  }

  std::string heads = "6";
};

TEST_F(FlagSetTest, SettingsGiveWayToTheCommandLine) {
  const auto settings = std::make_shared<TwiceTheLayers>();
  const auto parse_settings = [&](const std::vector<std::string>& words) {
    begin();
    flags_->add_settings({.name = "--settings", .help = "Of another program"}, settings);
    flags_->parse(words);
  };
  const auto message = [&](const std::vector<std::string>& words) -> std::string {
    return error_of([&] { parse_settings(words); });
  };
  parse_settings({"--settings", "x.json"});
  EXPECT_EQ(values_.layers, 3);
  EXPECT_EQ(values_.heads, 6);
  EXPECT_EQ(flags_->source("--heads"), "x.json: heads");
  EXPECT_THAT(flags_->notes(), ElementsAre("x.json is read"));
  const std::string yaml = flags_->to_yaml();
  EXPECT_THAT(yaml, testing::HasSubstr("num_layers: 3"));
  EXPECT_THAT(yaml, testing::HasSubstr("heads: 6"));
  EXPECT_THAT(yaml, testing::Not(testing::HasSubstr("settings")));

  parse_settings({"--settings", "x.json", "--heads", "9", "--style", "linear"});
  EXPECT_EQ(values_.heads, 9);
  EXPECT_EQ(message({"--settings", "x.json", "--num-layers", "4"}), "of the settings");
  EXPECT_THAT(message({"--settings", "x.json", "--yaml-cfg", file("num_layers: 4\n")}),
              testing::HasSubstr("x.json: depth means --num-layers, which "));
  EXPECT_THAT(message({"--settings", "x.json", "--yaml-cfg", file("heads: 4\n")}),
              testing::HasSubstr("x.json: heads means --heads, which "));
  EXPECT_THAT(message({"--yaml-cfg", file("settings: x.json\nnum_layers: 2\nstyle: linear\n")}),
              testing::HasSubstr("settings: does not belong in a file"));
  settings->heads = "many";
  EXPECT_THAT(message({"--settings", "x.json"}),
              testing::HasSubstr("x.json: heads many: is not a whole number"));
  parse_settings({"--num-layers", "4", "--style", "linear"});  // without a file
  EXPECT_FALSE(flags_->given("--heads"));
}

TEST_F(FlagSetTest, MessagesStayReadable) {
  std::vector<std::string> many(1000, "--zzz");
  const std::string message = fault(many);
  EXPECT_THAT(message, testing::HasSubstr("--zzz: unknown flag\nand 980 more"));
  EXPECT_EQ(fault({"--heads", "3 "}),
            std::string("64 --heads '3 ': is not a whole number") + kHint);
  EXPECT_EQ(fault({"--heads", "3\n4"}),
            std::string("64 --heads '3\\x0a4': is not a whole number") + kHint);
  EXPECT_LT(fault({"--heads", std::string(100000, 'x')}).size(), 300U);
  EXPECT_EQ(fault({"--rate", "-inf"}), std::string("64 --rate -inf: must be finite") + kHint);
  EXPECT_EQ(fault({"--rate", "1e400"}),
            std::string("64 --rate 1e400: is too large or too small for a number") + kHint);
}

TEST_F(FlagSetTest, BehindTwoDashesThereAreNoFlags) {
  EXPECT_EQ(fault({"--", "--heads"}), std::string("64 --heads belongs to no flag") + kHint);
  EXPECT_EQ(parse({"--save", "---"}).save, "---");
}

// The rules of the configuration are told beside those of the rows.
TEST_F(FlagSetTest, AJudgeAddsFaults) {
  const auto judge = [&] { throw ConfigError("{}", "of the judge"); };
  EXPECT_EQ(error_of<ConfigError>([&] {
              flags_->parse({"--num-layers", "2", "--style", "linear", "--interval", "3"}, nullptr,
                            judge);
            }),
            "--interval 3 needs --save\nof the judge");
  begin();
  try {
    flags_->parse({"--style", "linear"}, nullptr, judge);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()).find("judge"), std::string::npos);
  }
}

TEST_F(FlagSetTest, TheEnvironmentIsAskedForOnlyIfWanted) {
  ::setenv("PHALANX_FLAG_SET_TEST", "7", 1);
  const std::string path = file("num_layers: ${PHALANX_FLAG_SET_TEST}\nstyle: linear\n");
  EXPECT_THAT(refusal({"--yaml-cfg", path}), testing::HasSubstr("--yaml-env"));
  begin();
  flags_->parse({"--yaml-cfg", path, "--yaml-env"});
  EXPECT_EQ(values_.layers, 7);
}

TEST_F(FlagSetTest, PrintsTheCallAsAFile) {
  parse({"--layers", "3", "--all", "--style", "cos", "--paths", "a: b", "--optimizer", "adam",
         "--half=true", "--print-yaml"});
  EXPECT_TRUE(flags_->prints_yaml());
  const std::string text = flags_->to_yaml();
  EXPECT_EQ(text,
            "shape:\n  num_layers: 3\n  half: true\n  all: true\nrates:\n  style: cosine\n"
            "files:\n  paths:\n    - \"a: b\"\nothers:\n  optimizer: adam\n");
  const auto values = flags_->values();
  begin();
  flags_->parse({"--yaml-cfg", file(text), "--print-yaml"});
  EXPECT_EQ(flags_->to_yaml(), text);
}

TEST(Nearest, SlipsAreMeantAndOtherWordsAreNot) {
  const std::vector<std::string> names = {"--num-layers", "--hidden-size", "--lr"};
  EXPECT_EQ(nearest("--num-layer", names), "--num-layers");
  EXPECT_EQ(nearest("--hiden-sise", names), "--hidden-size");
  EXPECT_EQ(nearest("--num-workers", names), std::nullopt);
  EXPECT_EQ(nearest("--ls", names), "--lr");
  EXPECT_EQ(nearest("--NUM-LAYERS", names), "--num-layers");
  EXPECT_EQ(nearest("--hidden", names), "--hidden-size");
  EXPECT_EQ(nearest("pretrian", {"pretrain", "plan"}), "pretrain");
  EXPECT_EQ(nearest("", names), std::nullopt);
}

}  // namespace
}  // namespace phalanx
