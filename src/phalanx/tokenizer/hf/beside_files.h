#pragma once
// The files that lie beside a tokenizer.json and say the same things: tokenizer_config.json, and of
// older folders special_tokens_map.json and added_tokens.json. What counts is what transformers
// does with the folder. Where its versions 4 and 5 differ, that is told.

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/hf/added_tokens.h"
#include "phalanx/tokenizer/hf/tokenizer_json.h"

namespace phalanx {

// The files that a tokenizer is made of beside tokenizer.json.
inline constexpr std::array<const char*, 5> kFilesBesideTokenizer = {
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json",
    "generation_config.json"};

class BesideFiles {
 public:
  BesideFiles() = default;  // none
  // Reads those that exist.
  explicit BesideFiles(const std::filesystem::path& directory);

  // A token that one of them has.
  struct Token {
    AddedToken token;                // without an id
    std::optional<std::int64_t> id;  // as the file has it
    JsonNode place;
    bool is_listed = false;  // in a list of tokens, whose flags count; else it is named
  };
  // In the order in which transformers gives ids to those that are new.
  std::vector<Token> tokens() const;

  // What "eos_token" or another of the seven roles is; nothing if no file says it.
  std::optional<JsonNode> role(std::string_view key) const;
  const std::optional<JsonNode>& model() const { return model_; }
  const std::optional<JsonNode>& generation() const { return generation_; }

  // Whether special tokens stay text, even where they are looked for.
  bool splits_special() const;
  // The tokenizer.json with the switches that its class takes from tokenizer_config.json.
  JsonNode obeyed(const JsonNode& tokenizer_json) const;

 private:
  // Whether special_tokens_map.json has precedence: where tokenizer_config.json lists no tokens.
  bool map_counts() const;
  void compare_roles() const;
  std::string class_name(const JsonNode& tokenizer_json) const;
  JsonNode with_prefix_space(const JsonNode& tokenizer_json, std::string_view name) const;
  JsonNode with_bert_switches(const JsonNode& tokenizer_json) const;
  void compare_pipeline(const JsonNode& tokenizer_json, std::string_view name) const;
  void compare_added(const JsonNode& tokenizer_json, std::string_view name) const;
  void add_listed(std::vector<Token>& tokens) const;
  void add_named(std::vector<Token>& tokens) const;
  void add_extra(std::vector<Token>& tokens) const;

  std::string place_;  // of tokenizer_config.json, for messages
  std::optional<JsonNode> config_, map_, added_, model_, generation_;
};

}  // namespace phalanx
