#pragma once
// Texts with labels from tables whose columns are separated by tabs: any such file, and the files
// of two of GLUE's tasks with the columns that Megatron-LM's tasks/glue reads.

#include <cstdint>
#include <string>
#include <vector>

namespace phalanx {

enum class TableKind {
  kPlain,  // the columns that TableOptions names
  // A header, then rows of an id, ..., the texts in columns 8 and 9, ..., the label, which is a
  // word. A header of ten columns is a test file's, whose labels are not public: all are
  // "contradiction".
  kMnli,
  // A header, then rows of id, -, -, text, text, label (0 or 1). A header of three columns is a
  // test file's: id, text, text; all labels are 0. Other rows and empty texts are skipped.
  kQqp,
};

struct TableOptions {
  TableKind kind = TableKind::kPlain;
  // Only for kPlain. A column is a number (0 is the first, -1 the last) or a name in the header; a
  // name implies that there is a header.
  std::vector<std::string> text_columns = {"0"};  // one or two
  std::string label_column = "-1";
  bool has_header = false;
  // The words of the labels in their order; empty: labels are numbers.
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
  // How many rows the kind leaves out, and the line of the first.
  std::int64_t skipped = 0;
  std::int64_t first_skipped = 0;
  // How many blank lines a plain file has, which are left out too, and the first.
  std::int64_t blank = 0;
  std::int64_t first_blank = 0;
  bool has_labels = true;  // false: of a test file without labels
};

// How many labels the kind has; 0: not known.
std::int64_t classes_of(TableKind kind);
// The words of the kind's labels in their order; empty where it has none.
std::vector<std::string> label_words(TableKind kind);

// Labels are below `classes`. DataError names the line and what is wrong with it: too few columns,
// other columns than the first row, an empty text, an unknown label (with the words that occur, if
// no words were given). ConfigError where a column is not in the header.
LabelledTexts read_labelled_texts(const std::string& path, const TableOptions& options,
                                  std::int64_t classes);
// The same for a text in UTF-8, which messages call `source`.
LabelledTexts parse_labelled_texts(std::string text, const std::string& source,
                                   const TableOptions& options, std::int64_t classes);

// A line without a label: one text, or two with a tab between them, cleaned as those of a table.
// There must be `texts` of them; 0: one or two. DataError calls the line `source`.
struct UnlabelledText {
  std::string a, b;
  bool has_b = false;
};
UnlabelledText unlabelled_text(std::string_view line, int texts, std::string_view source);

// Removes line ends, repeated white space and blanks before full stops, as Megatron's clean_text().
std::string clean_text(std::string_view text);

}  // namespace phalanx
