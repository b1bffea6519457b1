#include "phalanx/cli/score_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/json_line.h"
#include "phalanx/cli/text_input.h"
#include "phalanx/tasks/classification.h"
#include "phalanx/tasks/classify_family.h"
#include "phalanx/tasks/classify_options.h"

namespace phalanx {
namespace {

constexpr const char* kSource = "standard input";

// For an imported model, which does not say: the label is the last column, texts are the others.
std::vector<std::string> text_columns_of(std::string_view rows) {
  const std::string_view first = rows.substr(0, rows.find_first_of("\r\n"));
  if (std::ranges::count(first, '\t') > 1) return {"0", "1"};
  return {"0"};
}

LabelledTexts read_rows(CommandIo& io, ClassifyOptions options) {
  std::string rows = standard_input(io);
  if (rows.empty()) {
    throw DataError(
        "{} is empty: give rows there, with their labels, as the classifier was "
        "trained on",
        kSource);
  }
  check_utf8(rows, kSource);
  if (options.texts() == 0) options.text_columns = text_columns_of(rows);
  return parse_labelled_texts(std::move(rows), kSource, options.table(), options.classes());
}

// A row's place, label, prediction and loss.
class RowTable {
 public:
  RowTable(CommandIo& io, const RowScoreOptions& options, const std::vector<std::string>& names)
      : io_(io), options_(options), names_(names) {
    if (!options.json) {
      io_.write(fmt::format("{:>8} {:>12}  {:<16} {}\n", "line", "loss", "label", "prediction"));
    }
  }

  void add(const LabelledText& text, std::int32_t prediction, double loss) const {
    const std::string& label = names_[static_cast<std::size_t>(text.label)];
    const std::string& predicted = names_[static_cast<std::size_t>(prediction)];
    if (options_.json) {
      const nlohmann::ordered_json json = {{"line", text.line},
                                           {"label", label},
                                           {"prediction", predicted},
                                           {"loss", static_cast<float>(loss)}};
      io_.write(json_line(json));
    } else {
      io_.write(fmt::format("{:>8} {:>12.6f}  {:<16} {}\n", text.line, loss, label, predicted));
    }
  }

 private:
  CommandIo& io_;
  const RowScoreOptions& options_;
  const std::vector<std::string>& names_;
};

void print_summary(CommandIo& io, const Confusion& found, double loss,
                   const RowScoreOptions& options, const std::vector<std::string>& names) {
  const double accuracy = static_cast<double>(found.correct()) / static_cast<double>(found.total());
  if (!options.json) {
    io.write(fmt::format("{} texts, accuracy {:.6f}, F1 {:.6f}, loss {:.6f}\n",
                         format_count(found.total()), accuracy, found.f1(), loss));
    return;
  }
  const nlohmann::ordered_json json = {
      {"texts", found.total()},     {"correct", found.correct()},       {"accuracy", accuracy},
      {"f1", found.f1()},           {"loss", static_cast<float>(loss)}, {"labels", names},
      {"confusion", found.counts()}};
  io.write(json_line(json));
}

}  // namespace

int score_rows(CommandIo& io, const TrainedModel& trained, const RowScoreOptions& options) {
  const auto classify = ClassifyOptions::from_text(trained.config.family_options);
  const std::vector<std::string> names = classify.label_names();
  const LabelledTexts rows = read_rows(io, classify);
  const std::int64_t sequence = trained.config.data.seq_length;
  const ClassificationSamples samples(rows, *trained.tokenizer, sequence);
  tell_left_out(rows);
  tell_cut(kSource, samples.cut(), samples.size(), sequence);
  Classifier classifier(trained.config,
                        classifier_config(trained.config, trained.tokenizer->vocab_size()),
                        *trained.tokenizer, trained.checkpoint, trained.device);
  std::optional<RowTable> table;
  if (options.lines) table.emplace(io, options, names);
  double loss = 0.0;
  std::size_t number = 0;
  const Confusion found =
      classifier.evaluate(samples, [&](std::int32_t prediction, const std::vector<float>& logits) {
        const LabelledText& text = rows.texts[number++];
        const double own = cross_entropy_of(logits, text.label);
        loss += own;
        if (table) table->add(text, prediction, own);
      });
  // With --lines --json each line is a document of its row.
  if (options.lines && options.json) return 0;
  print_summary(io, found, loss / static_cast<double>(found.total()), options, names);
  return 0;
}

}  // namespace phalanx
