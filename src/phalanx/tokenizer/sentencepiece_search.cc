#include "phalanx/tokenizer/sentencepiece_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>

#include "phalanx/tokenizer/sentencepiece_normalizer.h"

namespace phalanx {
namespace {

bool is_of_text(PieceKind kind) {
  return kind == PieceKind::kNormal || kind == PieceKind::kUnused ||
         kind == PieceKind::kUserDefined;
}

constexpr std::int32_t kNoSymbol = -1;

// The merging of one text.
class Merging {
 public:
  explicit Merging(const SentencePieceIndex& index) : index_(index) {}

  std::vector<FoundPiece> run(std::string_view text) {
    load(text);
    for (std::int32_t i = 1; i < static_cast<std::int32_t>(symbols_.size()); ++i)
      consider(i - 1, i);
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      Symbol& left = symbol(best.left);
      Symbol& right = symbol(best.right);
      if (left.text.empty() || right.text.empty() ||
          left.text.size() + right.text.size() != best.bytes) {
        continue;  // out of date
      }
      left.text = joined(left.text, right.text);
      left.next = right.next;
      if (right.next != kNoSymbol) symbol(right.next).previous = best.left;
      right.text = {};
      consider(left.previous, best.left);
      consider(best.left, left.next);
    }
    std::vector<FoundPiece> found;
    for (std::int32_t at = symbols_.empty() ? kNoSymbol : 0; at != kNoSymbol;
         at = symbol(at).next) {
      append_used(symbol(at).text, found);
    }
    return found;
  }

 private:
  struct Symbol {
    std::string_view text;  // empty once its left neighbour took it in
    std::int32_t previous;
    std::int32_t next;
    bool is_whole;  // a user-defined piece, which nothing joins
  };
  struct Candidate {
    float score;
    std::int32_t left;
    std::int32_t right;
    std::size_t bytes;
    friend bool operator<(const Candidate& a, const Candidate& b) {
      return a.score != b.score ? a.score < b.score : a.left > b.left;
    }
  };
  using Parts = std::pair<std::string_view, std::string_view>;

  Symbol& symbol(std::int32_t at) { return symbols_[static_cast<std::size_t>(at)]; }
  static std::string_view joined(std::string_view left, std::string_view right) {
    return {left.data(), left.size() + right.size()};
  }

  void load(std::string_view text) {
    while (!text.empty()) {
      const std::size_t whole = index_.user_defined().longest_prefix(text);
      const std::size_t length = whole > 0 ? whole : sentencepiece_character_length(text);
      const auto at = static_cast<std::int32_t>(symbols_.size());
      symbols_.push_back({text.substr(0, length), at - 1, at + 1, whole > 0});
      text.remove_prefix(length);
    }
    if (!symbols_.empty()) symbols_.back().next = kNoSymbol;
  }

  void consider(std::int32_t left, std::int32_t right) {
    if (left == kNoSymbol || right == kNoSymbol) return;
    const Symbol& first = symbol(left);
    const Symbol& second = symbol(right);
    if (first.is_whole || second.is_whole) return;
    const std::string_view text = joined(first.text, second.text);
    const std::int32_t id = index_.find(text);
    if (id < 0) return;
    const SentencePiece& piece = index_.piece(id);
    queue_.push({piece.score, left, right, text.size()});
    if (piece.kind == PieceKind::kUnused) parts_[text] = {first.text, second.text};
  }

  // Unused pieces only help to merge: those that are left are split again into their parts.
  void append_used(std::string_view text, std::vector<FoundPiece>& found) {
    std::vector<std::string_view> rest = {text};
    while (!rest.empty()) {
      const std::string_view part = rest.back();
      rest.pop_back();
      const std::int32_t id = index_.find(part);
      if (id >= 0 && index_.piece(id).kind != PieceKind::kUnused) {
        found.push_back({part, id});
      } else if (const auto parts = parts_.find(part); parts != parts_.end()) {
        rest.push_back(parts->second.second);
        rest.push_back(parts->second.first);
      } else {
        found.push_back({part, index_.model().unknown});
      }
    }
  }

