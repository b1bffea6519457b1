#include "phalanx/start/agreement.h"

#include <fmt/core.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// How a text of a round begins: with a value, or with what its process ends with instead.
constexpr char kValue = '+';
constexpr char kError = '!';  // "!78 --lr is ..."
constexpr std::string_view kStopped = ".";

// A text that is exchanged may not be longer.
constexpr std::size_t kLongestMessage = 8192;

}  // namespace

Agreement::Agreement(Means means, std::vector<RankPlace> places)
    : means_(std::move(means)), places_(std::move(places)) {}

std::string Agreement::broadcast(std::string of_first) {
  round({kValue});  // an error of any process is its text in this round
  return means_.broadcast(std::move(of_first));
}

std::vector<std::string> Agreement::gather(std::string mine) {
  std::vector<std::string> texts = round(kValue + std::move(mine));
  for (std::string& text : texts) text.erase(0, 1);
  return texts;
}

void Agreement::prepare(const std::function<void()>& preparation) {
  try {
    preparation();
    round({kValue});
  } catch (const StoppedEarly&) {
    tell_others(std::string(kStopped));
    throw;
  } catch (const Error& error) {
    const std::string message = std::string(error.what()).substr(0, kLongestMessage);
    tell_others(fmt::format("{}{} {}", kError, error.exit_status(), message));
    throw;
  }
}

std::vector<std::string> Agreement::round(std::string mine) {
  std::vector<std::string> texts = means_.gather(std::move(mine));
  PHALANX_CHECK(texts.size() == places_.size(), "{} texts of {} processes", texts.size(),
                places_.size());
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const std::string_view text = texts[rank];
    if (text.starts_with(kValue)) continue;
    all_know_ = true;
    if (!text.starts_with(kError)) throw StoppedEarly{};
    int code = 0;
    const auto [end, fault] = std::from_chars(text.data() + 1, text.data() + text.size(), code);
    throw Error(static_cast<ErrorCode>(code),
                fmt::format("rank {} (host {}):{}", rank, places_[rank].host_name,
                            std::string_view(end, text.data() + text.size())));
  }
  return texts;
}

// Throws the error that all processes throw.
void Agreement::tell_others(const std::string& text) {
  if (!all_know_ && !means_.is_over()) round(text);
}

}  // namespace phalanx
