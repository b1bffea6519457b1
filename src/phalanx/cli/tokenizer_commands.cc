#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "phalanx/cli/commands.h"
#include "phalanx/cli/text_input.h"
#include "phalanx/cli/tokenizer_flags.h"

namespace phalanx {

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
