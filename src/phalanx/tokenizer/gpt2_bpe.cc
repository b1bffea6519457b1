#include "phalanx/tokenizer/gpt2_bpe.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/patterns.h"

namespace phalanx {

// Merges one word after the other; its buffers are reused. O(n log n) in the bytes of a word.
class Gpt2BpeTokenizer::WordEncoder {
 public:
  explicit WordEncoder(const Gpt2BpeTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void append_ids(std::string_view word, std::vector<std::int32_t>& ids) {
    if (word.size() >= kNoPosition) {
      throw DataError("{}: one word of {} bytes; the limit is {}", kName, word.size(), kNoPosition);
    }
    load(word);
    while (!candidates_.empty()) merge_all_of_best_rank();
    for (std::uint32_t at = 0; at != kNoPosition; at = nodes_[at].next) {
      ids.push_back(nodes_[at].id);
    }
  }

 private:
  static constexpr std::uint32_t kNoPosition = 0xffffffffU;
  static constexpr std::int32_t kMerged = -1;  // the id of a node that its left neighbour took in

  // A symbol of the word, at the position of its first byte, in a doubly linked list.
  struct Node {
    std::int32_t id;
    std::uint32_t previous;
    std::uint32_t next;
  };
  // (rank << 32 | position of the left part); the least is on top of the heap.
  using Candidate = std::uint64_t;

  void load(std::string_view word) {
    nodes_.clear();
    for (std::size_t i = 0; i < word.size(); ++i) {
      const auto at = static_cast<std::uint32_t>(i);
      const bool last = i + 1 == word.size();
      nodes_.push_back({tokenizer_.byte_ids_[static_cast<std::uint8_t>(word[i])],
                        at == 0 ? kNoPosition : at - 1, last ? kNoPosition : at + 1});
    }
    for (std::uint32_t at = 0; at + 1 < nodes_.size(); ++at) add_candidate(at);
    std::make_heap(candidates_.begin(), candidates_.end(), std::greater<>{});
  }

  // Appends the pair that begins at `at`, if it has a rank; the heap is not restored.
  void add_candidate(std::uint32_t at) {
    const Node& node = nodes_[at];
    if (node.next == kNoPosition) return;
    const auto rank = tokenizer_.ranks_.find(PairMap::key(node.id, nodes_[node.next].id));
    if (rank != PairMap::kNone) candidates_.push_back(Candidate{rank} << 32 | at);
  }

  // New pairs join the heap only after the whole pass: GPT-2 finishes a rank before it looks for
  // the next, which matters where a file ranks a merge before one that makes its parts.
  void merge_all_of_best_rank() {
    const auto rank = static_cast<std::uint32_t>(candidates_.front() >> 32);
    const BpeMerge& merge = tokenizer_.tables_.merges[rank];
    changed_.clear();
    while (!candidates_.empty() && candidates_.front() >> 32 == rank) {
      const auto at = static_cast<std::uint32_t>(candidates_.front());
      std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>{});
      candidates_.pop_back();
      Node& left = nodes_[at];
      if (left.id != merge.left || left.next == kNoPosition) continue;  // out of date
      Node& right = nodes_[left.next];
      if (right.id != merge.right) continue;
      left.id = merge.result;
      right.id = kMerged;
      left.next = right.next;
      if (left.next != kNoPosition) nodes_[left.next].previous = at;
      if (left.previous != kNoPosition) changed_.push_back(left.previous);
      changed_.push_back(at);
    }
    for (const auto at : changed_) {
      if (nodes_[at].id == kMerged) continue;
      const std::size_t before = candidates_.size();
      add_candidate(at);
      if (candidates_.size() != before) {
        std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>{});
      }
    }
  }

  const Gpt2BpeTokenizer& tokenizer_;
  std::vector<Node> nodes_;
  std::vector<Candidate> candidates_;
  std::vector<std::uint32_t> changed_;
};

