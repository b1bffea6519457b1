#include "phalanx/tasks/answer_text.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// How many tokens of the prompt are decoded with the answer: enough for a character in pieces.
constexpr std::size_t kContext = 8;

// The most tokens of one character; more that are not a character never become one.
constexpr std::size_t kMostPieces = 4;

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Whether the text's last character lacks bytes, or stands for a character that does.
bool ends_within_character(std::string_view text) {
  if (text.ends_with(kReplacement)) return true;
  std::size_t tail = 0;
  while (tail < text.size() && tail < 3 &&
         (static_cast<unsigned char>(text[text.size() - 1 - tail]) & 0xc0U) == 0x80U) {
    ++tail;
  }
  if (tail == text.size()) return false;
  const auto lead = static_cast<unsigned char>(text[text.size() - 1 - tail]);
  const std::size_t wanted = lead >= 0xf0U ? 3 : lead >= 0xe0U ? 2 : lead >= 0xc0U ? 1 : 0;
  return tail < wanted;
}

// The length of the longest end of the text with which `stop` begins.
std::size_t common_border(std::string_view text, std::string_view stop) {
  for (std::size_t length = std::min(text.size(), stop.size()); length > 0; --length) {
    if (text.ends_with(stop.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

std::string known_text(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> known(ids.begin(), ids.end());
  std::erase_if(known, [&](std::int32_t id) { return id >= tokenizer.vocab_size(); });
  return tokenizer.decode(known);
}

AnswerText::AnswerText(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                       std::span<const std::string> stops)
    : tokenizer_(tokenizer), stops_(stops) {
  for (const std::string& stop : stops) {
    PHALANX_CHECK(!stop.empty(), "an empty stop sequence is everywhere");
  }
  for (const std::int32_t id : prompt.last(std::min(prompt.size(), kContext))) {
    if (has_text(id)) ids_.push_back(id);
  }
  shown_ = ids_.size();
}

std::string AnswerText::add(std::int32_t id) {
  if (!has_text(id)) return "";
  ids_.push_back(id);
  const auto tokens = std::span(ids_).subspan(begin_);
  const std::string before = tokenizer_.decode(tokens.first(shown_ - begin_));
  const std::string now = tokenizer_.decode(tokens);
  const bool waits = ends_within_character(now) && ids_.size() - shown_ < kMostPieces;
  if (waits || now.size() < before.size()) return "";
  begin_ = shown_;
  shown_ = ids_.size();
  return show(std::string_view(now).substr(before.size()), false);
}

std::string AnswerText::finish() {
  const auto tokens = std::span(ids_).subspan(begin_);
  const std::string before = tokenizer_.decode(tokens.first(shown_ - begin_));
  const std::string now = tokenizer_.decode(tokens);
  shown_ = ids_.size();
  return show(std::string_view(now).substr(std::min(before.size(), now.size())), true);
}

std::string AnswerText::show(std::string_view fresh, bool last) {
  if (is_stopped_) return "";
  held_ += fresh;
  std::size_t end = held_.size();
  for (const std::string& stop : stops_) {
    const std::size_t found = held_.find(stop);
    if (found == std::string::npos) continue;
    is_stopped_ = true;
    end = std::min(end, found);
  }
  if (!is_stopped_ && !last) {
    std::size_t border = 0;
    for (const std::string& stop : stops_) border = std::max(border, common_border(held_, stop));
    end -= border;
  }
  std::string shown = held_.substr(0, end);
  held_.erase(0, end);
  text_ += shown;
  return shown;
}

}  // namespace phalanx
