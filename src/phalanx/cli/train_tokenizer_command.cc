#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/corpus_flags.h"
#include "phalanx/cli/output_files.h"
#include "phalanx/corpus/document_work.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/tokenizer/bpe_files.h"
#include "phalanx/tokenizer/bpe_trainer.h"
#include "phalanx/tokenizer/word_splitter.h"
#include "phalanx/tokenizer/wordpiece_trainer.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// A trainer that has counted the words of a corpus. Each counting thread has a trainer of its own;
// the sums do not depend on how texts are shared out.
template <typename Trainer, typename Options>
Trainer trainer_of(const CorpusOptions& corpus, const Options& options) {
  Trainer all(options);
  std::mutex mutex;
  std::vector<std::unique_ptr<Trainer>> idle;
  const auto take = [&] {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<Trainer>(options);
    auto taken = std::move(idle.back());
    idle.pop_back();
    return taken;
  };
  const auto counts = for_each_corpus_text(corpus, [&](std::string_view text) {
    auto trainer = take();
    trainer->add_text(text);
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(trainer));
  });
  for (auto& trainer : idle) all.add_words_of(*std::exchange(trainer, nullptr));
  if (counts.skipped_lines > 0) {
    log_info("{} bad lines were left out", format_count(counts.skipped_lines));
  }
  return all;
}

void train_and_write_bpe(const CorpusOptions& corpus, const BpeTrainerOptions& options,
                         const fs::path& directory) {
  const BpeTables tables = trainer_of<BpeTrainer>(corpus, options).train();
  create_directories_durably(directory);
  write_bpe_files(tables, directory / "vocab.json", directory / "merges.txt");
  log_info("{} ids: {} and {}", tables.tokens.size(), (directory / "vocab.json").string(),
           (directory / "merges.txt").string());
}

void train_and_write_wordpiece(const CorpusOptions& corpus, const WordPieceTrainerOptions& options,
                               const fs::path& directory) {
  const std::vector<std::string> tokens = trainer_of<WordPieceTrainer>(corpus, options).train();
  create_directories_durably(directory);
  write_wordpiece_file(tokens, directory / "vocab.txt");
  log_info("{} ids: {}", tokens.size(), (directory / "vocab.txt").string());
}

}  // namespace

int run_train_tokenizer(CommandIo& /*io*/, const Arguments& arguments) {
  CorpusOptions corpus;
  CorpusFlags corpus_flags(corpus);
  std::string output;
  bool overwrite = false;
  std::string type = "bpe";
  std::int64_t vocab_size = 0;
  std::int64_t min_frequency = 2;
  std::int64_t workers = 0;
  WordPieceTrainerOptions wordpiece;
  FlagSet flags("phalanx train-tokenizer",
                "Learns a vocabulary from text: a byte-level BPE, or BERT's WordPiece.");
  corpus_flags.add_to(flags);
  flags.section("Vocabulary");
  flags.add({.name = "--type", .help = "What is learned", .choices = "bpe wordpiece"}, &type);
  flags.add({.name = "--vocab-size", .help = "Ids, special tokens included", .required = true},
            &vocab_size);
  flags.add({.name = "--output",
             .help = "Directory for vocab.json and merges.txt, or vocab.txt",
             .value_name = "DIR",
             .required = true},
            &output);
  flags.add({.name = "--overwrite", .help = "Replace a vocabulary that is there"}, &overwrite);
  flags.add({.name = "--min-frequency", .help = "Pairs that occur less often do not merge"},
            &min_frequency);
  flags.add({.name = "--workers",
             .help = "Threads that count words (default: all usable cores)",
             .range = from_to(1, 1024)},
            &workers);
  flags.add({.name = "--lower-case", .help = "wordpiece: for BertWordPieceLowerCase"},
            &wordpiece.lower_case);
  flags.add({.name = "--limit-alphabet", .help = "wordpiece: the most characters that are kept"},
            &wordpiece.limit_alphabet);
  flags.parse(arguments);
  const bool is_wordpiece = type == "wordpiece";
  for (const char* flag : {"--lower-case", "--limit-alphabet"}) {
    if (!is_wordpiece && flags.given(flag))
      throw UsageError("{} belongs to --type wordpiece", flag);
  }
  const std::vector<std::string> names = is_wordpiece
                                             ? std::vector<std::string>{"vocab.txt"}
                                             : std::vector<std::string>{"vocab.json", "merges.txt"};
  for (const auto& name : names) check_output("--output", fs::path(output) / name, overwrite);
  corpus_flags.complete(workers);
  corpus.cut_text = last_word_end;
  if (is_wordpiece) {
    wordpiece.vocab_size = vocab_size;
    wordpiece.min_frequency = min_frequency;
    train_and_write_wordpiece(corpus, wordpiece, output);
    return 0;
  }
  train_and_write_bpe(corpus, {.vocab_size = vocab_size, .min_frequency = min_frequency}, output);
  return 0;
}

}  // namespace phalanx