Gpt2BpeTokenizer::Gpt2BpeTokenizer(BpeTables tables)
    : tables_(std::move(tables)), splitter_(pattern_named("gpt2")) {
  special_.eos = special_.eod = tables_.end_of_text;
  for (std::size_t rank = 0; rank < tables_.merges.size(); ++rank) {
    const BpeMerge& merge = tables_.merges[rank];
    ranks_.find_or_insert(PairMap::key(merge.left, merge.right), static_cast<std::uint32_t>(rank));
  }
  byte_ids_.fill(-1);
  for (std::size_t id = 0; id < tables_.tokens.size(); ++id) {
    const std::string& token = tables_.tokens[id];
    if (token.size() != 1) continue;
    byte_ids_[static_cast<std::uint8_t>(token[0])] = static_cast<std::int32_t>(id);
  }
  PHALANX_CHECK(std::ranges::count(byte_ids_, -1) == 0, "byte symbols are missing");

  WordEncoder encoder(*this);
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < tables_.tokens.size(); ++id) {
    ids.clear();
    encoder.append_ids(tables_.tokens[id], ids);
    if (ids.size() == 1) whole_words_.emplace(tables_.tokens[id], ids[0]);
  }
}

std::vector<std::int32_t> Gpt2BpeTokenizer::encode_text(std::string_view text,
                                                        const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  while (options.parse_special) {
    const std::size_t at = text.find(kEndOfText);
    if (at == std::string_view::npos) break;
    append_data(text.substr(0, at), ids);
    ids.push_back(tables_.end_of_text);
    text.remove_prefix(at + kEndOfText.size());
  }
  append_data(text, ids);
  return ids;
}

void Gpt2BpeTokenizer::append_data(std::string_view text, std::vector<std::int32_t>& ids) const {
  // Where the ids of a word of several tokens, met before, lie in `ids`. Natural text repeats its
  // words; starting afresh at the bound follows a text that changes.
  struct Place {
    std::size_t begin;
    std::size_t count;
  };
  constexpr std::size_t kMostWords = 32768;
  std::unordered_map<std::string_view, Place> seen;

  WordEncoder encoder(*this);
  WordCursor words(splitter_, text);
  for (auto word = words.next(); !word.empty(); word = words.next()) {
    if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) {
      ids.push_back(whole->second);
      continue;
    }
    const auto [entry, is_new] = seen.try_emplace(word, Place{ids.size(), 0});
    if (is_new) {
      encoder.append_ids(word, ids);
      entry->second.count = ids.size() - entry->second.begin;
      if (seen.size() == kMostWords) seen.clear();
    } else {
      const auto [begin, count] = entry->second;
      for (std::size_t i = 0; i < count; ++i) ids.push_back(ids[begin + i]);
    }
  }
}

const std::string& Gpt2BpeTokenizer::token(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw DataError("{}: token id {} is outside the vocabulary, 0 to {}", kName, id,
                    vocab_size() - 1);
  }
  return tables_.tokens[static_cast<std::size_t>(id)];
}

std::string Gpt2BpeTokenizer::piece(std::int32_t id) const {
  return id == tables_.end_of_text ? token(id) : symbols_from_bytes(token(id));
}

std::string Gpt2BpeTokenizer::decode_ids(std::span<const std::int32_t> ids,
                                         const DecodeOptions& options) const {
  std::string text;
  for (const auto id : ids) {
    if (!options.skip_special || id != tables_.end_of_text) text += token(id);
  }
  return text;
}

std::unique_ptr<Tokenizer> make_gpt2_bpe_tokenizer(const TokenizerOptions& options) {
  auto tokenizer =
      std::make_unique<Gpt2BpeTokenizer>(read_bpe_files(options.vocab_file, options.merge_file));
  if (options.vocab_size != 0 && options.vocab_size != tokenizer->vocab_size()) {
    throw ConfigError("--vocab-size {} contradicts {}, which has {} tokens; leave the flag out",
                      options.vocab_size, options.vocab_file, tokenizer->vocab_size());
  }
  return tokenizer;
}

}  // namespace phalanx
