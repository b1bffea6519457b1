// The model Unigram of tokenizer.json (Kudo, 2018): of all ways to write a piece with tokens, the
// one with the largest sum of their scores.

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "phalanx/tokenizer/hf/byte_trie.h"
#include "phalanx/tokenizer/hf/models.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

class UnigramModel final : public Model {
 public:
  explicit UnigramModel(const JsonNode& node);
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void append_ids(const NextPiece& next, std::vector<std::int32_t>& ids) const override;

 private:
  class BestPath;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  double unknown_score_ = 0;  // of one unknown character
  std::optional<std::int32_t> unk_;
  std::vector<std::int32_t> fallback_ids_;  // by byte; empty without byte_fallback
  ByteTrie trie_;
};

// Viterbi's algorithm over the bytes of a piece.
class UnigramModel::BestPath {
 public:
  explicit BestPath(const UnigramModel& model) : model_(model) {}

  void append_ids(std::string_view piece, std::vector<std::int32_t>& ids) {
    if (piece.size() >= kNowhere) {
      throw DataError("one piece of {} bytes; the limit is {}", piece.size(), kNowhere);
    }
    find_best_path(piece);
    edges_.clear();
    for (std::size_t end = piece.size(); end > 0; end = nodes_[end].begin) {
      edges_.push_back({nodes_[end].begin, end, nodes_[end].id});
    }
    std::ranges::reverse(edges_);
    for (std::size_t i = 0; i < edges_.size();) {
      Edge edge = edges_[i++];
      // Neighbouring unknown characters are one token.
      while (edge.id == model_.unk_ && i < edges_.size() && edges_[i].id == model_.unk_) {
        edge.end = edges_[i++].end;
      }
      append_edge(piece.substr(edge.begin, edge.end - edge.begin), edge.id, ids);
    }
  }

 private:
  static constexpr std::uint32_t kNowhere = 0xffffffffU;
  // The best path to a place in the piece: its score, and the token that it ends with.
  struct Node {
    double score = 0;
    std::uint32_t begin = kNowhere;
    std::int32_t id = 0;
  };
  struct Edge {
    std::size_t begin;
    std::size_t end;
    std::int32_t id;
  };

  void find_best_path(std::string_view piece) {
    nodes_.assign(piece.size() + 1, Node{});
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::string_view rest = piece.substr(begin);
      const std::size_t character = utf8_length(rest);
      bool has_character = false;
      model_.trie_.visit_prefixes(rest, [&](std::size_t size, std::int32_t id) {
        offer(begin, begin + size, model_.scores_[static_cast<std::size_t>(id)], id);
        has_character = has_character || size == character;
      });
      if (!has_character) {
        if (!model_.unk_) {
          throw DataError("a character of the text is unknown, and the tokenizer has no unk_id");
        }
        offer(begin, begin + character, model_.unknown_score_, *model_.unk_);
      }
      begin += character;
    }
  }

  // With equal scores the first one stays, whose last token is longer.
  void offer(std::size_t begin, std::size_t end, double score, std::int32_t id) {
    const double sum = score + nodes_[begin].score;
    Node& node = nodes_[end];
    if (node.begin == kNowhere || sum > node.score) {
      node = {sum, static_cast<std::uint32_t>(begin), id};
    }
  }

  void append_edge(std::string_view text, std::int32_t id, std::vector<std::int32_t>& ids) const {
    if (id != model_.unk_) {
      ids.push_back(id);
      return;
    }
    const auto known = model_.vocabulary_.find(text);
    const auto& bytes = model_.fallback_ids_;
    const auto byte_id = [&](char c) { return bytes[static_cast<std::uint8_t>(c)]; };
    const bool as_bytes = !known && !bytes.empty() &&
                          std::ranges::all_of(text, [&](char c) { return byte_id(c) >= 0; });
    if (!as_bytes) {
      ids.push_back(known.value_or(id));
      return;
    }
    for (const char c : text) ids.push_back(byte_id(c));
  }

  const UnigramModel& model_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
};

UnigramModel::UnigramModel(const JsonNode& node) {
  node.allow({"type", "unk_id", "vocab", "byte_fallback"});
  double least = std::numeric_limits<double>::infinity();
  for (const JsonNode& entry : node["vocab"].elements()) {
    const auto pair = entry.elements();
    if (pair.size() != 2) entry.reject("expected [piece, score]");
    vocabulary_.append(pair[0].text());
    scores_.push_back(pair[1].number());
    least = std::min(least, scores_.back());
  }
  unknown_score_ = least - 10;
  const auto tokens = vocabulary_.tokens();
  if (const auto unk = node.find("unk_id")) {
    unk_ = static_cast<std::int32_t>(unk->integer(0, std::ssize(tokens) - 1));
  }
  // Of equal pieces the last one counts; insert() keeps the first, so they are added backwards.
  for (std::size_t id = tokens.size(); id-- > 0;) {
    if (!tokens[id].empty()) trie_.insert(tokens[id], static_cast<std::int32_t>(id));
  }
  if (node.flag_or("byte_fallback", false)) fallback_ids_ = byte_token_ids(vocabulary_);
}

void UnigramModel::append_ids(const NextPiece& next, std::vector<std::int32_t>& ids) const {
  BestPath path(*this);
  for (auto piece = next(); !piece.empty(); piece = next()) path.append_ids(piece, ids);
}

}  // namespace

std::unique_ptr<const Model> make_unigram_model(const JsonNode& node) {
  return std::make_unique<UnigramModel>(node);
}

}  // namespace phalanx
