#include "phalanx/tokenizer/sentencepiece_model.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// A limit, so that counts of pieces, bytes and nodes of a trie fit into int32.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

// One field of a message in protobuf's wire format.
struct Field {
  std::uint64_t number = 0;
  enum class Type { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 } type = Type::kVarint;
  std::uint64_t value = 0;  // of a varint, or the bits of a fixed one
  std::string_view bytes;
};

// The fields of a message, in the file's order.
class Message {
 public:
  Message(std::string_view bytes, const char* name, const std::string& source)
      : rest_(bytes), name_(name), source_(source) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    field = {};
    field.number = tag >> 3;
    if (field.number == 0) fail("a field has the number 0");
    switch (tag & 7U) {
      case 0:
        field.type = Field::Type::kVarint;
        field.value = varint();
        break;
      case 1:
        field.type = Field::Type::kFixed64;
        field.value = fixed(8);
        break;
      case 2:
        field.type = Field::Type::kBytes;
        field.bytes = take(varint());
        break;
      case 5:
        field.type = Field::Type::kFixed32;
        field.value = fixed(4);
        break;
      default:
        fail(fmt::format("field {} has the unknown wire type {}", field.number, tag & 7U));
    }
    return true;
  }

  std::string_view bytes_of(const Field& field) const {
    expect(field, Field::Type::kBytes);
    return field.bytes;
  }
  std::uint64_t number_of(const Field& field) const {
    expect(field, Field::Type::kVarint);
    return field.value;
  }
  bool truth_of(const Field& field) const { return number_of(field) != 0; }
  float real_of(const Field& field) const {
    expect(field, Field::Type::kFixed32);
    return std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError("{} is no SentencePiece model: in its {}, {}", source_, name_, what);
  }

 private:
  void expect(const Field& field, Field::Type type) const {
    if (field.type == type) return;
    fail(fmt::format("field {} has the wire type {} instead of {}", field.number,
                     static_cast<int>(field.type), static_cast<int>(type)));
  }
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) {
      fail(fmt::format("a field of {} bytes begins where {} are left", count, rest_.size()));
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    fail("a number has more than ten bytes");
  }
  std::uint64_t fixed(std::size_t count) {
    const std::string_view bytes = take(count);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << 8 * i;
    }
    return value;
  }

  std::string_view rest_;
  const char* name_;
  const std::string& source_;
};

// The names of the special pieces, which the processor looks up by them.
struct SpecialNames {
  std::string bos = "<s>";
  std::string eos = "</s>";
  std::string pad = "<pad>";
};

class Parser {
 public:
  explicit Parser(const std::string& source) : source_(source) {}

