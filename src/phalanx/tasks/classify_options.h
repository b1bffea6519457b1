#pragma once
// What `finetune classify` is told beside the flags of training, and what follows from it.

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
  std::int64_t num_classes = 0;  // 0: as many as the labels that are named, or as the format has
  std::string table_format = "plain";  // plain, mnli, qqp
  std::vector<std::string> text_columns = {"0"};
  std::string label_column = "-1";
  bool header = false;
  std::vector<std::string> labels;
  std::int64_t epochs = 3;
  bool keep_last_batch = false;

  TableOptions table() const;
  // ConfigError where nothing says it, or two flags say different things.
  std::int64_t classes() const;
  // By class: the words, or the numbers that stand for them.
  std::vector<std::string> label_names() const;
  // Texts of a row: one, two, or 0 where nothing says it, as of an imported model.
  int texts() const;

  // As a configuration keeps them: values by flag.
  std::map<std::string, std::string> to_text() const;
  // A flag that is missing has its default, but nothing says which columns are texts then.
  // ConfigError where a value is none.
  static ClassifyOptions from_text(const std::map<std::string, std::string>& values);
};

// Batches of an epoch. ConfigError where the samples do not fill one.
std::int64_t batches_of_epoch(std::int64_t samples, std::int64_t batch, bool keep_last);

// The samples of all files together, in the order that an epoch has (data/shuffled_epochs.h).
std::shared_ptr<const SampleSource> training_source(const std::vector<std::string>& paths,
                                                    const ClassifyOptions& options,
                                                    const Tokenizer& tokenizer,
                                                    std::int64_t sequence, std::int64_t batch,
                                                    std::uint64_t seed);
// Those of one file, each once.
std::shared_ptr<const SampleSource> validation_source(const std::string& path,
                                                      const ClassifyOptions& options,
                                                      const Tokenizer& tokenizer,
                                                      std::int64_t sequence);

// Warnings: of rows that are left out, and of texts that are longer than a sequence.
void tell_left_out(const LabelledTexts& table);
void tell_cut(const std::string& source, std::int64_t cut, std::int64_t rows,
              std::int64_t sequence);

// Several files as one; all have one text, or all have two. What is told: how many texts there are,
// which rows are left out, and, of texts to train on, which label no row has.
enum class TableUse : std::uint8_t { kTraining, kValidation };
enum class Tell : std::uint8_t { kNothing, kAll };
// DataError where texts to train on have one label alone.
LabelledTexts read_tables(const std::vector<std::string>& paths, const ClassifyOptions& options,
                          TableUse use, Tell tell);

}  // namespace phalanx
