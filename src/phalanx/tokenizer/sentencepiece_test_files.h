#pragma once
// For tests of SentencePiece: writes a model in the format of its file, and the compiled map of a
// normaliser.

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/tokenizer/sentencepiece_model.h"

namespace phalanx::tokenizer_test {

inline std::string varint_bytes(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80U);
  return bytes + static_cast<char>(value);
}
inline std::string little_endian_bytes(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> 8 * i);
  return bytes;
}
inline std::string number_field(std::uint64_t field, std::uint64_t value) {
  return varint_bytes(field << 3) + varint_bytes(value);
}
inline std::string bytes_field(std::uint64_t field, std::string_view bytes) {
  return varint_bytes(field << 3 | 2) + varint_bytes(bytes.size()) + std::string(bytes);
}
inline std::string real_field(std::uint64_t field, float value) {
  return varint_bytes(field << 3 | 5) + little_endian_bytes(std::bit_cast<std::uint32_t>(value));
}

inline std::string piece_field(const SentencePiece& piece) {
  return bytes_field(1, bytes_field(1, piece.text) + real_field(2, piece.score) +
                            number_field(3, static_cast<std::uint64_t>(piece.kind)));
}
inline std::string rules_message(const NormalizerRules& rules) {
  return bytes_field(1, "by hand") + bytes_field(2, rules.characters_map) +
         number_field(3, rules.add_dummy_prefix ? 1 : 0) +
         number_field(4, rules.remove_extra_whitespaces ? 1 : 0) +
         number_field(5, rules.escape_whitespaces ? 1 : 0);
}
inline std::string model_bytes(const SentencePieceModel& model) {
  std::string bytes;
  for (const SentencePiece& piece : model.pieces) bytes += piece_field(piece);
  bytes += bytes_field(2, number_field(3, static_cast<std::uint64_t>(model.algorithm)) +
                              number_field(24, model.whitespace_as_suffix ? 1 : 0) +
                              number_field(35, model.byte_fallback ? 1 : 0) +
                              bytes_field(44, model.unknown_surface));
  bytes += bytes_field(3, rules_message(model.normalizer));
  if (model.denormalizer) bytes += bytes_field(5, rules_message(*model.denormalizer));
  return bytes;
}

// Every node of the trie reserves 256 units for its children.
inline std::string compiled_map(const std::map<std::string, std::string>& rules) {
  std::vector<std::uint32_t> units(256, 0x200);
  std::map<std::string, std::uint32_t> nodes;  // prefix -> unit
  std::string targets;
  const auto open = [&](std::uint32_t unit, std::uint32_t flags) {
    const auto block = static_cast<std::uint32_t>(units.size());
    units.resize(units.size() + 256, 0x200);
    units[unit] = (unit ^ block) << 10 | flags;
  };
  const auto block_of = [&](std::uint32_t unit) { return unit ^ units[unit] >> 10; };
  open(0, 0);
  nodes[""] = 0;
  for (const auto& [from, to] : rules) {
    std::uint32_t at = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(from[i]);
      const auto [entry, is_new] = nodes.try_emplace(from.substr(0, i + 1), block_of(at) ^ byte);
      at = entry->second;
      if (is_new) open(at, byte);
    }
    units[at] |= 0x100U;
    units[block_of(at)] = 0x80000000U | static_cast<std::uint32_t>(targets.size());
    targets += to + '\0';
  }
  std::string bytes = little_endian_bytes(static_cast<std::uint32_t>(4 * units.size()));
  for (const std::uint32_t unit : units) bytes += little_endian_bytes(unit);
  return bytes + targets;
}

// <unk>, <s>, </s>, then these.
inline SentencePieceModel small_model(SentencePieceModel::Algorithm algorithm,
                                      const std::vector<SentencePiece>& pieces) {
  SentencePieceModel model;
  model.algorithm = algorithm;
  model.pieces = {{"<unk>", 0, PieceKind::kUnknown},
                  {"<s>", 0, PieceKind::kControl},
                  {"</s>", 0, PieceKind::kControl}};
  model.pieces.insert(model.pieces.end(), pieces.begin(), pieces.end());
  return model;
}

// As Llama's: bytes are ids 3 to 258, then ▁ a b c ab ▁a ▁ab bc ▁▁; only blanks are rewritten.
inline SentencePieceModel byte_fallback_model() {
  std::vector<SentencePiece> pieces;
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    pieces.push_back(
        {std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", 0, PieceKind::kByte});
  }
  const std::vector<std::pair<std::string, float>> merged = {{"▁", -6},   {"a", -7},  {"b", -8},
                                                             {"c", -9},   {"ab", -2}, {"▁a", -1},
                                                             {"▁ab", -4}, {"bc", -3}, {"▁▁", -5}};
  for (const auto& [text, score] : merged) pieces.push_back({text, score, PieceKind::kNormal});
  SentencePieceModel model = small_model(SentencePieceModel::Algorithm::kBpe, pieces);
  model.byte_fallback = true;
  model.normalizer.remove_extra_whitespaces = false;
  return model;
}

}  // namespace phalanx::tokenizer_test
