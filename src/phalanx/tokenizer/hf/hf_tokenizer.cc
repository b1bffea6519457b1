#include "phalanx/tokenizer/hf/hf_tokenizer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "phalanx/base/log.h"
#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/hf/special_tokens.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

constexpr const char* kTokenizerFile = "tokenizer.json";

std::filesystem::path tokenizer_file_of(const std::filesystem::path& directory_or_file) {
  return std::filesystem::is_directory(directory_or_file) ? directory_or_file / kTokenizerFile
                                                          : directory_or_file;
}

bool have_equal_flags(const AddedToken& a, const AddedToken& b) {
  return a.single_word == b.single_word && a.lstrip == b.lstrip && a.rstrip == b.rstrip &&
         a.normalized == b.normalized && a.special == b.special;
}

}  // namespace

// One text, from its bytes to its ids.
class HuggingFaceTokenizer::Encoding {
 public:
  Encoding(const HuggingFaceTokenizer& tokenizer, bool parse_special)
      : tokenizer_(tokenizer), parse_special_(parse_special) {}

  void append_text(std::string_view text) {
    if (is_utf8(text)) {
      append_valid(text, true);
    } else if (tokenizer_.pre_tokenizers_.is_byte_level) {
      append_bytes(text);
    } else {
      append_valid(repaired_utf8(text), true);
    }
  }
  std::vector<std::int32_t> take_ids() { return std::move(ids_); }

 private:
  // Each stretch of UTF-8 as a text of its own, each run of other bytes as a piece.
  void append_bytes(std::string_view text) {
    for (std::size_t begin = 0; begin < text.size();) {
      const bool valid = utf8_length(text.substr(begin)) > 0;
      std::size_t end = begin;
      while (end < text.size()) {
        const std::size_t length = utf8_length(text.substr(end));
        if ((length > 0) != valid) break;
        end += std::max<std::size_t>(length, 1);
      }
      const std::string_view stretch = text.substr(begin, end - begin);
      if (valid) {
        append_valid(stretch, begin == 0);
      } else if (tokenizer_.model_takes_bytes_) {
        append_piece(stretch);
      } else {
        append_piece(symbols_from_bytes(stretch));
      }
      begin = end;
    }
  }

  // at_start: the text stands where the input starts.
  void append_valid(std::string_view text, bool at_start) {
    const auto append = [&](std::string_view part, bool first) {
      append_between_raw(part, at_start && first);
    };
    for_each_section(tokenizer_.raw_tokens_, text, append);
  }

  void append_between_raw(std::string_view text, bool at_start) {
    if (tokenizer_.normalizer_ == nullptr) return append_normalized(text, at_start);
    NormalizedText normalized{std::string(text), at_start};
    tokenizer_.normalizer_->apply(normalized);
    append_normalized(normalized.text, normalized.at_start);
  }

  void append_normalized(std::string_view text, bool at_start) {
    const auto append = [&](std::string_view part, bool first) {
      append_pieces(part, at_start && first);
    };
    for_each_section(tokenizer_.normalized_tokens_, text, append);
  }

  // Appends the ids of added tokens, and calls append(text, whether it is the first) for the rest.
  template <typename Append>
  void for_each_section(const AddedTokenMatcher& matcher, std::string_view text, Append&& append) {
    if (matcher.empty()) return append(text, true);
    bool first = true;
    for (const Section& section : matcher.sections(text, parse_special_)) {
      if (section.id == Section::kText) {
        append(section.text, first);
      } else {
        ids_.push_back(section.id);
      }
      first = false;
    }
  }

  void append_pieces(std::string_view text, bool at_start) {
    const auto& steps = tokenizer_.pre_tokenizers_.steps;
    const WordSplitter* splitter = steps.size() == 1 ? steps[0]->words() : nullptr;
    if (splitter != nullptr) {  // nothing is kept of the words but their ids
      tokenizer_.model_->append_ids_of_words(*splitter, text, ids_);
      return;
    }
    Pieces pieces(text, at_start);
    for (const auto& step : steps) step->apply(pieces);
    std::size_t i = 0;
    const auto next = [&] { return i < pieces.size() ? pieces[i++] : std::string_view(); };
    tokenizer_.model_->append_ids(next, ids_);
  }

