#include "phalanx/tasks/classify_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/tasks/test_support.h"

namespace phalanx {
namespace {

using testing::ElementsAre;

using Values = std::map<std::string, std::string>;

ClassifyOptions options_of(const Values& values) { return ClassifyOptions::from_text(values); }

TEST(ClassifyOptions, LabelsHaveNames) {
  EXPECT_THAT(options_of({{"--labels", "no\tyes"}}).label_names(), ElementsAre("no", "yes"));
  EXPECT_THAT(options_of({{"--num-classes", "3"}}).label_names(), ElementsAre("0", "1", "2"));
  EXPECT_THAT(options_of({{"--table-format", "mnli"}}).label_names(),
              ElementsAre("contradiction", "entailment", "neutral"));
  EXPECT_THAT(options_of({{"--table-format", "qqp"}}).label_names(), ElementsAre("0", "1"));
  EXPECT_THROW(options_of({{"--labels", "no\tyes\tno"}}).classes(), ConfigError);
}

TEST(ClassifyOptions, WhatAnImportedModelDoesNotSayIsOpen) {
  const auto imported = options_of({{"--labels", "not so\tso"}});
  EXPECT_EQ(imported.classes(), 2);
  EXPECT_EQ(imported.texts(), 0);
  EXPECT_THAT(imported.label_names(), ElementsAre("not so", "so"));
  EXPECT_EQ(options_of(imported.to_text()).to_text(), imported.to_text());
  EXPECT_EQ(ClassifyOptions().texts(), 1);
  EXPECT_EQ(options_of({{"--table-format", "qqp"}}).texts(), 2);
}

class Tables : public TaskFiles {
 protected:
  static std::string refusal_of(const std::vector<std::string>& paths,
                                const ClassifyOptions& options) {
    return error_of<DataError>(
        [&] { read_tables(paths, options, TableUse::kTraining, Tell::kNothing); });
  }
};

// The labels of all files together count.
TEST_F(Tables, NobodyLearnsFromOneLabel) {
  ClassifyOptions options;
  options.labels = {"no", "yes"};
  const std::string all = write("all.tsv", "a\tyes\nb\tyes\n");
  const std::string other = write("other.tsv", "c\tno\n");
  EXPECT_THAT(refusal_of({all}, options),
              testing::HasSubstr("all.tsv: all 2 rows have the label yes"));
  EXPECT_EQ(refusal_of({all, other}, options), "no error");
  EXPECT_EQ(read_tables({all}, options, TableUse::kValidation, Tell::kNothing).texts.size(), 2U);
}

}  // namespace
}  // namespace phalanx
