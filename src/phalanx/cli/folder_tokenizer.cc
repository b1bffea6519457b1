#include "phalanx/cli/folder_tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/first_few.h"
#include "phalanx/base/log.h"
#include "phalanx/hugging_face/kept_files.h"
#include "phalanx/saving/run_inputs.h"
#include "phalanx/tokenizer/hf/beside_files.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kTokenizerConfig = "tokenizer_config.json";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// A switch of tokenizer_config.json.
bool says(const fs::path& folder, const std::string& key, bool absent) {
  const fs::path path = folder / kTokenizerConfig;
  return is_there(path) ? hugging_face::ConfigFile(path).boolean(key, absent) : absent;
}

std::string sentencepiece_type(const hugging_face::Import& model) {
  const auto& name = model.architecture().name;
  const bool begins = name == "LlamaForCausalLM" || name == "MistralForCausalLM";
  return begins && says(model.folder().directory(), "add_bos_token", true)
             ? "Llama2Tokenizer"
             : "GPTSentencePieceTokenizer";
}

// Adds a T5's sentinels, which its SentencePiece model lacks: as many as transformers' T5Tokenizer.
void add_sentinels(const hugging_face::Import& model, TokenizerOptions& options) {
  constexpr std::int64_t kOfT5 = 100;
  constexpr std::int64_t kMost = 65534;
  const fs::path config = model.folder().directory() / kTokenizerConfig;
  const std::int64_t sentinels =
      is_there(config) ? hugging_face::ConfigFile(config).integer("extra_ids", 0, kMost, kOfT5)
                       : kOfT5;
  const std::int64_t pieces = make_tokenizer(options)->vocab_size();
  if (sentinels > 0 && pieces + sentinels <= model.settings().vocabulary()) {
    options.vocab_extra_ids = sentinels;
    return;
  }
  log_warning(
      "{}: the model's {} ids leave no room for {} sentinels (<extra_id_0>, ...) behind {} pieces: "
      "in texts they are read as plain text; a tokenizer.json beside it has them",
      options.tokenizer_model, model.settings().vocabulary(), sentinels, pieces);
}

TokenizerOptions null_tokenizer(std::int64_t vocabulary) {
  // Its end-of-document id is not counted in its size.
  return {.tokenizer_type = "NullTokenizer",
          .vocab_size = std::max<std::int64_t>(vocabulary - 1, 1)};
}

void check_size(const Tokenizer& tokenizer, const fs::path& folder, std::int64_t vocabulary) {
  if (tokenizer.vocab_size() <= vocabulary) return;
  throw ConfigError(
      "{}: the tokenizer has {} ids, but the model of config.json has 'vocab_size' {}: they do not "
      "belong together; give --no-tokenizer to import the weights alone",
      folder.string(), tokenizer.vocab_size(), vocabulary);
}

// The file of the folder that has one of these names; empty if there is none.
fs::path first_of(const fs::path& folder, std::initializer_list<const char*> names) {
  const auto found =
      std::ranges::find_if(names, [&](auto name) { return is_there(folder / name); });
  return found == names.end() ? fs::path() : folder / *found;
}

// Refuses a folder with a part of a tokenizer, or with one that cannot be read: else text would
// silently be ids.
void refuse_incomplete_tokenizer(const fs::path& folder) {
  const fs::path part =
      first_of(folder, {kTokenizerConfig, "vocab.json", "merges.txt", "special_tokens_map.json",
                        "added_tokens.json", "tokenizer.tiktoken", "sentencepiece.bpe.model"});
  if (part.empty()) return;
  throw InputMissingError(
      "{}: has {}, but no tokenizer.json, vocab.json with merges.txt, tokenizer.model, "
      "spiece.model "
      "or vocab.txt: add the one that the model was trained with (transformers' "
      "AutoTokenizer.from_pretrained() and save_pretrained() write a tokenizer.json), or give "
      "--no-tokenizer to import the weights alone",
      folder.string(), part.filename().string());
}