  void append_piece(std::string_view piece) {
    tokenizer_.model_->append_ids([&] { return std::exchange(piece, {}); }, ids_);
  }

  const HuggingFaceTokenizer& tokenizer_;
  bool parse_special_;
  std::vector<std::int32_t> ids_;
};

HuggingFaceTokenizer::HuggingFaceTokenizer(const JsonNode& file, const BesideFiles& beside) {
  file.allow({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
              "model", "post_processor", "decoder"});
  const JsonNode root = beside.obeyed(file);
  if (const auto node = root.find("normalizer")) normalizer_ = make_normalizer(*node);
  read_pre_tokenizer_and_model(root);
  std::vector<AddedToken> tokens;
  if (const auto list = root.find("added_tokens")) tokens = read_added_tokens(*list);
  add_from_beside(beside, tokens);
  look_for(std::move(tokens));
  is_special_.resize(pieces_.size());
  if (const auto node = root.find("post_processor")) {
    post_processors_ = PostProcessors(*node, vocab_size());
  }
  if (const auto node = root.find("decoder")) decoder_ = make_decoder(*node);
  splits_special_ = beside.splits_special();
  if (splits_special_) {
    log_warning("split_special_tokens is true: special tokens in texts and chats stay text");
  }
  const auto lookup = [&](std::string_view content) -> std::optional<std::int32_t> {
    const auto found = std::ranges::find(pieces_, content);
    if (content.empty() || found == pieces_.end()) return std::nullopt;
    return static_cast<std::int32_t>(found - pieces_.begin());
  };
  special_ = read_special_tokens(beside, lookup, vocab_size());
}

HuggingFaceTokenizer::HuggingFaceTokenizer(std::string_view json, std::string name)
    : HuggingFaceTokenizer(JsonNode::parse(json, std::move(name)), BesideFiles()) {}

HuggingFaceTokenizer::HuggingFaceTokenizer(const std::filesystem::path& directory_or_file)
    : HuggingFaceTokenizer(JsonNode::read(tokenizer_file_of(directory_or_file)),
                           BesideFiles(tokenizer_file_of(directory_or_file).parent_path())) {}

void HuggingFaceTokenizer::read_pre_tokenizer_and_model(const JsonNode& root) {
  if (const auto node = root.find("pre_tokenizer")) pre_tokenizers_ = make_pre_tokenizers(*node);
  model_takes_bytes_ = pre_tokenizers_.ends_in_bytes;
  model_ = make_model(root["model"], model_takes_bytes_);
  if (pre_tokenizers_.ends_in_bytes && !model_takes_bytes_) {
    pre_tokenizers_.steps.push_back(make_byte_symbols_step());
  }
  const auto tokens = model_->vocabulary().tokens();
  pieces_.assign(tokens.begin(), tokens.end());
}

