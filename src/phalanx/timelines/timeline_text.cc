#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "phalanx/drawing/axis_scale.h"
#include "phalanx/timelines/timeline_drawing.h"
#include "phalanx/timelines/timeline_layout.h"

namespace phalanx {
namespace {

constexpr double kRounding = 1e-9;

// The largest time of which all begins and ends are multiples; 0 where they are not whole numbers.
double common_unit(const TimelinePicture& picture) {
  const std::vector<double> origins = row_origins(picture);
  std::int64_t unit = 0;
  for (std::size_t rank = 0; rank < picture.timeline.size(); ++rank) {
    for (const TimedAction& timed : picture.timeline[rank]) {
      for (const double time : {timed.begin - origins[rank], timed.end - origins[rank]}) {
        const std::int64_t whole = std::llround(time);
        if (std::abs(time - static_cast<double>(whole)) > kRounding) return 0.0;
        unit = std::gcd(unit, whole);
      }
    }
  }
  return static_cast<double>(unit);
}

// The time of a column: so short that every pass has room for its number, if `room` columns are
// enough for that, else as long as the shortest pass. A few passes that are much shorter than the
// others do not make the picture longer.
double column_time(const TimelinePicture& picture, int room) {
  const double least = median_pass(picture) / 8.0;
  const double unit = common_unit(picture);
  const double time = unit >= least ? unit : std::max(shortest_pass(picture), least);
  const auto digits = static_cast<double>(fmt::formatted_size("{}", last_microbatch(picture)));
  return picture_length(picture) * digits <= time * room * (1.0 + kRounding) ? time / digits : time;
}

// The columns that are shown: all, or the first and the last ones with a mark between them.
class Window {
 public:
  Window(std::size_t count, std::size_t room) : count_(count), is_cut_(count > room) {
    if (!is_cut_) return;
    const std::size_t shown = std::max<std::size_t>(room, kMark.size() + 2) - kMark.size();
    first_ = (shown + 1) / 2;
    last_ = shown / 2;
  }

  bool is_cut() const { return is_cut_; }
  std::string shown(const std::string& line) const {
    if (!is_cut_) return line;
    return line.substr(0, first_) + std::string(kMark) + line.substr(count_ - last_);
  }
  // Whether columns from `begin` to `end` are shown side by side.
  bool shows(std::size_t begin, std::size_t end) const {
    return end <= count_ && (!is_cut_ || end <= first_ || begin >= count_ - last_);
  }

 private:
  static constexpr std::string_view kMark = " ~ ";

  std::size_t count_;
  bool is_cut_;
  std::size_t first_ = 0;
  std::size_t last_ = 0;
};

struct Row {
  std::string kinds;
  std::string microbatches;
  std::string chunks;
};

// Draws the row of one rank: `count` columns, each of the time `column`.
class RowDrawing {
 public:
  RowDrawing(const TimelinePicture& picture, double column, std::size_t count)
      : picture_(picture), column_(column), count_(count) {}

  Row draw(const std::vector<TimedAction>& row, double origin) const {
    const std::vector<int> owners = owners_of(row, origin);
    Row drawn{.kinds = std::string(count_, '.'),
              .microbatches = std::string(count_, ' '),
              .chunks = std::string(count_, ' ')};
    for (std::size_t begin = 0; begin < count_;) {
      std::size_t end = begin + 1;
      while (end < count_ && owners[end] == owners[begin]) ++end;
      if (owners[begin] != kIdle) {
        draw(row[static_cast<std::size_t>(owners[begin])].action, begin, end, drawn);
      }
      begin = end;
    }
    return drawn;
  }

 private:
  static constexpr int kIdle = -1;

  // For each column the position in the row of the pass that takes most of it, or kIdle.
  std::vector<int> owners_of(const std::vector<TimedAction>& row, double origin) const {
    std::vector<int> owners(count_, kIdle);
    std::vector<double> most(count_, 0.0);
    std::vector<double> idle(count_, column_);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!is_pass(row[i].action.kind)) continue;
      const double begin = (row[i].begin - origin) / column_;
      const double end = (row[i].end - origin) / column_;
      for (auto k = static_cast<std::size_t>(begin + kRounding);
           k < count_ && static_cast<double>(k) < end - kRounding; ++k) {
        const auto left = static_cast<double>(k);
        const double share = column_ * (std::min(end, left + 1.0) - std::max(begin, left));
        idle[k] -= share;
        if (share <= most[k]) continue;
        most[k] = share;
        owners[k] = static_cast<int>(i);
      }
    }
    for (std::size_t k = 0; k < count_; ++k) {
      if (idle[k] > most[k] + kRounding * column_) owners[k] = kIdle;
    }
    return owners;
  }

