#pragma once
// A tokenizer.json's pre_tokenizers: they cut normalised text into the pieces that the model sees
// one by one, and may rewrite them.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/tokenizer/hf/text_pattern.h"
#include "phalanx/tokenizer/hf/tokenizer_json.h"

namespace phalanx {

// The pieces of a text in order; no empty ones. Between them may lie text that was removed.
class Pieces {
 public:
  // The text, which must live as long, as one piece. at_start: it stands where the input starts.
  Pieces(std::string_view text, bool at_start);
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  std::size_t size() const { return spans_.size(); }
  std::string_view operator[](std::size_t i) const {
    return text_.substr(spans_[i].begin, spans_[i].end - spans_[i].begin);
  }
  // Whether piece i stands where the input starts.
  bool at_start(std::size_t i) const { return at_start_ && i == 0; }

  // Replaces each piece by those parts of it that cut(piece, add) adds by add(begin, end), offsets
  // into the piece, in order.
  template <typename Cut>
  void cut(Cut&& cut);
  // Replaces each piece by what rewrite(i, piece, text) appends to the text.
  template <typename Rewrite>
  void rewrite(Rewrite&& rewrite);

 private:
  std::string storage_;  // of the text, once it was rewritten
  std::string_view text_;
  std::vector<TextMatch> spans_;
  bool at_start_;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
  // What cuts a piece as this does, word by word (WordCursor); null where nothing does.
  virtual const WordSplitter* words() const { return nullptr; }
};

struct PreTokenizers {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  // Pieces become bytes, each written as its symbol (byte_symbols.h), by a step of its own or,
  // where that would be the last one, by whoever reads the pieces.
  bool is_byte_level = false;
  bool ends_in_bytes = false;
};

// ConfigError names a type or value that is not supported.
PreTokenizers make_pre_tokenizers(const JsonNode& node);

// The step that ends_in_bytes left to the reader.
std::unique_ptr<const PreTokenizer> make_byte_symbols_step();

template <typename Cut>
void Pieces::cut(Cut&& cut) {
  std::vector<TextMatch> parts;
  parts.reserve(spans_.size());
  bool keeps_start = false;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    cut((*this)[i], [&, i](std::size_t begin, std::size_t end) {
      if (begin == end) return;
      if (parts.empty()) keeps_start = i == 0 && begin == 0;
      parts.push_back({spans_[i].begin + begin, spans_[i].begin + end});
    });
  }
  spans_ = std::move(parts);
  at_start_ = at_start_ && keeps_start;
}

template <typename Rewrite>
void Pieces::rewrite(Rewrite&& rewrite) {
  std::string text;
  text.reserve(text_.size() + text_.size() / 4);
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    const std::size_t begin = text.size();
    rewrite(i, (*this)[i], text);
    spans_[i] = {begin, text.size()};
  }
  storage_ = std::move(text);
  text_ = storage_;
}

}  // namespace phalanx
