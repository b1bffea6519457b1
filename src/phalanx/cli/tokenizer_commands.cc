#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "phalanx/cli/commands.h"
#include "phalanx/cli/text_input.h"
#include "phalanx/cli/tokenize_chat.h"
#include "phalanx/cli/tokenizer_flags.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;

// The output in blocks.
class Output {
 public:
  explicit Output(CommandIo& io) : io_(io) {}
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    if (text_.size() >= kBlock) flush();
  }
  void flush() {
    io_.write(text_);
    text_.clear();
  }

 private:
  static constexpr std::size_t kBlock = 1 << 16;
  CommandIo& io_;
  std::string text_;
};

void print_ids(std::span<const std::int32_t> ids, Output& output) {
  const char* before = "[";
  for (const auto id : ids) {
    output.print("{}{}", before, id);
    before = ",";
  }
  output.print("{}\n", ids.empty() ? "[]" : "]");
}

std::string json_string(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The piece as it is, if it can be shown in a column; else as a JSON string.
std::string shown(const std::string& piece) {
  const std::string json = json_string(piece);
  return json.size() == piece.size() + 2 && json.find(piece) == 1 ? piece : json;
}

void print_pieces(const Tokenizer& tokenizer, std::span<const std::int32_t> ids, Output& output) {
  output.print("{:>8}  {:<24}  {}\n", "id", "piece", "bytes");
  for (const auto id : ids) {
    const std::string bytes = tokenizer.decode({&id, 1});
    std::string hex;
    for (const char byte : bytes) {
      fmt::format_to(std::back_inserter(hex), "{}{:02x}", hex.empty() ? "" : " ",
                     static_cast<std::uint8_t>(byte));
    }
    const std::string line = fmt::format("{:>8}  {:<24}  {}", id, shown(tokenizer.piece(id)), hex);
    output.print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

// Calls `use` with each line, or with the whole text.
template <typename Use>
void for_each_text(const std::string& input, bool by_lines, const Use& use) {
  if (!by_lines) return use(std::string_view(input));
  for (std::string_view rest = input; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    use(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

struct TokenizeOptions {
  bool decode = false;
  bool json = false;
  bool lines = false;
  bool pieces = false;
  EncodeOptions encoding;
  DecodeOptions decoding;
  bool chat = false;
  TokenizeChatOptions of_chat;
};

void add_chat_flags(FlagSet& flags, TokenizeOptions& options) {
  flags.add({.name = "--chat",
             .help = "Each line is a conversation in JSON: its text, ids and which of them are "
                     "the assistant's, as JSON",
             .excludes = "--decode --pieces --parse-special-tokens --add-special-tokens"},
            &options.chat);
  flags.add({.name = "--chat-template",
             .help = "The chat template (Jinja), instead of the one beside the tokenizer",
             .value_name = "FILE",
             .needs = "--chat"},
            &options.of_chat.file);
  flags.add({.name = "--chat-template-args",
             .help = "Variables for the template, as a JSON object",
             .value_name = "JSON",
             .needs = "--chat"},
            &options.of_chat.arguments);
  flags.add({.name = "--chat-template-date",
             .help = "The day that a template is told when it asks for today's",
             .value_name = "YYYY-MM-DD",
             .needs = "--chat"},
            &options.of_chat.date);
  flags.add({.name = "--add-generation-prompt",
             .help = "Ends each conversation with the beginning of an answer",
             .needs = "--chat"},
            &options.of_chat.add_generation_prompt);
}

void add_flags(FlagSet& flags, TokenizeOptions& options) {
  flags.add({.name = "--decode", .help = "Ids into text"}, &options.decode);
  flags.add({.name = "--lines", .help = "Each line is a text (a list of ids) of its own"},
            &options.lines);
  flags.add({.name = "--json",
             .help = "Ids as a JSON list, as they are anyway; with --decode: text as a JSON string",
             .excludes = "--pieces"},
            &options.json);
  flags.add({.name = "--pieces",
             .help = "A table of ids, tokens and their bytes, for people",
             .excludes = "--decode"},
            &options.pieces);
  flags.add({.name = "--parse-special-tokens",
             .help = "Special tokens written in the text become their ids",
             .excludes = "--decode"},
            &options.encoding.parse_special);
  flags.add({.name = "--add-special-tokens",
             .help = "Adds the special tokens that the tokenizer puts around a text",
             .excludes = "--decode"},
            &options.encoding.add_special);
  flags.add({.name = "--skip-special-tokens",
             .help = "Leaves special tokens out of the text",
             .needs = "--decode"},
            &options.decoding.skip_special);
}

}  // namespace

int run_tokenize(CommandIo& io, const Arguments& arguments) {
  TokenizerFlags tokenizer_flags;
  TokenizeOptions options;
  FlagSet flags("phalanx tokenize", "Standard input into token ids (a JSON list), or back.");
  tokenizer_flags.add_to(flags);
  add_flags(flags, options);
  add_chat_flags(flags, options);
  flags.parse(arguments);
  if (options.chat && !(options.lines && options.json)) {
    throw ConfigError("--chat needs --lines and --json, too");
  }
  const auto tokenizer = tokenizer_flags.make();
  if (options.chat) {
    options.of_chat.tokenizer_model = tokenizer_flags.options().tokenizer_model;
    return tokenize_chat(io, *tokenizer, options.of_chat);
  }
  const std::string input = standard_input(io);
  Output output(io);
  for_each_text(input, options.lines, [&](std::string_view text) {
    if (!options.decode) {
      const auto ids = tokenizer->encode(text, options.encoding);
      if (options.pieces) return print_pieces(*tokenizer, ids, output);
      return print_ids(ids, output);
    }
    const auto ids = token_ids_of(std::string(text), "standard input");
    const std::string decoded = tokenizer->decode(ids, options.decoding);
    if (options.json) {
      output.print("{}\n", json_string(decoded));
    } else {
      output.print("{}{}", decoded, options.lines ? "\n" : "");
    }
  });
  output.flush();
  return 0;
}

}  // namespace phalanx
