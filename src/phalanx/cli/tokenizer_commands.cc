#include <fmt/core.h>

#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/log.h"
#include "phalanx/cli/commands.h"
#include "phalanx/cli/tokenizer_flags.h"
#include "phalanx/tokenizer/bpe_files.h"
#include "phalanx/tokenizer/bpe_trainer.h"

namespace phalanx {
namespace {

std::string standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// A JSON list of ids, or ids between blanks.
std::vector<std::int32_t> ids_of(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  std::string list = text;
  if (text[first] != '[') {
    list = "[";
    std::size_t at = first;
    while (at != std::string::npos) {
      const auto end = text.find_first_of(" \t\r\n", at);
      if (list.size() > 1) list += ",";
      list += text.substr(at, end - at);
      at = text.find_first_not_of(" \t\r\n", end);
    }
    list += "]";
  }
  try {
    std::vector<std::int32_t> ids;
    for (const auto& item : nlohmann::json::parse(list)) {
      const auto id = item.get<std::int64_t>();
      if (!item.is_number_integer() || id < 0 || id > INT32_MAX) {
        throw DataError("standard input: {} is not a token id", item.dump());
      }
      ids.push_back(static_cast<std::int32_t>(id));
    }
    return ids;
  } catch (const nlohmann::json::exception& fault) {
    throw DataError("standard input is no list of token ids: {}", fault.what());
  }
}

}  // namespace

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
  const std::string text = tokenizer->decode(ids_of(input));
  if (json) {
    fmt::print("{}\n", Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", text);
  }
  return 0;
}

}  // namespace phalanx
