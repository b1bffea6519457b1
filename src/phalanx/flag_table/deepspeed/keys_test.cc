// The table of keys: every row can be read, and the page has it as it is.

#include "phalanx/flag_table/deepspeed/keys.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "phalanx/base/file.h"
#include "phalanx/flag_table/train_flags.h"
#include "tests/paths.h"

namespace phalanx::deepspeed {
namespace {

TEST(DeepspeedKeys, AreThereOnceAndSayWhatBecomesOfThem) {
  std::set<std::string_view> paths;
  for (const Key& key : keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_FALSE(is_section(key.path)) << key.path;
    EXPECT_EQ(find_key(key.path), &key);
    const bool is_flag = key.fate == Fate::kFlag || key.fate == Fate::kPart;
    EXPECT_TRUE(is_flag || key.flag.empty()) << key.path;
    EXPECT_TRUE(key.fate != Fate::kFlag || words_of(key.flag).size() == 1) << key.path;
    EXPECT_TRUE(key.fate == Fate::kFlag || words_of(key.text).size() >= 2) << key.path;
    EXPECT_FALSE(key.text.ends_with('.')) << key.path;
    EXPECT_TRUE(key.fate != Fate::kOnly || !key.values.empty()) << key.path;
  }
  EXPECT_GT(paths.size(), 150U);
  EXPECT_EQ(find_key("zero_optimization"), nullptr);
  EXPECT_TRUE(is_section("zero_optimization"));
  EXPECT_TRUE(is_section("zero_optimization.offload_param"));
  EXPECT_FALSE(is_section("zero"));
}

TEST(DeepspeedKeys, NameFlagsThatWork) {
  TrainConfig config;
  for (const Key& key : keys()) {
    for (const auto name : words_of(key.flag)) {
      const TrainFlag* named = find_train_flag(name);
      ASSERT_NE(named, nullptr) << key.path;
      EXPECT_EQ(named->spec.state, FlagState::kWorks) << key.path;
      if (key.fate != Fate::kFlag) continue;
      const FlagType type = type_of(named->target(config), named->spec.type);
      EXPECT_EQ(type == FlagType::kSwitch, key.kind == Kind::kSwitch) << key.path;
      EXPECT_EQ(type == FlagType::kInteger, key.kind == Kind::kInteger) << key.path;
      EXPECT_EQ(type == FlagType::kReal, key.kind == Kind::kReal) << key.path;
    }
    for (std::string_view word : words_of(key.text)) {
      if (word.find("--") == std::string_view::npos) continue;
      word = word.substr(word.find("--"));
      word = word.substr(0, word.find_first_not_of("-_abcdefghijklmnopqrstuvwxyz0123456789"));
      EXPECT_NE(find_train_flag(word), nullptr) << key.path << ": " << word;
    }
  }
}

TEST(DeepspeedKeys, SlipsAreMeant) {
  EXPECT_EQ(meant_by("train_bach_size"), "train_batch_size");
  EXPECT_EQ(meant_by("zero_optimisation"), "zero_optimization");
  EXPECT_EQ(meant_by("zero_optimization.stge"), "zero_optimization.stage");
  EXPECT_EQ(meant_by("zero_optimization.offload_params"), "zero_optimization.offload_param");
  EXPECT_EQ(meant_by("stage"), std::nullopt);
}

TEST(DeepspeedKeys, ThePageHasTheTable) {
  const std::string page = read_file(source_path("docs/deepspeed.md"));
  const std::string table = markdown_table();
  EXPECT_NE(page.find("\n" + table), std::string::npos)
      << "docs/deepspeed.md must have this table:\n"
      << table;
}

}  // namespace
}  // namespace phalanx::deepspeed
