#include "phalanx/flag_table/train_flags.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "phalanx/flag_table/test_support.h"
#include "phalanx/rules/rules.h"

namespace phalanx {
namespace {

// A value that the row takes and that is not the default.
std::string another_value(const TrainFlag& flag, const FlagTarget& target) {
  const FlagType type = type_of(target, flag.spec.type);
  const std::string now = text_of(target);
  switch (type) {
    case FlagType::kSwitch:
      return "true";
    case FlagType::kNumbers:
      return "5,3,2";
    case FlagType::kInteger:
    case FlagType::kReal:
      for (const char* text : {"7", "0.25", "1", "0", "8192"}) {
        if (text != now && !fault_of(flag.spec, type, text)) return text;
      }
      break;
    case FlagType::kText:
    case FlagType::kList:
      if (std::holds_alternative<std::vector<std::int64_t>*>(target)) return "7";
      if (flag.spec.choices.empty()) return "word";
      for (const auto choice : words_of(flag.spec.choices)) {
        if (choice != now) return std::string(choice);
      }
      break;
  }
  ADD_FAILURE() << "no other value for " << flag.spec.name;
  return {};
}

// Members of LoraConfig lack the word with which their flags begin.
std::string member_of(const TrainFlag& flag) {
  return (flag.spec.name.starts_with("--lora-") ? "lora_" : "") + std::string(flag.member);
}

// A flag is called after the member that it sets, whichever row is looked at: two members that were
// swapped would show here.
TEST(TrainFlags, AreNamedAfterTheirMembers) {
  std::size_t bound = 0;
  for (const TrainFlag& flag : train_flags()) {
    if (flag.target == nullptr) continue;
    ++bound;
    EXPECT_EQ(canonical_name(flag.spec.name), canonical_name(member_of(flag)));
  }
  EXPECT_GT(bound, 100U);
}

// Each row sets its own variable and no other.
TEST(TrainFlags, EveryRowIsBoundToAVariableOfItsOwn) {
  const TrainConfig plain;
  const auto before = argument_values(plain);
  for (const TrainFlag& flag : train_flags()) {
    if (flag.target == nullptr) continue;
    TrainConfig config;
    const FlagTarget target = flag.target(config);
    const FlagType type = type_of(target, flag.spec.type);
    const std::string value = another_value(flag, target);
    ASSERT_FALSE(assign(target, type, {value})) << flag.spec.name;
    const auto after = argument_values(config);
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].second != after[i].second, before[i].first == flag.spec.name)
          << flag.spec.name << " and " << before[i].first;
    }
  }
}

TEST(TrainFlags, EveryMemberIsThereOnce) {
  std::set<std::string> members;
  for (const TrainFlag& flag : train_flags()) {
    if (flag.target == nullptr) continue;
    EXPECT_TRUE(members.insert(member_of(flag)).second) << flag.member;
  }
}

// The defaults are within the bounds of their rows, or mean that nothing is given.
TEST(TrainFlags, DefaultsArePossible) {
  TrainConfig plain;
  for (const TrainFlag& flag : train_flags()) {
    if (flag.target == nullptr) continue;
    const FlagTarget target = flag.target(plain);
    const FlagType type = type_of(target, flag.spec.type);
    const std::string text = text_of(target);
    if (text.empty() || text == "0") continue;  // not given
    EXPECT_FALSE(fault_of(flag.spec, type, text)) << flag.spec.name;
  }
}

// What a library call sets is judged as what a command line says.
TEST(TrainFlags, ValuesAreJudgedWithoutACommandLine) {
  TrainConfig config =
      with_flags({}, "--global-batch-size -1 --attention-dropout 1 --lr-decay-style liner");
  Faults faults;
  check_values(config, true, faults);
  try {
    faults.raise();
    FAIL() << "nothing was found";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    for (const char* part : {"--num-layers must be given", "--lr must be given",
                             "--global-batch-size -1: must be from 0",
                             "--attention-dropout 1: must be at least 0 and below 1",
                             "--lr-decay-style liner: choose one of constant"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
    }
  }
}

// The flags that stand in for a silent call with --use-checkpoint-args.
TEST(TrainFlags, TheModelIsWhatCheckpointsDescribe) {
  const auto describes = [](std::string_view name) {
    return describes_model(*find_train_flag(name));
  };
  for (const char* name : {"--num-layers", "--hidden-size", "--bf16", "--vocab-size",
                           "--tokenizer-type", "--seq-length", "--hidden-dropout"}) {
    EXPECT_TRUE(describes(name)) << name;
  }
  for (const char* name : {"--lr", "--save", "--micro-batch-size", "--tensor-model-parallel-size",
                           "--data-path", "--recompute-activations"}) {
    EXPECT_FALSE(describes(name)) << name;
  }
}

}  // namespace
}  // namespace phalanx
