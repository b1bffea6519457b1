#include "phalanx/metrics/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"

namespace phalanx {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr std::string_view kSeparator = " | ";
constexpr int kWidestBar = 40;
constexpr int kNarrowestBar = 8;

bool can_draw(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

// "[=====>    ]" of `width` characters.
std::string draw_bar(double share, int width) {
  const int inside = width - 2;
  const int filled = std::clamp(static_cast<int>(share * inside), 0, inside);
  std::string bar(static_cast<std::size_t>(inside), ' ');
  std::fill_n(bar.begin(), filled, '=');
  if (filled < inside) bar[static_cast<std::size_t>(filled)] = '>';
  return "[" + bar + "]";
}

}  // namespace

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::clamp(seconds, 0.0, 1e12)));
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 60 * kMinute;
  constexpr std::int64_t kDay = 24 * kHour;
  if (whole < kMinute) return fmt::format("{}s", whole);
  if (whole < kHour) return fmt::format("{}m {:02}s", whole / kMinute, whole % kMinute);
  if (whole < kDay) return fmt::format("{}h {:02}m", whole / kHour, whole % kHour / kMinute);
  return fmt::format("{}d {:02}h", whole / kDay, whole % kDay / kHour);
}

std::string format_progress(const ProgressLine& progress, int columns) {
  const double share = progress.total > 0 ? std::clamp(static_cast<double>(progress.iteration) /
                                                           static_cast<double>(progress.total),
                                                       0.0, 1.0)
                                          : 0.0;
  const std::string head = fmt::format("{:3d}%", static_cast<int>(100 * share));
  std::string tail = fmt::format(
      " {}/{} | loss {:.4f} | {} tokens/s", progress.iteration, progress.total, progress.loss,
      format_count(std::llround(std::clamp(progress.tokens_per_second, 0.0, 1e15))));
  if (progress.seconds_left >= 0) {
    tail += fmt::format(" | {} left", format_duration(progress.seconds_left));
  }
  const int room = columns - static_cast<int>(head.size() + tail.size()) - 1;
  std::string text = head;
  if (room >= kNarrowestBar) text += " " + draw_bar(share, std::min(room, kWidestBar));
  text += tail;
  const auto widest = static_cast<std::size_t>(std::max(columns, 0));
  while (text.size() > widest && text.find(kSeparator) != std::string::npos) {
    text.erase(text.rfind(kSeparator));
  }
  text.resize(std::min(text.size(), widest));
  return text;
}

ProgressBar::ProgressBar(std::int64_t total_iterations, int descriptor)
    : total_(total_iterations),
      descriptor_(descriptor),
      active_(can_draw(descriptor)),
      output_(descriptor) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::advance(std::int64_t iteration, double loss, std::int64_t tokens, double seconds,
                          Clock::time_point now) {
  if (!active_) return;
  tokens_.add(static_cast<double>(tokens), seconds);
  iterations_.add(1, seconds);
  if (now < next_draw_) return;
  next_draw_ = now + kRedrawInterval;
  const double rate = iterations_.per_second();
  const auto left = static_cast<double>(std::max<std::int64_t>(0, total_ - iteration));
  const ProgressLine progress{.iteration = iteration,
                              .total = total_,
                              .loss = loss,
                              .tokens_per_second = tokens_.per_second(),
                              .seconds_left = rate > 0 ? left / rate : -1};
  // One column stays free: a full line would wrap, and erasing it would leave its first half.
  put(std::string(kEraseLine) + format_progress(progress, columns() - 1));
  drawn_ = true;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  put(std::string(kEraseLine));
  drawn_ = false;
  next_draw_ = {};
}

int ProgressBar::columns() const {
  winsize size{};
  constexpr int kUsual = 80;
  return ::ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

// A run goes on if the bar cannot be drawn or the terminal is stopped. Waiting lines come first.
void ProgressBar::put(std::string_view text) const {
  if (!log_is_behind()) output_.write(text);
}

void ProgressSink::iteration(const IterationReport& report) {
  if (!bar_) return;
  const double loss = report.losses.empty() ? 0.0 : report.losses.front().value;
  bar_->advance(report.iteration, loss, report.tokens, report.seconds);
}

void ProgressSink::pause() {
  if (bar_) bar_->clear();
}

}  // namespace phalanx
