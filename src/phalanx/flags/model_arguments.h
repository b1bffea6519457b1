#pragma once
// What a checkpoint says about its model: flags and their values as text, as manifests keep them.
// Import makes this from a config.json, and export makes a config.json from it.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phalanx {

class ModelArguments {
 public:
  ModelArguments() = default;
  explicit ModelArguments(std::map<std::string, std::string> arguments)
      : arguments_(std::move(arguments)) {}

  // Values as text; numbers in the shortest form that is read back as the same.
  void set(std::string_view flag, std::string text);
  void set(std::string_view flag, const char* text) { set(flag, std::string(text)); }
  void set(std::string_view flag, bool value) { set(flag, value ? "true" : "false"); }
  void set(std::string_view flag, std::int64_t value);
  void set(std::string_view flag, int value) { set(flag, std::int64_t{value}); }
  void set(std::string_view flag, double value);
  // Ids separated by blanks: "2 128001".
  void set(std::string_view flag, const std::vector<std::int64_t>& ids);

  bool has(std::string_view flag) const { return arguments_.contains(std::string(flag)); }
  // The value of a flag, or `otherwise` if it has none. DataError if the text is not such a value.
  std::int64_t integer(std::string_view flag, std::int64_t otherwise = 0) const;
  double number(std::string_view flag, double otherwise = 0.0) const;
  bool is_on(std::string_view flag) const;
  std::string text(std::string_view flag, std::string_view otherwise = {}) const;
  std::vector<std::int64_t> ids(std::string_view flag) const;

  // Sizes that every model has.
  std::int64_t layers() const { return integer("--num-layers"); }
  std::int64_t hidden() const { return integer("--hidden-size"); }
  std::int64_t ffn_hidden() const { return integer("--ffn-hidden-size"); }
  std::int64_t heads() const { return integer("--num-attention-heads"); }
  std::int64_t groups() const;  // key/value heads
  std::int64_t head_size() const;
  std::int64_t vocabulary() const { return integer("--model-vocab-size"); }
  std::int64_t positions() const { return integer("--max-position-embeddings"); }
  bool is_tied() const { return !is_on("--untie-embeddings-and-output-weights"); }

  const std::map<std::string, std::string>& arguments() const { return arguments_; }

 private:
  std::map<std::string, std::string> arguments_;
};

// A list of words as one value, and back: the labels of a classifier. Tabs are between them; no
// word has one, for columns of tables stand between tabs.
std::string joined_words(const std::vector<std::string>& words);
std::vector<std::string> split_words(std::string_view text);

// Arguments of a manifest that are not flags. This one: the architecture that an imported model
// had, because several may describe the same model.
inline constexpr std::string_view kConfigArchitecture = "config.architecture";
// Token ids that config.json and generation_config.json name. Lists are separated by blanks; a text
// may end with any id of the list.
inline constexpr std::string_view kConfigBos = "config.bos_token_id";
inline constexpr std::string_view kConfigEos = "config.eos_token_ids";
inline constexpr std::string_view kConfigPad = "config.pad_token_id";
// The first token that a T5's decoder reads.
inline constexpr std::string_view kConfigDecoderStart = "config.decoder_start_token_id";
// Keys of routers that say how transformers trains: not what the model is, nor how Phalanx trains.
inline constexpr std::string_view kConfigRouterLoss = "config.router_aux_loss_coef";
inline constexpr std::string_view kConfigRouterLogits = "config.output_router_logits";
inline constexpr std::string_view kConfigRouterJitter = "config.router_jitter_noise";
inline constexpr std::string_view kGenerationBos = "generation.bos_token_id";
inline constexpr std::string_view kGenerationEos = "generation.eos_token_ids";
// The rest of generation_config.json as a JSON object, for example how to choose tokens.
inline constexpr std::string_view kGenerationOthers = "generation.others";
// The keys of it that export writes itself.
inline constexpr std::array<std::string_view, 3> kWrittenOfGeneration = {
    "bos_token_id", "eos_token_id", "transformers_version"};
// "true" if the model was trained further with another tokenizer than its own: then the ids above
// are dropped, and those of the new tokenizer count.
inline constexpr std::string_view kTokenizerReplaced = "config.tokenizer_replaced";

// Whether the argument is one of these. A run that trains an imported model further passes them on.
inline bool is_kept_of_import(std::string_view argument) {
  return argument.starts_with("config.") || argument.starts_with("generation.");
}

}  // namespace phalanx
