#include "phalanx/planner/memory_bars.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/drawing/canvas.h"
#include "phalanx/drawing/markup.h"
#include "phalanx/drawing/palette.h"
#include "phalanx/families/family.h"

namespace phalanx {
namespace {

// Pixels.
constexpr double kBarsMargin = 12.0;
constexpr double kBarsLength = 620.0;  // of the longest bar
constexpr double kBarHeight = 22.0;
constexpr double kBarGap = 8.0;
constexpr double kRunGap = 6.0;  // added between runs
constexpr double kNameLine = 15.0;
constexpr double kDigitSize = 11.0;       // of the font of numbers on bars
constexpr double kTotalWidth = 76.0;      // of the sum behind a bar
constexpr double kBarTicks = 70.0;        // their distance, at least
constexpr std::size_t kLongestLine = 34;  // letters of a name
constexpr std::size_t kMostBars = 64;

struct BarPart {
  std::string_view style;
  std::string_view colour;
  std::string_view name;
  std::int64_t bytes = 0;
};
constexpr std::size_t kNumParts = kMemoryRows.size() + 1;

// The rows of the plan, of which the saved one is drawn as two parts.
std::vector<BarPart> parts_of(const MemoryPlan& memory) {
  std::vector<BarPart> parts;
  for (std::size_t row = 0; row < kMemoryRows.size(); ++row) {
    const MemoryRowInfo& info = kMemoryRows[row];
    const std::string_view style = info.key.substr(0, info.key.find('_'));
    parts.push_back({style, info.colour, info.name, memory.bytes.rows[row]});
    if (row != MemoryRow("saved").index()) continue;
    parts.back().name = "saved by passes";
    parts.back().bytes -= memory.lent;
    parts.push_back(
        {"lent", kPurple.light, "lent to passes: whole weights and gradients", memory.lent});
  }
  return parts;
}

std::string ranks_text(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  if (ranks.back() - ranks.front() + 1 == std::ssize(ranks)) {
    return fmt::format("ranks {} to {}", ranks.front(), ranks.back());
  }
  if (ranks.size() <= 4) return fmt::format("ranks {}", fmt::join(ranks, ", "));
  return fmt::format("rank {} and {} like it", ranks.front(), ranks.size() - 1);
}

// The name in lines that begin with a flag.
std::vector<std::string> name_lines(const std::string& name) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find(" --", begin + 1), name.size());
    const std::string part = name.substr(begin, end - begin);
    if (!lines.empty() && lines.back().size() + part.size() <= kLongestLine) {
      lines.back() += part;
    } else {
      lines.push_back(part.substr(part.find_first_not_of(' ')));
    }
    begin = end;
  }
  return lines;
}

class BarsDrawing {
 public:
  BarsDrawing(std::span<const MemoryBar> bars, std::string title)
      : bars_(bars), title_(std::move(title)) {}

  std::string document() {
    measure();
    canvas_.text("title", kBarsMargin, y_ + 14.0, title_);
    y_ += 30.0;
    const double top = y_;
    for (std::size_t i = 0; i < bars_.size(); ++i) draw_bar(i);
    draw_axis(top);
    draw_legend();
    return canvas_.document(width_, y_ + kBarsMargin, rules(), "", caption());
  }

 private:
  void measure() {
    std::int64_t most = 1;
    double names = 0.0;
    for (const MemoryBar& bar : bars_) {
      most = std::max(most, bar.memory.bytes.total());
      for (const std::string& line : lines_of(bar)) {
        names = std::max(names, text_width(line));
      }
    }
    constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    while (unit + 1 < kUnits.size() && static_cast<double>(most) >= 1024.0 * unit_) {
      unit_ *= 1024.0;
      ++unit;
    }
    unit_name_ = kUnits[unit];
    scale_ = kBarsLength / (static_cast<double>(most) / unit_);
    left_ = kBarsMargin + names + 8.0;
    width_ = left_ + kBarsLength + kTotalWidth + kBarsMargin;
  }

  static std::vector<std::string> lines_of(const MemoryBar& bar) {
    std::vector<std::string> lines = name_lines(bar.name);
    lines.push_back(bar.ranks);
    return lines;
  }