  const SentencePieceIndex& index_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> queue_;
  std::unordered_map<std::string_view, Parts> parts_;  // of unused pieces, as they were merged last
};

}  // namespace

SentencePieceIndex::SentencePieceIndex(const SentencePieceModel& model) : model_(&model) {
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    (is_of_text(piece.kind) ? of_text_ : reserved_).emplace(piece.text, id);
    if (piece.kind == PieceKind::kUserDefined) user_defined_.add(piece.text, id);
  }
}

std::int32_t SentencePieceIndex::find(std::string_view text) const {
  const auto found = of_text_.find(text);
  return found == of_text_.end() ? -1 : found->second;
}

std::int32_t SentencePieceIndex::id_of(std::string_view text) const {
  if (const auto found = reserved_.find(text); found != reserved_.end()) return found->second;
  const std::int32_t id = find(text);
  return id < 0 ? model_->unknown : id;
}

std::vector<FoundPiece> merge_pieces(const SentencePieceIndex& index, std::string_view text) {
  return Merging(index).run(text);
}

UnigramSearch::UnigramSearch(const SentencePieceModel& model)
    : least_score_(std::numeric_limits<float>::max()) {
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    if (is_of_text(piece.kind)) trie_.add(piece.text, static_cast<std::int32_t>(i));
    if (piece.kind == PieceKind::kNormal) least_score_ = std::min(least_score_, piece.score);
  }
}

std::vector<FoundPiece> UnigramSearch::operator()(const SentencePieceIndex& index,
                                                  std::string_view text) const {
  constexpr float kUnknownPenalty = 10;
  constexpr std::int32_t kNowhere = -1;
  // The best way to the end of a stretch: its last piece.
  struct End {
    float score = 0;
    std::int32_t begin = kNowhere;
    std::int32_t id = -1;
  };
  std::vector<End> ends(text.size() + 1);
  std::size_t furthest = 0;  // end of a stretch so far
  // Sums in fp32, as the library's: ties depend on it.
  const auto offer = [&](std::size_t begin, std::size_t end, float score, std::int32_t id) {
    End& best = ends[end];
    if (best.begin != kNowhere && !(score > best.score)) return;
    best = {score, static_cast<std::int32_t>(begin), id};
    furthest = std::max(furthest, end);
  };
  for (std::size_t begin = 0; begin < text.size();) {
    // Sums are restarted at zero beyond this, so that scores keep their digits.
    constexpr float kMostScore = 100000;
    if (std::abs(ends[begin].score) > kMostScore) {
      const float offset = ends[begin].score;
      for (std::size_t i = begin; i <= furthest; ++i) ends[i].score -= offset;
    }
    const float before = ends[begin].score;
    const std::size_t character = sentencepiece_character_length(text.substr(begin));
    bool has_character = false;
    std::int32_t node = SentencePieceTrie::kRoot;
    for (std::size_t end = begin; end < text.size();) {
      node = trie_.step(node, text[end++]);
      if (node == SentencePieceTrie::kNone) break;
      const std::int32_t id = trie_.value(node);
      if (id == SentencePieceTrie::kNone) continue;
      const SentencePiece& piece = index.piece(id);
      if (piece.kind == PieceKind::kUnused) continue;
      const std::size_t length = end - begin;
      const float score = piece.kind == PieceKind::kUserDefined
                              ? static_cast<float>(0.1 * static_cast<double>(length - 1))
                              : piece.score;
      offer(begin, end, score + before, id);
      has_character |= length == character;
    }
    if (!has_character) {
      offer(begin, begin + character, least_score_ - kUnknownPenalty + before,
            index.model().unknown);
    }
    begin += character;
  }
  std::vector<FoundPiece> found;
  for (std::size_t end = text.size(); end > 0;) {
    const End& last = ends[end];
    const auto begin = static_cast<std::size_t>(last.begin);
    found.push_back({text.substr(begin, end - begin), last.id});
    end = begin;
  }
  std::ranges::reverse(found);
  return found;
}

}  // namespace phalanx