  SentencePieceModel parse(std::string_view bytes) && {
    if (bytes.size() > kMostBytes)
      fail("it has {} bytes; the limit is {}", bytes.size(), kMostBytes);
    Message message(bytes, "ModelProto", source_);
    for (Field field; message.next(field);) {
      switch (field.number) {
        case 1:
          read_piece(message.bytes_of(field));
          break;
        case 2:
          read_trainer(message.bytes_of(field));
          break;
        case 3:
          read_rules(message.bytes_of(field), "NormalizerSpec", model_.normalizer);
          break;
        case 5:
          if (!model_.denormalizer) model_.denormalizer.emplace();
          read_rules(message.bytes_of(field), "denormalizer's NormalizerSpec",
                     *model_.denormalizer);
          break;
        default:
          break;
      }
    }
    // Without a map it is not run at all.
    if (model_.denormalizer && model_.denormalizer->characters_map.empty()) {
      model_.denormalizer.reset();
    }
    if (model_.pieces.empty()) fail("there are no pieces");
    find_pieces();
    find_bytes();
    return std::move(model_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw DataError("{} is no SentencePiece model: {}", source_,
                    fmt::format(format, std::forward<Args>(args)...));
  }

  void read_piece(std::string_view bytes) {
    const std::size_t id = model_.pieces.size();
    Message message(bytes, "SentencePiece", source_);
    SentencePiece piece;
    for (Field field; message.next(field);) {
      switch (field.number) {
        case 1:
          piece.text = message.bytes_of(field);
          break;
        case 2:
          piece.score = message.real_of(field);
          break;
        case 3: {
          const std::uint64_t kind = message.number_of(field);
          if (kind < 1 || kind > 6) fail("piece {} has the unknown type {}", id, kind);
          piece.kind = static_cast<PieceKind>(kind);
          break;
        }
        default:
          break;
      }
    }
    if (piece.text.empty() || piece.text.find('\0') != std::string::npos) {
      fail("piece {} {}", id, piece.text.empty() ? "is empty" : "holds a zero byte");
    }
    if (!std::isfinite(piece.score)) fail("the score of piece {} is {}", id, piece.score);
    model_.pieces.push_back(std::move(piece));
  }

  void read_trainer(std::string_view bytes) {
    Message message(bytes, "TrainerSpec", source_);
    for (Field field; message.next(field);) {
      switch (field.number) {
        case 3:
          read_algorithm(message.number_of(field));
          break;
        case 24:
          model_.whitespace_as_suffix = message.truth_of(field);
          break;
        case 35:
          model_.byte_fallback = message.truth_of(field);
          break;
        case 44:
          model_.unknown_surface = message.bytes_of(field);
          break;
        case 46:
          names_.bos = message.bytes_of(field);
          break;
        case 47:
          names_.eos = message.bytes_of(field);
          break;
        case 48:
          names_.pad = message.bytes_of(field);
          break;
        default:
          break;
      }
    }
  }

  void read_algorithm(std::uint64_t type) {
    if (type != 1 && type != 2) {
      throw DataError(
          "{} was trained with SentencePiece's model type {}; Phalanx reads 1 (unigram) and 2 "
          "(bpe)",
          source_,
          type == 3   ? "3 (word)"
          : type == 4 ? "4 (char)"
                      : std::to_string(type));
    }
    model_.algorithm = static_cast<SentencePieceModel::Algorithm>(type);
  }

  void read_rules(std::string_view bytes, const char* name, NormalizerRules& rules) {
    Message message(bytes, name, source_);
    for (Field field; message.next(field);) {
      switch (field.number) {
        case 2:
          rules.characters_map = message.bytes_of(field);
          break;
        case 3:
          rules.add_dummy_prefix = message.truth_of(field);
          break;
        case 4:
          rules.remove_extra_whitespaces = message.truth_of(field);
          break;
        case 5:
          rules.escape_whitespaces = message.truth_of(field);
          break;
        default:
          break;
      }
    }
  }

  // Pieces that a text can become are unique, and so are the others.
  void find_pieces() {
    std::unordered_map<std::string_view, std::size_t> of_text;
    std::unordered_map<std::string_view, std::size_t> reserved;
    for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
      const SentencePiece& piece = model_.pieces[id];
      const bool is_of_text = piece.kind == PieceKind::kNormal ||
                              piece.kind == PieceKind::kUnused ||
                              piece.kind == PieceKind::kUserDefined;
      const auto [same, is_new] = (is_of_text ? of_text : reserved).try_emplace(piece.text, id);
      if (!is_new) fail("pieces {} and {} are the same", same->second, id);
      if (piece.kind != PieceKind::kUnknown) continue;
      if (model_.unknown >= 0) fail("pieces {} and {} are unknown ones", model_.unknown, id);
      model_.unknown = static_cast<std::int32_t>(id);
    }
    if (model_.unknown < 0) fail("no piece is the unknown one");
    const auto control = [&](const std::string& name, const char* usual) {
      const auto found = reserved.find(name.empty() ? usual : std::string_view(name));
      const bool is_control =
          found != reserved.end() && model_.pieces[found->second].kind == PieceKind::kControl;
      return is_control ? std::optional(static_cast<std::int32_t>(found->second)) : std::nullopt;
    };
    model_.bos = control(names_.bos, "<s>");
    model_.eos = control(names_.eos, "</s>");
    model_.pad = control(names_.pad, "<pad>");
  }

  void find_bytes() {
    std::unordered_map<std::string, std::size_t> bytes;
    for (std::size_t byte = 0; byte < 256; ++byte) bytes[fmt::format("<0x{:02X}>", byte)] = byte;
    std::vector<std::int32_t> ids(256, -1);
    std::size_t found = 0;
    for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
      const SentencePiece& piece = model_.pieces[id];
      if (piece.kind != PieceKind::kByte) continue;
      const auto byte = bytes.find(piece.text);
      if (byte == bytes.end()) fail("piece {} is no byte", id);
      ids[byte->second] = static_cast<std::int32_t>(id);
      ++found;
    }
    if (found != (model_.byte_fallback ? 256 : 0)) {
      fail("byte_fallback is {}, and there are {} pieces of bytes", model_.byte_fallback, found);
    }
    if (found > 0) model_.byte_ids = std::move(ids);
  }

  const std::string& source_;
  SentencePieceModel model_;
  SpecialNames names_;
};

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& source) {
  return Parser(source).parse(bytes);
}

}  // namespace phalanx
