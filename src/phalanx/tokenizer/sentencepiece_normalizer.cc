#include "phalanx/tokenizer/sentencepiece_normalizer.h"

#include <algorithm>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= std::uint32_t{static_cast<std::uint8_t>(bytes[i])} << 8 * i;
  }
  return value;
}

// A unit of darts-clone's double array.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1U) == 1; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7fffffffU; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000ffU; }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200U) >> 6); }

}  // namespace

std::size_t sentencepiece_character_length(std::string_view text) {
  const auto lead = static_cast<std::uint8_t>(text[0]);
  const std::size_t length = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return std::min(length, text.size());
}

SentencePieceNormalizer::SentencePieceNormalizer(NormalizerRules rules, bool whitespace_as_suffix,
                                                 const std::string& source)
    : rules_(std::move(rules)), whitespace_as_suffix_(whitespace_as_suffix) {
  const std::string map = std::exchange(rules_.characters_map, {});
  if (map.empty()) return;
  constexpr std::size_t kUnit = sizeof(std::uint32_t);
  const std::size_t trie_bytes = map.size() < kUnit ? 0 : little_endian(map);
  if (trie_bytes == 0 || trie_bytes % kUnit != 0 || trie_bytes >= map.size() - kUnit) {
    throw DataError("{} is no SentencePiece model: its map of {} bytes has a trie of {}", source,
                    map.size(), trie_bytes);
  }
  trie_.resize(trie_bytes / kUnit);
  for (std::size_t i = 0; i < trie_.size(); ++i) {
    trie_[i] = little_endian(std::string_view(map).substr(kUnit * (i + 1), kUnit));
  }
  targets_ = map.substr(kUnit + trie_bytes);
}

SentencePieceNormalizer::Step SentencePieceNormalizer::mapped(std::string_view text) const {
  Step longest = {{}, 0};
  if (trie_.empty()) return longest;
  std::size_t node = offset_of(trie_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    node ^= byte;
    if (node >= trie_.size() || label_of(trie_[node]) != byte) break;
    const std::uint32_t unit = trie_[node];
    node ^= offset_of(unit);
    if (node >= trie_.size()) break;
    const std::size_t target = value_of(trie_[node]);
    if (!has_leaf(unit) || target >= targets_.size()) continue;
    const std::string_view from = std::string_view(targets_).substr(target);
    longest = {from.substr(0, from.find('\0')), i + 1};
  }
  return longest;
}

SentencePieceNormalizer::Step SentencePieceNormalizer::step(std::string_view text,
                                                            const SentencePieceTrie& kept) const {
  if (!kept.empty()) {
    const std::size_t length = kept.longest_prefix(text);
    if (length > 0) return {text.substr(0, length), length};
  }
  const Step by_map = mapped(text);
  if (by_map.bytes > 0) return by_map;
  const std::size_t length = utf8_length(text);
  if (length == 0) return {"\ufffd", 1};
  return {text.substr(0, length), length};
}

void SentencePieceNormalizer::append(std::string_view text, std::string& result) const {
  for (const char c : text) {
    if (c == ' ') {
      result += blank();
    } else {
      result += c;
    }
  }
}

std::string SentencePieceNormalizer::normalized(std::string_view text,
                                                const SentencePieceTrie& kept) const {
  const std::size_t most_bytes = 256 * (text.size() + 4096);
  while (rules_.remove_extra_whitespaces && !text.empty()) {
    const Step first = step(text, kept);
    if (first.text != " ") break;
    text.remove_prefix(first.bytes);
  }
  std::string result;
  if (text.empty()) return result;
  result.reserve(text.size() + text.size() / 2);
  if (rules_.add_dummy_prefix && !whitespace_as_suffix_) result += blank();
  bool is_after_blank = rules_.remove_extra_whitespaces;
  while (!text.empty()) {
    Step next = step(text, kept);
    while (is_after_blank && next.text.starts_with(' ')) next.text.remove_prefix(1);
    if (!next.text.empty()) {
      append(next.text, result);
      is_after_blank = rules_.remove_extra_whitespaces && next.text.ends_with(' ');
    }
    if (result.size() > most_bytes) {
      throw DataError("the tokenizer's map makes more than {} bytes of a text", most_bytes);
    }
    text.remove_prefix(next.bytes);
  }
  while (rules_.remove_extra_whitespaces && result.ends_with(blank())) {
    result.resize(result.size() - blank().size());
  }
  if (rules_.add_dummy_prefix && whitespace_as_suffix_) result += blank();
  return result;
}

}  // namespace phalanx