  void draw(const Action& pass, std::size_t begin, std::size_t end, Row& drawn) const {
    const auto put = [&](std::string& line, std::string_view text) {
      if (text.size() <= end - begin) line.replace(begin, text.size(), text);
    };
    drawn.kinds.replace(begin, end - begin, end - begin, '-');
    put(drawn.kinds, description_of(pass.kind).substr(0, 1));
    put(drawn.microbatches, fmt::format("{}", pass.microbatch));
    put(drawn.chunks, picture_.placement.directions() == 1 ? fmt::format("{}", pass.chunk)
                      : picture_.placement.direction(pass.chunk) == 0 ? "d"
                                                                      : "u");
  }

  const TimelinePicture& picture_;
  double column_;
  std::size_t count_;
};

// Numbers above about every tenth column, at round times.
std::string axis(double column, std::size_t count, const Window& window) {
  const double step = round_step(10.0 * column);
  std::string line(count, ' ');
  std::size_t free = 0;  // from which column on
  for (int tick = 0; step * tick < column * static_cast<double>(count); ++tick) {
    const auto at = static_cast<std::size_t>(std::lround(step * tick / column));
    const std::string label = fmt::format("{:g}", step * tick);
    if (at < free || !window.shows(at, at + label.size())) continue;
    line.replace(at, label.size(), label);
    free = at + label.size() + 1;
  }
  return line;
}

std::string_view without_end(std::string_view line) {
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

std::string explanation(const TimelinePicture& picture, double column, bool is_cut) {
  bool used[4] = {};
  for (const auto& row : picture.timeline) {
    for (const TimedAction& timed : row) {
      if (is_pass(timed.action.kind)) used[static_cast<std::size_t>(timed.action.kind)] = true;
    }
  }
  std::string text;
  for (std::size_t kind = 0; kind < std::size(used); ++kind) {
    if (used[kind]) text += fmt::format("{}, ", description_of(static_cast<ActionKind>(kind)));
  }
  text += "- goes on, . idle; below: microbatch";
  if (picture.placement.directions() > 1) {
    text += ", direction down or up";
  } else if (picture.placement.chunks() > 1) {
    text += ", chunk";
  }
  if (is_cut) text += "; ~ left out";
  if (picture.aligned_to_first) text += "; every rank from its own first pass";
  text += '\n';
  if (column > shortest_pass(picture) * (1.0 + kRounding)) {
    text += fmt::format("a column is {:g} of time: shorter passes may not be seen\n", column);
  }
  return text;
}

}  // namespace

std::string to_text(const TimelinePicture& picture, int columns) {
  const std::size_t ranks = picture.timeline.size();
  const std::string_view unit = picture.unit.empty() ? "time" : std::string_view(picture.unit);
  const std::size_t stack = picture.split == 0 ? 0 : name_of(Stack::kEncoder).size();
  const std::size_t label =
      std::max({unit.size(), fmt::formatted_size("rank {}", ranks == 0 ? 0 : ranks - 1), stack}) +
      2;
  const int room = std::max(columns - static_cast<int>(label), 1);
  const double column = column_time(picture, room);
  const auto count =
      static_cast<std::size_t>(std::ceil(picture_length(picture) / column * (1.0 - kRounding)));
  const Window window(count, static_cast<std::size_t>(room));

  std::string text = picture.title + "\n";
  const auto add = [&](std::string_view name, const std::string& line) {
    const std::string whole = fmt::format("{:<{}}{}", name, label, window.shown(line));
    text.append(without_end(whole)).append("\n");
  };
  add(unit, axis(column, count, window));
  const RowDrawing drawing(picture, column, count);
  const std::vector<double> origins = row_origins(picture);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Row row = drawing.draw(picture.timeline[rank], origins[rank]);
    add(fmt::format("rank {}", rank), row.kinds);
    add(name_of(stack_of(picture, rank)), row.microbatches);
    if (picture.placement.chunks() > 1) add("", row.chunks);
  }
  text += explanation(picture, column, window.is_cut());
  if (!picture.footer.empty()) text += picture.footer + "\n";
  return text;
}

}  // namespace phalanx
