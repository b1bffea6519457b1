#include "phalanx/launch/stream_choice.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "phalanx/base/error.h"

namespace phalanx::launch {
namespace {

constexpr int kMostStreams = 3;
constexpr int kMostLocalRanks = 1 << 20;

std::optional<int> number_of(std::string_view text, int most) {
  int value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value < 0 || value > most ? std::nullopt : std::optional(value);
}

}  // namespace

StreamChoice StreamChoice::parse(const std::string& flag, const std::string& text) {
  StreamChoice choice;
  if (const auto all = number_of(text, kMostStreams)) {
    choice.of_others_ = static_cast<unsigned>(*all);
    return choice;
  }
  std::string_view rest = text;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    const std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(more ? comma + 1 : rest.size());
    const std::size_t colon = item.find(':');
    const auto rank = number_of(item.substr(0, colon), kMostLocalRanks);
    const auto streams = colon == std::string_view::npos
                             ? std::nullopt
                             : number_of(item.substr(colon + 1), kMostStreams);
    if (!rank || !streams) {
      throw UsageError(
          "{} {}: is neither 0, 1, 2 or 3 (none, standard output, standard error, both; of all "
          "ranks) nor pairs of a local rank and such a number: 0:1,1:3",
          flag, text);
    }
    choice.of_rank_[*rank] = static_cast<unsigned>(*streams);
  }
  return choice;
}

unsigned StreamChoice::bits_of(int local_rank) const {
  const auto own = of_rank_.find(local_rank);
  return own == of_rank_.end() ? of_others_ : own->second;
}

}  // namespace phalanx::launch
