#include "phalanx/tokenizer/hf/added_tokens.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "phalanx/tokenizer/unicode.h"

namespace phalanx {
namespace {

// The last character of well-formed text that is not empty, and where it begins.
std::pair<char32_t, std::size_t> last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<std::uint8_t>(text[begin]) & 0xc0U) == 0x80U) --begin;
  std::string_view last = text.substr(begin);
  return {take_character(last), begin};
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word_character(last_character(text).first);
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && is_word_character(take_character(text));
}

std::size_t without_white_space_at_end(std::string_view text) {
  while (!text.empty()) {
    const auto [character, begin] = last_character(text);
    if (!is_white_space(character)) break;
    text = text.substr(0, begin);
  }
  return text.size();
}

std::size_t white_space_at_start(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view next = rest;
    if (!is_white_space(take_character(next))) break;
    rest = next;
  }
  return text.size() - rest.size();
}

}  // namespace

AddedToken read_added_token(const JsonNode& node) {
  node.allow({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  return read_added_token(node, static_cast<std::int32_t>(node["id"].integer(
                                    0, std::numeric_limits<std::int32_t>::max() - 1)));
}

AddedToken read_added_token(const JsonNode& node, std::int32_t id) {
  AddedToken token{.id = id,
                   .content = node["content"].text(),
                   .single_word = node.flag_or("single_word", false),
                   .lstrip = node.flag_or("lstrip", false),
                   .rstrip = node.flag_or("rstrip", false),
                   .special = node.flag_or("special", false)};
  token.normalized = node.flag_or("normalized", !token.special);
  return token;
}

void AddedTokenMatcher::add(const AddedToken& token, std::string_view sought) {
  if (sought.empty()) return;
  trie_.insert(sought, static_cast<std::int32_t>(tokens_.size()));
  tokens_.push_back(token);
}

std::vector<Section> AddedTokenMatcher::sections(std::string_view text, bool parse_special) const {
  std::vector<Section> sections;
  std::size_t done = 0;       // what lies before is in sections
  std::size_t space_end = 0;  // of the white space that was looked at last
  for (std::size_t at = 0; at < text.size();) {
    std::size_t size = 0;
    std::int32_t index = ByteTrie::kNone;
    trie_.visit_prefixes(text.substr(at), [&](std::size_t bytes, std::int32_t value) {
      size = bytes;
      index = value;
    });
    if (index == ByteTrie::kNone) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(index)];
    std::size_t begin = at;
    std::size_t end = at += size;
    if (token.special && !parse_special) continue;
    if (token.single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (token.lstrip) {
      const std::string_view between = text.substr(done, std::max(begin, done) - done);
      begin = done + without_white_space_at_end(between);
    }
    if (token.rstrip) {
      // The white space that the last match swallowed may hold further matches.
      if (end > space_end) space_end = end + white_space_at_start(text.substr(end));
      end = space_end;
    }
    if (begin >= end) continue;  // all of it was white space that the last match swallowed
    if (done < begin) sections.push_back({text.substr(done, begin - done)});
    sections.push_back({{}, token.id});
    done = end;
  }
  if (done < text.size()) sections.push_back({text.substr(done)});
  return sections;
}

}  // namespace phalanx
