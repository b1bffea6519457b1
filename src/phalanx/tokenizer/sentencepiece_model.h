#pragma once
// A SentencePiece model as its file holds it (sentencepiece_model.proto), read without the library:
// Debian's libsentencepiece exports a protobuf of another version than ours, which cannot share a
// process with it, and it ends the process at some damaged files.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace phalanx {

// The numbers are the file's.
enum class PieceKind : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never read in a text
  kUserDefined = 4,  // always read in a text, whatever its score
  kUnused = 5,
  kByte = 6,  // "<0x0A>": a byte of what no other piece covers
};

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceKind kind = PieceKind::kNormal;
};

struct NormalizerRules {
  std::string characters_map = {};  // "precompiled_charsmap"; empty: characters stay as they are
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;  // a blank becomes U+2581
};

struct SentencePieceModel {
  enum class Algorithm { kUnigram = 1, kBpe = 2 };

  Algorithm algorithm = Algorithm::kUnigram;
  std::vector<SentencePiece> pieces = {};  // by id
  bool whitespace_as_suffix = false;
  bool byte_fallback = false;
  std::string unknown_surface = " \u2047 ";
  NormalizerRules normalizer = {};
  std::optional<NormalizerRules> denormalizer = {};

  // What follows from the pieces.
  std::int32_t unknown = -1;
  std::optional<std::int32_t> bos = {}, eos = {}, pad = {};  // control pieces of these names
  std::vector<std::int32_t> byte_ids = {};                   // by byte; empty without byte_fallback
};

// DataError, naming `source`, where the bytes are no such model: every length lies inside the file,
// every piece has a text of its own and a finite score, one is the unknown one, and all 256 bytes
// are there if any is. DataError too for an algorithm other than BPE and Unigram.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& source);

}  // namespace phalanx
