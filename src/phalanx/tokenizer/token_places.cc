#include "phalanx/tokenizer/token_places.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "phalanx/tokenizer/byte_symbols.h"
#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The byte of "<0xE2>".
std::optional<std::string> fallback_byte(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with('>')) return std::nullopt;
  unsigned byte = 0;
  const auto [stop, fault] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  if (fault != std::errc{} || stop != piece.data() + 5) return std::nullopt;
  return std::string(1, static_cast<char>(byte));
}

// A text in NFC, with the part of the original that each byte comes from.
struct Composed {
  std::string text;
  std::vector<TokenPlace> origins;
};

// Whether a character begins a stretch that composes with nothing before it.
bool begins_stretch(char32_t character) {
  const bool is_vowel_or_final_of_hangul = character >= 0x1160 && character <= 0x11FF;
  return character < 0x300 || (!is_mark(character) && !is_vowel_or_final_of_hangul);
}

std::optional<Composed> composed(std::string_view text) {
  Composed whole;
  std::size_t begin = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    take_character(rest);
    std::string_view next = rest;
    while (!rest.empty() && !begins_stretch(take_character(next))) rest = next;
    const std::size_t end = text.size() - rest.size();
    const std::string_view stretch = text.substr(begin, end - begin);
    const std::string normal = normalized(stretch, NormalForm::kNfc);
    for (std::size_t i = 0; i < normal.size(); ++i) {
      // An unchanged byte is itself, a changed one the whole stretch.
      whole.origins.push_back(normal == stretch ? TokenPlace{begin + i, begin + i + 1}
                                                : TokenPlace{begin, end});
    }
    whole.text += normal;
    begin = end;
  }
  if (whole.text != normalized(text, NormalForm::kNfc)) return std::nullopt;
  return whole;
}

std::size_t blanks_at(std::string_view text) {
  const std::size_t size = text.size();
  while (!text.empty()) {
    std::string_view behind = text;
    if (!is_white_space(take_character(behind))) break;
    text = behind;
  }
  return size - text.size();
}

}  // namespace

const std::vector<std::string>& TokenPlaces::readings(std::int32_t id) {
  const auto [found, is_new] = readings_.try_emplace(id);
  std::vector<std::string>& readings = found->second;
  if (!is_new) return readings;
  const auto add = [&](std::string text) {
    if (!text.empty() && std::ranges::find(readings, text) == readings.end()) {
      readings.push_back(std::move(text));
    }
  };
  // Behind itself: a decoder may take a blank from the first token.
  const std::string once = tokenizer_.decode(std::array{id});
  const std::string twice = tokenizer_.decode(std::array{id, id});
  const std::string decoded = twice.starts_with(once) ? twice.substr(once.size()) : once;
  const std::string piece = tokenizer_.piece(id);
  const bool is_broken = decoded.find(kReplacement) != std::string::npos;
  if (!is_broken) add(decoded);
  if (auto byte = fallback_byte(piece)) add(std::move(*byte));
  if (auto bytes = bytes_from_symbols(piece); bytes && is_broken) add(std::move(*bytes));
  add(decoded);
  add(piece);
  return readings;
}

bool TokenPlaces::align(std::string_view text, const std::vector<std::int32_t>& ids,
                        std::vector<TokenPlace>& places, Failure& failure) {
  places.clear();
  std::size_t at = 0;
  // The bytes of a reading that stand at a place, if they do.
  const auto match = [&](std::size_t place, std::int32_t id, bool without_blank) {
    for (const std::string& reading : readings(id)) {
      std::string_view sought = reading;
      if (without_blank) {
        if (!sought.starts_with(' ')) continue;
        sought.remove_prefix(1);
      }
      if (text.substr(place).starts_with(sought)) return std::optional(sought.size());
    }
    return std::optional<std::size_t>();
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::optional<std::size_t> length = match(at, ids[i], false);
    if (!length) length = match(at, ids[i], true);
    if (!length) {
      const std::size_t behind = at + blanks_at(text.substr(at));
      length = match(behind, ids[i], false);
      if (!length) length = match(behind, ids[i], true);
      if (length) at = behind;
    }
    if (!length) {
      failure = {i, at};
      return false;
    }
    places.push_back({at, at + *length});
    at += *length;
  }
  if (at + blanks_at(text.substr(at)) == text.size()) return true;
  failure = {ids.size(), at};
  return false;
}

std::vector<TokenPlace> TokenPlaces::of(std::string_view text,
                                        const std::vector<std::int32_t>& ids) {
  std::vector<TokenPlace> places;
  Failure failure;
  if (align(text, ids, places, failure)) return places;
  const auto whole = is_utf8(text) ? composed(text) : std::nullopt;
  Failure ignored;
  if (whole && whole->text != text && align(whole->text, ids, places, ignored)) {
    for (TokenPlace& place : places) {
      if (place.begin == place.end) {
        const std::size_t begin =
            place.begin < whole->origins.size() ? whole->origins[place.begin].begin : text.size();
        place = {begin, begin};
      } else {
        place = {whole->origins[place.begin].begin, whole->origins[place.end - 1].end};
      }
    }
    return places;
  }
  throw DataError(
      "{}: token {} is not what the text has at byte {}, so tokens and text cannot be compared: "
      "the tokenizer changes text, or has no token for it",
      tokenizer_.name(), failure.token, failure.byte);
}

}  // namespace phalanx
