#include <filesystem>
#include <string>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/commands.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/tokenizer/bpe_files.h"
#include "phalanx/tokenizer/bpe_trainer.h"

namespace phalanx {

int run_train_tokenizer(const Arguments& arguments) {
  std::vector<std::string> inputs;
  std::string output;
  BpeTrainerOptions options;
  FlagSet flags("phalanx train-tokenizer", "Learns a byte-level BPE vocabulary from text.");
  flags.add({.name = "--input", .help = "Text files", .value_name = "FILE", .required = true},
            &inputs);
  flags.add({.name = "--vocab-size", .help = "Ids, <|endoftext|> included", .required = true},
            &options.vocab_size);
  flags.add({.name = "--output",
             .help = "Directory for vocab.json and merges.txt",
             .value_name = "DIR",
             .required = true},
            &output);
  flags.add({.name = "--min-frequency", .help = "Pairs that occur less often do not merge"},
            &options.min_frequency);
  flags.parse(arguments);
  const BpeTables tables =
      train_bpe(std::vector<std::filesystem::path>(inputs.begin(), inputs.end()), options);
  create_directories_durably(output);
  const auto directory = std::filesystem::path(output);
  write_bpe_files(tables, directory / "vocab.json", directory / "merges.txt");
  log_info("{} ids: {} and {}", tables.tokens.size(), (directory / "vocab.json").string(),
           (directory / "merges.txt").string());
  return 0;
}

}  // namespace phalanx
