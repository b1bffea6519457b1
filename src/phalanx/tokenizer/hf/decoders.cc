#include "phalanx/tokenizer/hf/decoders.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/hf/split_behavior.h"
#include "phalanx/tokenizer/hf/text_pattern.h"
#include "phalanx/tokenizer/unicode.h"
#include "phalanx/tokenizer/wordpiece_cleanup.h"

namespace phalanx {
namespace {

using Tokens = std::vector<std::string>;

constexpr std::string_view kReplacementText = "\xef\xbf\xbd";  // U+FFFD

class ByteLevelDecoder final : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    std::string bytes;
    // A token with a character that is no symbol of a byte stands for itself.
    for (const std::string& token : tokens) bytes += bytes_from_symbols(token).value_or(token);
    tokens = {repaired_utf8_by_sequences(bytes)};
  }
};

class WordPieceDecoder final : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(Tokens& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && token.starts_with(prefix_)) {
        token.erase(0, prefix_.size());
      } else if (i > 0) {
        token.insert(0, " ");
      }
      if (cleanup_) clean_up_wordpiece(token);
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  MetaspaceDecoder(char32_t replacement, bool drops_first)
      : replacement_(replacement), drops_first_(drops_first) {}
  void apply(Tokens& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string text;
      for (std::string_view rest = tokens[i]; !rest.empty();) {
        const char32_t c = take_character(rest);
        if (c != replacement_) {
          append_utf8(c, text);
        } else if (i > 0 || !drops_first_) {
          text.push_back(' ');
        }
      }
      tokens[i] = std::move(text);
    }
  }

 private:
  char32_t replacement_;
  bool drops_first_;  // the replacements in the first token become nothing
};

class ByteFallbackDecoder final : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    Tokens result;
    std::string bytes;
    const auto flush = [&] {
      if (is_utf8(bytes)) {
        if (!bytes.empty()) result.push_back(bytes);
      } else {
        result.insert(result.end(), bytes.size(), std::string(kReplacementText));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_of(token)) {
        bytes.push_back(static_cast<char>(*byte));
        continue;
      }
      flush();
      result.push_back(std::move(token));
    }
    flush();
    tokens = std::move(result);
  }

 private:
  // The byte of a token such as "<0xC3>".
  static std::optional<std::uint8_t> byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return {};
    std::uint8_t byte = 0;
    const char* end = token.data() + 5;
    const auto [stop, error] = std::from_chars(token.data() + 3, end, byte, 16);
    if (error != std::errc{} || stop != end) return {};
    return byte;
  }
};

class ReplaceDecoder final : public Decoder {
 public:
  ReplaceDecoder(std::unique_ptr<const TextPattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) token = replaced(token, *pattern_, content_);
  }

 private:
  std::unique_ptr<const TextPattern> pattern_;
  std::string content_;
};

class FuseDecoder final : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    std::string text;
    for (const std::string& token : tokens) text += token;
    tokens = {std::move(text)};
  }
};

// Takes up to `start` of one character off the start of each token, and up to `stop` off its end.
class StripDecoder final : public Decoder {
 public:
  StripDecoder(std::string content, std::int64_t start, std::int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) {
        rest.remove_prefix(content_.size());
      }
      for (std::int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) {
        rest.remove_suffix(content_.size());
      }
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  std::int64_t start_;
  std::int64_t stop_;
};

class DecoderSequence final : public Decoder {
 public:
  explicit DecoderSequence(const JsonNode& list) {
    for (const JsonNode& node : list.elements()) parts_.push_back(make_decoder(node));
  }
  void apply(Tokens& tokens) const override {
    for (const auto& part : parts_) part->apply(tokens);
  }

 private:
  std::vector<std::unique_ptr<const Decoder>> parts_;
};

}  // namespace

std::unique_ptr<const Decoder> make_decoder(const JsonNode& node) {
  const JsonNode type = node["type"];
  const std::string name = type.text();
  if (name == "ByteLevel") {
    node.allow({"type", "add_prefix_space", "use_regex", "trim_offsets"});
    return std::make_unique<ByteLevelDecoder>();
  }
  if (name == "WordPiece") {
    node.allow({"type", "prefix", "cleanup"});
    return std::make_unique<WordPieceDecoder>(node["prefix"].text(), node["cleanup"].flag());
  }
  if (name == "Metaspace") {
    node.allow({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    return std::make_unique<MetaspaceDecoder>(read_replacement(node),
                                              read_prepend_scheme(node) != "never");
  }
  if (name == "ByteFallback") {
    node.allow({"type"});
    return std::make_unique<ByteFallbackDecoder>();
  }
  if (name == "Replace") {
    node.allow({"type", "pattern", "content"});
    return std::make_unique<ReplaceDecoder>(make_text_pattern(node["pattern"]),
                                            node["content"].text());
  }
  if (name == "Fuse") {
    node.allow({"type"});
    return std::make_unique<FuseDecoder>();
  }
  if (name == "Strip") {
    constexpr std::int64_t kMost = 1 << 30;
    node.allow({"type", "content", "start", "stop"});
    return std::make_unique<StripDecoder>(utf8_of(node["content"].character()),
                                          node["start"].integer(0, kMost),
                                          node["stop"].integer(0, kMost));
  }
  if (name == "Sequence") {
    node.allow({"type", "decoders"});
    return std::make_unique<DecoderSequence>(node["decoders"]);
  }
  type.refuse(
      "{} is not supported; the decoders are ByteLevel, WordPiece, Metaspace, "
      "ByteFallback, Replace, Fuse, Strip and Sequence",
      shown_text(name));
}

}  // namespace phalanx