  void draw_bar(std::size_t number) {
    const MemoryBar& bar = bars_[number];
    const bool is_next_run = number > 0 && bars_[number - 1].name != bar.name;
    if (is_next_run) y_ += kRunGap;
    // The first bar of a run has its name.
    const bool is_first = number == 0 || is_next_run;
    const std::vector<std::string> lines =
        is_first ? lines_of(bar) : std::vector<std::string>{bar.ranks};
    const double height = std::max(kBarHeight, kNameLine * static_cast<double>(lines.size()));
    double line = y_ + (height - kNameLine * static_cast<double>(lines.size())) / 2.0 + 11.5;
    for (std::size_t i = 0; i < lines.size(); ++i, line += kNameLine) {
      canvas_.text(i + 1 == lines.size() ? "label soft" : "label", left_ - 8.0, line, lines[i]);
    }
    const double top = y_ + (height - kBarHeight) / 2.0;
    const std::vector<BarPart> parts = parts_of(bar.memory);
    double x = left_;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const BarPart& part = parts[p];
      if (part.bytes == 0) continue;
      is_drawn_[p] = true;
      const double size = static_cast<double>(part.bytes) / unit_;
      const double width = scale_ * size;
      canvas_.rectangle(fmt::format("part {}", part.style), x, top, width, kBarHeight,
                        fmt::format("{}: {}, {} B", part.name, format_bytes(part.bytes),
                                    format_count(part.bytes)));
      const std::string digits = short_number(size, size < 10.0 ? 2 : size < 100.0 ? 1 : 0);
      if (text_width(digits, kDigitSize) + 6.0 <= width) {
        canvas_.text("digits", x + width / 2.0, top + 15.0, digits);
      }
      x += width;
    }
    canvas_.text("total", x + 6.0, top + 15.0, format_bytes(bar.memory.bytes.total()));
    y_ += height + kBarGap;
  }

  void draw_axis(double top) {
    canvas_.line("base", left_, top - 6.0, left_, y_);
    const AxisScale scale{.low = 0.0, .high = kBarsLength / scale_};
    canvas_.axis(scale, ticks(scale, kBarsLength / kBarTicks), left_, left_ + kBarsLength, y_);
    canvas_.text("tick unit", left_ + kBarsLength + 14.0, y_ + 15.0, unit_name_);
    y_ += 30.0;
  }

  void draw_legend() {
    Legend legend(canvas_, kBarsMargin, width_ - kBarsMargin, y_);
    const std::vector<BarPart> parts = parts_of({});
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (is_drawn_[p]) legend.add(fmt::format("part {}", parts[p].style), parts[p].name);
    }
    y_ = legend.bottom();
  }

  static std::string rules() {
    std::string rules = ".part{stroke:#ffffff;stroke-width:0.8}\n.tick.unit{text-anchor:start}\n";
    for (const BarPart& part : parts_of({})) {
      rules += fmt::format(".{}{{fill:{}}}\n", part.style, part.colour);
    }
    return rules;
  }

  CanvasCaption caption() const {
    std::string words;
    for (const MemoryBar& bar : bars_) {
      words += fmt::format("{}{}{}: {}", words.empty() ? "" : "; ", bar.name,
                           bar.name.empty() ? bar.ranks : ", " + bar.ranks,
                           format_bytes(bar.memory.bytes.total()));
      for (const BarPart& part : parts_of(bar.memory)) {
        if (part.bytes > 0) words += fmt::format(", {} {}", part.name, format_bytes(part.bytes));
      }
    }
    return {.title = title_, .description = words + "."};
  }

  std::span<const MemoryBar> bars_;
  std::string title_;
  Canvas canvas_;
  double unit_ = 1.0;  // bytes
  std::string_view unit_name_;
  double scale_ = 1.0;  // pixels of one unit
  double left_ = 0.0;   // where bars begin
  double width_ = 0.0;
  double y_ = kBarsMargin;
  std::array<bool, kNumParts> is_drawn_ = {};  // some bar has this part
};

}  // namespace

std::vector<MemoryBar> memory_bars(const RunPlan& plan, const std::string& name) {
  std::vector<std::pair<const MemoryPlan*, std::vector<int>>> alike;
  for (const RankPlan& group : plan.groups) {
    const auto known = std::ranges::find_if(alike, [&](const auto& other) {
      return other.first->bytes == group.memory.bytes && other.first->lent == group.memory.lent;
    });
    if (known == alike.end()) {
      alike.emplace_back(&group.memory, group.ranks);
    } else {
      known->second.insert(known->second.end(), group.ranks.begin(), group.ranks.end());
    }
  }
  const int world = plan.grids.dense.world_size();
  std::vector<MemoryBar> bars;
  for (const auto& [memory, ranks] : alike) {
    const std::string each = world == 1 ? "1 rank" : fmt::format("each of {} ranks", world);
    bars.push_back({name, alike.size() == 1 ? each : ranks_text(ranks), *memory});
  }
  return bars;
}

std::string model_words(const RunPlan& plan) {
  return fmt::format("{}, {} parameters, {}", family_of(plan.config).title(),
                     format_count(plan.model_parameters), name_of(plan.model->transformer().dtype));
}

std::string to_svg(std::span<const MemoryBar> bars, const std::string& title) {
  if (bars.size() > kMostBars) {
    throw ConfigError(
        "--svg: the memory of {} ranks that differ is too much for a picture, which has {} bars at "
        "most: --json lists them",
        bars.size(), kMostBars);
  }
  return BarsDrawing(bars, title).document();
}

std::string to_text(std::span<const MemoryBar> bars) {
  std::size_t longest = 0;
  const auto words = [](const MemoryBar& bar) {
    return bar.name.empty() ? bar.ranks : bar.name + ", " + bar.ranks;
  };
  for (const MemoryBar& bar : bars) longest = std::max(longest, words(bar).size());
  std::string text;
  for (const MemoryBar& bar : bars) {
    text +=
        fmt::format("{:<{}} {:>12} {:>20} B\n", words(bar), longest,
                    format_bytes(bar.memory.bytes.total()), format_count(bar.memory.bytes.total()));
  }
  return text;
}

}  // namespace phalanx
