#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/text_input.h"
#include "phalanx/cli/tokenizer_flags.h"
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

int run_tokenize(const Arguments& arguments) {
  TokenizerFlags tokenizer_flags;
  bool decode = false;
  bool json = false;
  FlagSet flags("phalanx tokenize", "Standard input into token ids (a JSON list), or back.");
  tokenizer_flags.add_to(flags);
  flags.add({.name = "--decode", .help = "Ids into text"}, &decode);
  flags.add({.name = "--json", .help = "With --decode: the text as a JSON string"}, &json);
  flags.parse(arguments);
  const auto tokenizer = tokenizer_flags.make();
  const std::string input = standard_input();
  using Json = nlohmann::json;
  if (!decode) {
    fmt::print("{}\n", Json(tokenizer->encode(input)).dump());
    return 0;
  }
  const std::string text = tokenizer->decode(token_ids_of(input, "standard input"));
  if (json) {
    fmt::print("{}\n", Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", text);
  }
  return 0;
}

}  // namespace phalanx