TokenizerOptions found_tokenizer(const hugging_face::Import& model) {
  const fs::path& folder = model.folder().directory();
  if (is_there(folder / "tokenizer.json")) {
    return {.tokenizer_type = "HuggingFaceTokenizer", .tokenizer_model = folder.string()};
  }
  if (is_there(folder / "vocab.json") && is_there(folder / "merges.txt")) {
    return {.tokenizer_type = "GPT2BPETokenizer",
            .vocab_file = (folder / "vocab.json").string(),
            .merge_file = (folder / "merges.txt").string()};
  }
  const fs::path pieces = first_of(folder, {"tokenizer.model", "spiece.model"});
  if (!pieces.empty()) {
    TokenizerOptions options{.tokenizer_type = sentencepiece_type(model),
                             .tokenizer_model = pieces.string()};
    if (model.architecture().family == "t5") add_sentinels(model, options);
    return options;
  }
  if (is_there(folder / "vocab.txt")) {
    const bool lower = says(folder, "do_lower_case", true);
    return {.tokenizer_type = lower ? "BertWordPieceLowerCase" : "BertWordPieceCase",
            .vocab_file = (folder / "vocab.txt").string(),
            .vocab_file_only = true};
  }
  refuse_incomplete_tokenizer(folder);
  log_warning("{}: has no tokenizer: texts are ids (NullTokenizer), and export hf will write none",
              folder.string());
  return null_tokenizer(model.settings().vocabulary());
}

// The entries of tokenizer_config.json for this tokenizer's tokens.
Json special_names(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special_tokens();
  const std::array<std::pair<const char*, std::optional<std::int32_t>>, 7> tokens = {
      {{"unk_token", special.unk},
       {"cls_token", special.cls},
       {"sep_token", special.sep},
       {"mask_token", special.mask},
       {"pad_token", special.pad},
       {"bos_token", special.bos ? special.bos : special.eod},
       {"eos_token", special.eos ? special.eos : special.eod}}};
  Json names = Json::object();
  for (const auto& [key, id] : tokens) {
    // The token that ends BERT's texts is named only once.
    const bool is_sep = id == special.sep && key != std::string_view("sep_token");
    if (id && *id >= 0 && !is_sep) names[key] = tokenizer.piece(*id);
  }
  return names;
}

// A T5's spiece.model, whose sentinels are behind its pieces.
bool is_t5_sentencepiece(const TokenizerOptions& options) {
  return options.tokenizer_type == "GPTSentencePieceTokenizer" && options.vocab_extra_ids > 0;
}

// The name of a file in transformers' class.
std::string exported_name(const TokenizerFile& file, const TokenizerOptions& options) {
  return is_t5_sentencepiece(options) ? "spiece.model" : file.name;
}

// tokenizer_config.json, for types whose files do not say all; null: there is no such class.
Json class_of(const TokenizerOptions& options) {
  const std::string& type = options.tokenizer_type;
  if (is_t5_sentencepiece(options)) {
    return {{"tokenizer_class", "T5Tokenizer"}, {"extra_ids", options.vocab_extra_ids}};
  }
  if (options.vocab_extra_ids > 0) return nullptr;
  if (type == "HuggingFaceTokenizer") return {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (type == "GPT2BPETokenizer") {
    return {{"tokenizer_class", "GPT2Tokenizer"}, {"add_prefix_space", false}};
  }
  if (type == "Llama2Tokenizer" || type == "GPTSentencePieceTokenizer") {
    return {{"tokenizer_class", "LlamaTokenizer"},
            {"add_bos_token", type == "Llama2Tokenizer"},
            {"add_eos_token", false}};
  }
  if (type.starts_with("BertWordPiece")) {
    return {{"tokenizer_class", "BertTokenizer"},
            {"do_lower_case", type == "BertWordPieceLowerCase"}};
  }
  return nullptr;
}

// The ids that begin, end and pad a text, unless an imported config.json has said them.
void set_token_ids(const SpecialTokens& special, ModelArguments& settings) {
  const auto set = [&](std::string_view argument, std::optional<std::int32_t> id) {
    const bool fits = id && *id >= 0 && *id < settings.vocabulary();
    if (fits && !settings.has(argument)) settings.set(argument, std::int64_t{*id});
  };
  // For an imported model its config.json decides, even if it names no ids.
  const bool is_imported = settings.has(kConfigArchitecture);
  if (is_imported && !settings.is_on(kTokenizerReplaced)) return;
  set(kConfigBos, special.bos ? special.bos : special.eod);
  set(kConfigEos, special.eos ? special.eos : special.eod);
  set(kConfigPad, special.pad);
  set(kConfigDecoderStart, special.bos);
}

// Without tokenizer.json only the vocabulary file makes the tokenizer.
void tell_what_is_not_read(const Tokenizer& tokenizer, const fs::path& folder) {
  std::set<std::string> pieces;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) pieces.insert(tokenizer.piece(id));
  std::vector<std::string> unknown;
  for (const BesideFiles::Token& one : BesideFiles(folder).tokens()) {
    if (!pieces.contains(one.token.content)) unknown.push_back(one.token.content);
  }
  if (!unknown.empty()) {
    log_warning(
        "{}: {}: tokens of its JSON files that the {} of its vocabulary has not: such texts are "
        "cut "
        "into others. transformers' AutoTokenizer.from_pretrained() and save_pretrained() make a "
        "tokenizer.json that has them",
        folder.string(), first_few(unknown, ", "), tokenizer.name());
  }
  if (tokenizer.name() == "GPT2BPETokenizer" && says(folder, "add_prefix_space", false)) {
    log_warning("{}: add_prefix_space is true, and the {} sets no blank before a text",
                (folder / kTokenizerConfig).string(), tokenizer.name());
  }
}

