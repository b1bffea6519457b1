#pragma once
// The flags of `finetune classify` that training does not have, and what follows from them.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/data/sample_source.h"
#include "phalanx/tasks/labelled_texts.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// Fields are named after their flags.
struct ClassifyOptions {
  std::int64_t num_classes = 0;        // 0: the number of named labels, or of the format's labels
  std::string table_format = "plain";  // plain, mnli, qqp
  std::vector<std::string> text_columns = {"0"};
  std::string label_column = "-1";
  bool header = false;
  std::vector<std::string> labels;
  std::int64_t epochs = 3;
  bool keep_last_batch = false;

  TableOptions table() const;
  // ConfigError where no flag says it, or two flags contradict each other.
  std::int64_t classes() const;
  // By class: the words, or the numbers, that are its labels.
  std::vector<std::string> label_names() const;
  // Texts of a row: one or two; 0: not known, as for an imported model.
  int texts() const;

  // Values by flag, as a configuration keeps them.
  std::map<std::string, std::string> to_text() const;
  // A missing flag has its default, but missing text columns are not known. ConfigError where a
  // value is not valid.
  static ClassifyOptions from_text(const std::map<std::string, std::string>& values);
};

// Batches of an epoch. ConfigError where the samples do not fill one.
std::int64_t batches_of_epoch(std::int64_t samples, std::int64_t batch, bool keep_last);

// The samples of all files together, in the order of epochs (data/shuffled_epochs.h).
std::shared_ptr<const SampleSource> training_source(const std::vector<std::string>& paths,
                                                    const ClassifyOptions& options,
                                                    const Tokenizer& tokenizer,
                                                    std::int64_t sequence, std::int64_t batch,
                                                    std::uint64_t seed);
// The samples of one file, each once.
std::shared_ptr<const SampleSource> validation_source(const std::string& path,
                                                      const ClassifyOptions& options,
                                                      const Tokenizer& tokenizer,
                                                      std::int64_t sequence);

// Warns of rows that are left out, and of texts that are longer than a sequence.
void tell_left_out(const LabelledTexts& table);
void tell_cut(const std::string& source, std::int64_t cut, std::int64_t rows,
              std::int64_t sequence);

// What read_tables() logs: how many texts there are, which rows are left out, and, of training
// texts, which label no row has.
enum class TableUse : std::uint8_t { kTraining, kValidation };
enum class Tell : std::uint8_t { kNothing, kAll };
// Reads several files as one; all have one text in a row, or all have two. DataError where all
// training texts have the same label.
LabelledTexts read_tables(const std::vector<std::string>& paths, const ClassifyOptions& options,
                          TableUse use, Tell tell);

}  // namespace phalanx
