#pragma once
// Texts with labels, as tables between tabs: any such file, and the ones of two of GLUE's tasks in
// the columns that Megatron-LM's tasks/glue reads.

#include <cstdint>
#include <string>
#include <vector>

namespace phalanx {

enum class TableKind {
  kPlain,  // the columns that TableOptions names
  // A header, and behind it rows of an id, ..., the texts in columns 8 and 9, ..., the label: a
  // word. A header of ten columns is a test file's, whose labels nobody knows: contradiction.
  kMnli,
  // A header, and behind it rows of id, -, -, text, text, label (0 or 1). A header of three columns
  // is a test file's: id, text, text; all labels are 0. Other rows and empty texts are skipped.
  kQqp,
};

struct TableOptions {
  TableKind kind = TableKind::kPlain;
  // kPlain alone. A column is its number, from 0 on (from the end: -1 is the last), or its name in
  // the header; a name means that there is a header.
  std::vector<std::string> text_columns = {"0"};  // one or two
  std::string label_column = "-1";
  bool has_header = false;
  // Words whose places are the labels; empty: labels are numbers.
  std::vector<std::string> labels = {};
};

struct LabelledText {
  std::string a, b;  // cleaned; b is empty where there is one text
  std::int32_t label = 0;
  std::int64_t line = 0;  // of the file, from 1 on
};

struct LabelledTexts {
  std::string path;
  std::vector<LabelledText> texts;
  bool has_pairs = false;  // two texts each
  // Rows that are left out, as the kind has it, and the line of the first.
  std::int64_t skipped = 0;
  std::int64_t first_skipped = 0;
  // Blank lines of a plain file, which are left out too.
  std::int64_t blank = 0;
  std::int64_t first_blank = 0;
  bool has_labels = true;  // false: a test file's, which nobody knows
};

// How many labels the kind has; 0: nobody knows.
std::int64_t classes_of(TableKind kind);
// What they are called there, in their order; empty where the kind has no words.
std::vector<std::string> label_words(TableKind kind);

// Labels are below `classes`. DataError names the line and what is wrong with it: too few columns,
// other columns than the first row, an empty text, a label that is none (and which words there are,
// where labels are words that nobody named). ConfigError where a column is not in the header.
LabelledTexts read_labelled_texts(const std::string& path, const TableOptions& options,
                                  std::int64_t classes);
// Of a text in UTF-8, which messages call `source`.
LabelledTexts parse_labelled_texts(std::string text, const std::string& source,
                                   const TableOptions& options, std::int64_t classes);

// A line without a label, cleaned as a table's: one text, or two with a tab between them. `texts`
// says how many there must be, 0 that both will do. DataError calls the line `source`.
struct UnlabelledText {
  std::string a, b;
  bool has_b = false;
};
UnlabelledText unlabelled_text(std::string_view line, int texts, std::string_view source);

// Without line ends, runs of white space and blanks before full stops, as Megatron's clean_text().
std::string clean_text(std::string_view text);

}  // namespace phalanx