std::vector<AddedToken> HuggingFaceTokenizer::read_added_tokens(const JsonNode& list) {
  const auto nodes = list.elements();
  const std::int64_t limit = largest_id(pieces_.size() + nodes.size());
  std::vector<AddedToken> tokens;
  for (const JsonNode& node : nodes) {
    AddedToken token = read_added_token(node);
    static_cast<void>(node["id"].integer(0, limit));
    if (token.content.empty()) continue;
    add_token(token, node);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// As the library counts: behind the vocabulary and all added tokens.
std::int64_t HuggingFaceTokenizer::next_id(const std::vector<AddedToken>& tokens) const {
  const auto of_model = model_->vocabulary().tokens();
  std::int64_t next = std::ranges::count_if(of_model, [](const auto& one) { return !one.empty(); });
  for (const AddedToken& token : tokens) next = std::max<std::int64_t>(next, token.id + 1);
  return next;
}

void HuggingFaceTokenizer::add_from_beside(const BesideFiles& beside,
                                           std::vector<AddedToken>& tokens) {
  for (BesideFiles::Token& other : beside.tokens()) {
    AddedToken& token = other.token;
    if (token.content.empty()) continue;
    const auto known = std::ranges::find(tokens, token.content, &AddedToken::content);
    if (known != tokens.end()) {
      token.id = known->id;
      if (other.is_listed && !have_equal_flags(token, *known)) {
        log_warning(
            "{}: the flags of {} are not those of tokenizer.json: the former count, as in "
            "transformers",
            other.place.place(), shown_text(token.content));
        is_special_[static_cast<std::size_t>(token.id)] = token.special;
        *known = token;
      }
    } else {
      const auto of_model = model_->vocabulary().find(token.content);
      token.id = static_cast<std::int32_t>(of_model ? *of_model : next_id(tokens));
      add_token(token, other.place);
      tokens.push_back(token);
    }
    if (!other.id || *other.id == token.id) continue;
    log_warning(
        "{}: {} has id {} there, and {} by tokenizer.json, which counts, as in "
        "transformers",
        other.place.place(), shown_text(token.content), *other.id, token.id);
  }
}

void HuggingFaceTokenizer::look_for(std::vector<AddedToken> tokens) {
  // If two tokens have the same text, a special one is found, else the first.
  std::stable_partition(tokens.begin(), tokens.end(), std::mem_fn(&AddedToken::special));
  for (const AddedToken& token : tokens) {
    if (!token.normalized) {
      raw_tokens_.add(token, token.content);
      continue;
    }
    NormalizedText sought{token.content, false};
    if (normalizer_ != nullptr) normalizer_->apply(sought);
    normalized_tokens_.add(token, sought.text);
    normalized_contents_.insert_or_assign(token.id, std::move(sought.text));
  }
}

void HuggingFaceTokenizer::add_token(const AddedToken& token, const JsonNode& place) {
  const auto of_model = model_->vocabulary().find(token.content);
  if (of_model && *of_model != token.id) {
    place.reject("{} has id {}, but {} in the model's vocabulary", shown_text(token.content),
                 token.id, *of_model);
  }
  const auto slot = static_cast<std::size_t>(token.id);
  if (slot >= pieces_.size()) pieces_.resize(slot + 1);
  if (!pieces_[slot].empty() && pieces_[slot] != token.content) {
    place.reject("{} has id {}, which is that of {}", shown_text(token.content), token.id,
                 shown_text(pieces_[slot]));
  }
  pieces_[slot] = token.content;
  is_special_.resize(pieces_.size());
  is_special_[slot] = is_special_[slot] || token.special;
}

std::vector<std::int32_t> HuggingFaceTokenizer::encode_text(std::string_view text,
                                                            const EncodeOptions& options) const {
  Encoding encoding(*this, options.parse_special && !splits_special_);
  encoding.append_text(text);
  auto ids = encoding.take_ids();
  return options.add_special ? post_processors_.apply(std::move(ids)) : ids;
}

const std::string& HuggingFaceTokenizer::checked_piece(std::int32_t id) const {
  expect_known(id);
  return pieces_[static_cast<std::size_t>(id)];
}

std::string HuggingFaceTokenizer::decode_ids(std::span<const std::int32_t> ids,
                                             const DecodeOptions& options) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    const std::string& token = checked_piece(id);
    if (token.empty() || (options.skip_special && is_special_[static_cast<std::size_t>(id)])) {
      continue;
    }
    const auto normalized = normalized_contents_.find(id);
    tokens.push_back(normalized == normalized_contents_.end() ? token : normalized->second);
  }
  const char* between = decoder_ == nullptr ? " " : "";
  if (decoder_ != nullptr) decoder_->apply(tokens);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += between;
    text += tokens[i];
  }
  return text;
}

std::unique_ptr<Tokenizer> make_hugging_face_tokenizer(const TokenizerOptions& options) {
  return std::make_unique<HuggingFaceTokenizer>(std::filesystem::path(options.tokenizer_model));
}

std::vector<std::filesystem::path> hugging_face_tokenizer_files(
    const std::filesystem::path& directory_or_file) {
  const auto file = tokenizer_file_of(directory_or_file);
  std::vector<std::filesystem::path> files = {file};
  for (const char* name : kFilesBesideTokenizer) {
    const auto beside = file.parent_path() / name;
    if (std::filesystem::exists(beside)) files.push_back(beside);
  }
  return files;
}

}  // namespace phalanx
