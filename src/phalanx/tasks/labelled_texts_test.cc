#include "phalanx/tasks/labelled_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/base/test_support.h"
#include "phalanx/tasks/test_support.h"

namespace phalanx {
namespace {

class LabelledTables : public TaskFiles {
 protected:
  LabelledTexts read(const std::string& text, const TableOptions& options,
                     std::int64_t classes = 2) const {
    return read_labelled_texts(write("table.tsv", text), options, classes);
  }
  void refused(const std::string& text, const TableOptions& options,
               const std::string& mention) const {
    EXPECT_THAT(error_of([&] { read(text, options, 2); }),
                testing::HasSubstr("table.tsv" + mention))
        << text;
  }
};

TEST_F(LabelledTables, ColumnsByNumberAndByName) {
  const auto numbers = read("one  text \t1\n\nother . text\t0\r\nlast\t1", {});
  ASSERT_EQ(numbers.texts.size(), 3U);
  EXPECT_FALSE(numbers.has_pairs);
  EXPECT_EQ(numbers.texts[0].a, "one text");
  EXPECT_EQ(numbers.texts[0].label, 1);
  EXPECT_EQ(numbers.texts[1].a, "other. text");
  EXPECT_EQ(numbers.texts[1].line, 3);
  EXPECT_EQ(numbers.texts[2].b, "");
  const TableOptions names = {
      .text_columns = {"first", "second"}, .label_column = "verdict", .labels = {"no", "yes"}};
  const auto pairs = read("verdict\tsecond\tfirst\nyes\tb\ta\nno\td\tc\n", names);
  ASSERT_EQ(pairs.texts.size(), 2U);
  EXPECT_TRUE(pairs.has_pairs);
  EXPECT_EQ(pairs.texts[0].a, "a");
  EXPECT_EQ(pairs.texts[0].b, "b");
  EXPECT_EQ(pairs.texts[0].label, 1);
  EXPECT_EQ(pairs.texts[1].label, 0);
  EXPECT_EQ(read("text\tlabel\na\t1\n", {.has_header = true}).texts.size(), 1U);
}

TEST_F(LabelledTables, FaultsNameTheirLine) {
  refused("", {}, ": no labelled texts");
  refused("a\t1\nb\t2\n", {}, ", line 2: the label 2 is not below the number of classes, 2");
  refused("a\t1\n\t1\n", {}, ", line 2: an empty text");
  refused("a\t1\nb\n", {.text_columns = {"0", "1"}, .label_column = "2"}, ", line 1: 2 columns");
  refused("a\tyes\nb\tno\n", {}, ": labels are words: name them in their order, --labels no yes");
  refused("a\tand it was so\nb\tno\n", {},
          ": labels are words: name them in their order, --labels \"and it was so\" no (or give "
          "--label-column");
  refused(
      "a\tand it was so\n", {.labels = {"no", "not so"}},
      ", line 1: the label is read from column 1 of 2 (the first is 0, tabs stand between them), "
      "and \"and it was so\" is none of \"no\", \"not so\": give --label-column if another one "
      "has it, --labels if there are other labels");
  refused("x\ty\na\t1\n", {.label_column = "label"}, ": no column is called label");
  refused("x\ty\na\n", {.label_column = "y"}, ", line 2: 1 columns; the header has 2");
  refused("a\xff\t1\n", {}, ": byte 1 is no UTF-8");
}

// One tab too many or too few would move columns.
TEST_F(LabelledTables, RowsHaveOneNumberOfColumns) {
  refused("a\t1\nb\tc\t1\n", {}, ", line 2: 3 columns, but line 1 has 2");
  refused("text\tlabel\n\na\tb\t1\n", {.has_header = true},
          ", line 3: 3 columns, but line 1 has 2");
  refused("a\tb\t1\nc\t0\n", {.text_columns = {"0", "1"}},
          ", line 2: 2 columns: the text's (--text-columns 1) would be the label's (--label-column "
          "-1)");
  refused("1\n", {}, ", line 1: 1 column: the text's (--text-columns 0)");
}

TEST_F(LabelledTables, BlankLinesAreCounted) {
  const auto found = read("a\t1\n\n \t \nb\t0\n", {});
  EXPECT_EQ(found.texts.size(), 2U);
  EXPECT_EQ(found.blank, 2);
  EXPECT_EQ(found.first_blank, 2);
  EXPECT_TRUE(found.has_labels);
}

TEST(UnlabelledText, IsATablesRowWithoutItsLabel) {
  const UnlabelledText pair = unlabelled_text(" one  text \tother . text", 2, "line 1");
  EXPECT_EQ(pair.a, "one text");
  EXPECT_EQ(pair.b, "other. text");
  EXPECT_TRUE(pair.has_b);
  EXPECT_FALSE(unlabelled_text("one", 1, "line 1").has_b);
  EXPECT_FALSE(unlabelled_text("one", 0, "line 1").has_b);
  EXPECT_TRUE(unlabelled_text("one\ttwo", 0, "line 1").has_b);
  const auto refusal = [](std::string_view line, int texts) {
    try {
      unlabelled_text(line, texts, "line 7");
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(refusal("one\tyes", 1), "line 7: 2 columns; a row is one text, without a label");
  EXPECT_EQ(refusal("one", 2),
            "line 7: 1 column; a row is two texts with a tab between them, without a label");
  EXPECT_EQ(
      refusal("a\tb\tyes", 0),
      "line 7: 3 columns; a row is one text, or two with a tab between them, without a label");
  EXPECT_EQ(refusal(" \t", 2), "line 7: a blank line: there is no text");
  EXPECT_EQ(refusal("a\t", 2), "line 7: an empty text");
}

TEST_F(LabelledTables, Mnli) {
  const TableOptions options = {.kind = TableKind::kMnli};
  const std::string head = "index\tp\tg\td\te\tf\th\ti\tsentence1\tsentence2\tl1\tgold_label\n";
  const std::string left = "\tx\tx\tx\tx\tx\tx\tx\t";
  const auto found = read(head + "0" + left + "A  one .\tB\tneutral\tentailment\n1" + left +
                              "C\tD\tx\tneutral\r2" + left + "E\tF\tx\tcontradiction",
                          options, classes_of(TableKind::kMnli));
  ASSERT_EQ(found.texts.size(), 3U);
  EXPECT_EQ(found.texts[0].a, "A one .");
  EXPECT_EQ(found.texts[0].b, "B");
  EXPECT_EQ(found.texts[0].label, 1);
  EXPECT_EQ(found.texts[1].label, 2);
  EXPECT_EQ(found.texts[2].label, 0);
  const std::string test_head = "index\tp\tg\td\te\tf\th\ti\tsentence1\tsentence2\n";
  EXPECT_EQ(read(test_head + "7" + left + "A\tB\n", options).texts[0].label, 0);
  EXPECT_FALSE(read(test_head + "7" + left + "A\tB\n", options).has_labels);
  refused(head + "0" + left + "A\tB\tx\tmaybe\n", options,
          ", line 2: the label, the last of 12 columns, is \"maybe\": it must be one of "
          "\"contradiction\", \"entailment\", \"neutral\"");
  refused(head + "0" + left + "\tB\tx\tneutral\n", options, ", line 2: an empty text");
  refused(head + "0\tA\tneutral\n", options, ", line 2: 3 columns");
  refused(head + "x" + left + "A\tB\tx\tneutral\n", options, ", line 2: the first column is x");
}

TEST_F(LabelledTables, Qqp) {
  const TableOptions options = {.kind = TableKind::kQqp};
  const std::string head = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";
  const auto found = read(
      head + "0\t1\t2\tHow?\tWhy?\t0\n1\t3\t4\tbroken\n2\t5\t6\t\tx\t1\n" + "3\t7\t8\tA\tB\t1\n",
      options);
  ASSERT_EQ(found.texts.size(), 2U);
  EXPECT_EQ(found.texts[1].label, 1);
  EXPECT_EQ(found.texts[1].line, 5);
  EXPECT_EQ(found.skipped, 2);
  EXPECT_EQ(found.first_skipped, 3);
  const auto test = read("id\ta\tb\n5\tx\ty\n", options);
  EXPECT_EQ(test.texts[0].a, "x");
  EXPECT_EQ(test.texts[0].label, 0);
  refused("id\tq\n1\t2\n", options, ": the header has 2 columns");
  refused(head + "0\t1\t2\tA\tB\t2\n", options,
          ", line 2: the label, the last of 6 columns, is \"2\": it must be 0 or 1");
  refused("id\ta\tb\n5\tx\n", options, ", line 2: 2 columns, not 3");
}

TEST(CleanText, IsMegatrons) {
  EXPECT_EQ(clean_text("a\n b\u3000 c . d . . . e ."), "a b c. d. .. e .");
}

}  // namespace
}  // namespace phalanx