// The tokenizer's files, without those that were kept.
std::vector<InputCopy> exported_tokenizer(const TokenizerOptions& options,
                                          const std::vector<InputCopy>& kept,
                                          ModelArguments& settings) {
  // A kept file is recognised by its name, or, if our tokenizer has another name for it, by its
  // bytes.
  const auto is_kept = [&](const InputCopy& file) {
    return std::ranges::any_of(kept, [&](const InputCopy& other) {
      return other.name == file.name || other.bytes == file.bytes;
    });
  };
  std::vector<InputCopy> files;
  bool has_config = is_kept({.name = kTokenizerConfig, .bytes = {}});
  for (const TokenizerFile& file : tokenizer_files(options)) {
    if (!is_there(file.path)) {
      log_warning("{} {}: is not there any more: the folder gets no tokenizer", file.flag,
                  file.path);
      return {};
    }
    // Files of the model itself are written anew.
    if (file.name == hugging_face::kConfigName || file.name == hugging_face::kGenerationName) {
      continue;
    }
    has_config = has_config || file.name == kTokenizerConfig;
    InputCopy copy{.name = exported_name(file, options), .bytes = read_file(file.path)};
    if (!is_kept(copy)) files.push_back(std::move(copy));
  }
  const auto tokenizer = make_tokenizer(options);
  set_token_ids(tokenizer->special_tokens(), settings);
  Json config = class_of(options);
  if (config.is_null()) {
    log_warning("--tokenizer-type {}{}: has no counterpart there: the folder gets no tokenizer",
                options.tokenizer_type, options.vocab_extra_ids > 0 ? " with extra ids" : "");
    return {};
  }
  if (has_config) return files;
  config.update(special_names(*tokenizer));
  config["model_max_length"] = settings.positions();
  config["clean_up_tokenization_spaces"] = false;
  files.push_back({.name = kTokenizerConfig, .bytes = config.dump(2) + "\n"});
  return files;
}

}  // namespace

TokenizerOptions folder_tokenizer(const hugging_face::Import& model, bool is_wanted) {
  const std::int64_t vocabulary = model.settings().vocabulary();
  if (!is_wanted) return null_tokenizer(vocabulary);
  TokenizerOptions options = found_tokenizer(model);
  if (options.tokenizer_type != "NullTokenizer") {
    const auto tokenizer = make_tokenizer(options);
    check_size(*tokenizer, model.folder().directory(), vocabulary);
    if (options.tokenizer_type != "HuggingFaceTokenizer") {
      tell_what_is_not_read(*tokenizer, model.folder().directory());
    }
  }
  return options;
}

std::map<std::string, std::string> tokenizer_arguments(const TokenizerOptions& options) {
  std::map<std::string, std::string> arguments = {{"--tokenizer-type", options.tokenizer_type}};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) arguments[flag] = value;
  };
  add("--vocab-file", options.vocab_file);
  add("--merge-file", options.merge_file);
  add("--tokenizer-model", options.tokenizer_model);
  if (options.vocab_size > 0) arguments["--vocab-size"] = std::to_string(options.vocab_size);
  if (options.vocab_extra_ids > 0) {
    arguments["--vocab-extra-ids"] = std::to_string(options.vocab_extra_ids);
  }
  if (options.vocab_file_only) arguments["--vocab-file-only"] = "true";
  return arguments;
}

std::vector<InputCopy> exported_files(const CheckpointReader& checkpoint, TrainConfig config,
                                      ModelArguments& settings) {
  std::vector<InputCopy> files = hugging_face::read_kept_files(checkpoint);
  use_kept_tokenizer(config, checkpoint);
  const TokenizerOptions& options = config.tokenizer;
  if (options.tokenizer_type == "NullTokenizer") return files;
  const auto of_tokenizer = exported_tokenizer(options, files, settings);
  files.insert(files.end(), of_tokenizer.begin(), of_tokenizer.end());
  return files;
}

}  // namespace phalanx
