#include <filesystem>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/base/machine.h"
#include "phalanx/cli/commands.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/tokenizer/bpe_files.h"
#include "phalanx/tokenizer/bpe_trainer.h"
#include "phalanx/tokenizer/wordpiece_trainer.h"

namespace phalanx {
namespace {

using Paths = std::vector<std::filesystem::path>;

void train_and_write_bpe(const Paths& inputs, const BpeTrainerOptions& options,
                         const std::filesystem::path& directory) {
  const BpeTables tables = train_bpe(inputs, options);
  create_directories_durably(directory);
  write_bpe_files(tables, directory / "vocab.json", directory / "merges.txt");
  log_info("{} ids: {} and {}", tables.tokens.size(), (directory / "vocab.json").string(),
           (directory / "merges.txt").string());
}

void train_and_write_wordpiece(const Paths& inputs, const WordPieceTrainerOptions& options,
                               const std::filesystem::path& directory) {
  const std::vector<std::string> tokens = train_wordpiece(inputs, options);
  create_directories_durably(directory);
  write_wordpiece_file(tokens, directory / "vocab.txt");
  log_info("{} ids: {}", tokens.size(), (directory / "vocab.txt").string());
}

}  // namespace

int run_train_tokenizer(const Arguments& arguments) {
  std::vector<std::string> inputs;
  std::string output;
  std::string type = "bpe";
  std::int64_t vocab_size = 0;
  std::int64_t min_frequency = 2;
  std::int64_t workers = 0;
  WordPieceTrainerOptions wordpiece;
  FlagSet flags("phalanx train-tokenizer",
                "Learns a vocabulary from text: a byte-level BPE, or BERT's WordPiece.");
  flags.add({.name = "--input", .help = "Text files", .value_name = "FILE", .required = true},
            &inputs);
  flags.add({.name = "--type", .help = "What is learned", .choices = "bpe wordpiece"}, &type);
  flags.add({.name = "--vocab-size", .help = "Ids, special tokens included", .required = true},
            &vocab_size);
  flags.add({.name = "--output",
             .help = "Directory for vocab.json and merges.txt, or vocab.txt",
             .value_name = "DIR",
             .required = true},
            &output);
  flags.add({.name = "--min-frequency", .help = "Pairs that occur less often do not merge"},
            &min_frequency);
  flags.add({.name = "--workers",
             .help = "bpe: threads that count words (default: all usable cores)",
             .range = from_to(1, 4096)},
            &workers);
  flags.add({.name = "--lower-case", .help = "wordpiece: for BertWordPieceLowerCase"},
            &wordpiece.lower_case);
  flags.add({.name = "--limit-alphabet", .help = "wordpiece: the most characters that are kept"},
            &wordpiece.limit_alphabet);
  flags.parse(arguments);
  const Paths paths(inputs.begin(), inputs.end());
  if (type == "wordpiece") {
    if (flags.given("--workers")) throw UsageError("--workers belongs to --type bpe");
    wordpiece.vocab_size = vocab_size;
    wordpiece.min_frequency = min_frequency;
    train_and_write_wordpiece(paths, wordpiece, output);
    return 0;
  }
  for (const char* flag : {"--lower-case", "--limit-alphabet"}) {
    if (flags.given(flag)) throw UsageError("{} belongs to --type wordpiece", flag);
  }
  const BpeTrainerOptions options{
      .vocab_size = vocab_size,
      .min_frequency = min_frequency,
      .threads = workers > 0 ? static_cast<int>(workers) : usable_cores().count};
  train_and_write_bpe(paths, options, output);
  return 0;
}

}  // namespace phalanx
