#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "phalanx/base/numeric.h"
#include "phalanx/drawing/canvas.h"
#include "phalanx/drawing/markup.h"
#include "phalanx/drawing/palette.h"
#include "phalanx/planner/context_rows.h"

namespace phalanx {
namespace {

using RowChunk = ContextRows::Chunk;

// Pixels.
constexpr double kRowsMargin = 12.0;
constexpr double kRowsSide = 512.0;  // of the square of queries and keys
constexpr double kRowsStrip = 20.0;  // the sample as a strip above and beside it
constexpr double kRowsCell = 62.0;   // of the table
constexpr double kRowsLine = 18.0;
constexpr double kRowsDigit = 11.0;  // of the font of numbers

// Ranks have colours of their own, which come again from the eighth rank on.
constexpr std::array<std::string_view, 7> kRankColours = {
    kBlue.strong,   kGreen.strong, kOrange.strong, kPurple.strong,
    kYellow.strong, kRed.strong,   kGrey.strong};

class ContextRowsDrawing {
 public:
  ContextRowsDrawing(const ContextRows& rows, const ContextSample& sample)
      : rows_(rows), sample_(sample), scale_(kRowsSide / static_cast<double>(sample.sequence)) {}

  std::string document() {
    const std::string title = fmt::format(
        "A sample of {} rows on {} ranks, cut {}", sample_.sequence, sample_.cut.ranks(),
        sample_.cut.kind() == ContextCut::Kind::kDocuments ? "by documents" : "by the sequence");
    canvas_.text("title", kRowsMargin, y_ + 14.0, title);
    y_ += 40.0;
    left_ = kRowsMargin + 24.0 + kRowsStrip;
    canvas_.text("soft", left_ + kRowsStrip, y_ - 6.0,
                 "keys, in the order of the sample: who holds them");
    draw_strips();
    draw_blocks();
    draw_documents();
    canvas_.text("soft", kRowsMargin, y_ + kRowsStrip - 6.0, "queries");
    const double table = left_ + kRowsSide + 2.0 * kRowsMargin + kRowsStrip;
    width_ = table + 44.0 + kRowsCell * (sample_.cut.ranks() + 1.0) + kRowsMargin;
    draw_table(table);
    y_ += kRowsStrip + kRowsSide + 14.0;
    for (const std::string_view note : kNotes) {
      y_ += 16.0;
      canvas_.text("soft", kRowsMargin, y_, note);
    }
    return canvas_.document(width_, y_ + kRowsMargin, rules(), "",
                            {.title = title, .description = description()});
  }

 private:
  static constexpr std::array<std::string_view, 2> kNotes = {
      "A block is a chunk of queries and a chunk of keys of which some see each other; dark: all "
      "do. "
      "Its number is the step of",
      "the ring in which the queries' rank has these keys. White: nothing is seen, and nothing is "
      "computed."};

  double across(std::int64_t row) const {
    return left_ + kRowsStrip + scale_ * static_cast<double>(row);
  }
  double down(std::int64_t row) const {
    return y_ + kRowsStrip + scale_ * static_cast<double>(row);
  }

  static std::string rank_style(int rank) {
    return fmt::format("r{}", static_cast<std::size_t>(rank) % kRankColours.size());
  }

  void number_within(double x, double y, double width, double height, std::string_view style,
                     const std::string& number) {
    if (text_width(number, kRowsDigit) + 1.0 > width || height < kRowsDigit - 1.0) return;
    canvas_.text(style, x + width / 2.0, y + height / 2.0 + 4.0, number);
  }

  void draw_strips() {
    for (const RowChunk& chunk : rows_.chunks) {
      const double length = scale_ * static_cast<double>(chunk.count);
      const std::string tip = fmt::format("rank {}: rows {} to {}", chunk.rank, chunk.first,
                                          chunk.first + chunk.count - 1);
      const std::string number = fmt::format("{}", chunk.rank);
      canvas_.rectangle(rank_style(chunk.rank), across(chunk.first), y_, length, kRowsStrip - 2.0,
                        tip);
      number_within(across(chunk.first), y_, length, kRowsStrip - 2.0, "digits", number);
      canvas_.rectangle(rank_style(chunk.rank), left_, down(chunk.first), kRowsStrip - 2.0, length,
                        tip);
      number_within(left_, down(chunk.first), kRowsStrip - 2.0, length, "digits", number);
    }
  }

  void draw_blocks() {
    canvas_.rectangle("ground", across(0), down(0), kRowsSide, kRowsSide);
    for (const ContextRows::Block& block : rows_.blocks) {
      const RowChunk& query = rows_.chunks[static_cast<std::size_t>(block.query)];
      const RowChunk& key = rows_.chunks[static_cast<std::size_t>(block.key)];
      const double width = scale_ * static_cast<double>(key.count);
      const double height = scale_ * static_cast<double>(query.count);
      const bool is_whole = block.pairs == query.count * key.count;
      canvas_.rectangle(is_whole ? "whole" : "part", across(key.first), down(query.first), width,
                        height,
                        fmt::format("queries of rank {}, keys of rank {}: {} pairs in step {}",
                                    query.rank, key.rank, format_count(block.pairs), block.step));
      number_within(across(key.first), down(query.first), width, height, "digits",
                    fmt::format("{}", block.step));
    }
  }

  void draw_documents() {
    std::int32_t last = rows_.chunks.front().document;
    for (const RowChunk& chunk : rows_.chunks) {
      if (chunk.document == last) continue;
      last = chunk.document;
      if (sample_.documents.empty()) continue;
      canvas_.line("border", across(chunk.first), y_, across(chunk.first), down(sample_.sequence));
      canvas_.line("border", left_, down(chunk.first), across(sample_.sequence), down(chunk.first));
    }
  }

  // Pairs of each rank in each step.
  void draw_table(double left) {
    double y = y_ + kRowsStrip + 4.0;
    const int ranks = sample_.cut.ranks();
    canvas_.text("soft", left, y, "pairs of a query and a key that it sees, by rank and step");
    y += kRowsLine + 4.0;
    const auto cell = [&](int column, std::string_view style, std::string_view text) {
      canvas_.text(style, left + 44.0 + kRowsCell * (column + 1.0), y, text);
    };
    for (int step = 0; step < ranks; ++step) cell(step, "label soft", fmt::format("{}", step));
    cell(ranks, "label soft", "all");
    std::vector<std::int64_t> sums;
    std::int64_t in_step = 0;
    for (int step = 0; step < ranks; ++step) {
      std::int64_t most = 0;
      for (const auto& pairs : rows_.pairs) {
        most = std::max(most, pairs[static_cast<std::size_t>(step)]);
      }
      in_step += most;
    }
    for (int rank = 0; rank < ranks; ++rank) {
      y += kRowsLine;
      const auto& pairs = rows_.pairs[static_cast<std::size_t>(rank)];
      canvas_.rectangle(rank_style(rank), left, y - 11.0, 13.0, 13.0);
      canvas_.text("", left + 18.0, y, fmt::format("{}", rank));
      for (int step = 0; step < ranks; ++step) {
        cell(step, "label", format_count(pairs[static_cast<std::size_t>(step)]));
      }
      sums.push_back(std::accumulate(pairs.begin(), pairs.end(), std::int64_t{0}));
      cell(ranks, "label", format_count(sums.back()));
    }
    const auto mean =
        static_cast<double>(std::accumulate(sums.begin(), sums.end(), std::int64_t{0})) /
        static_cast<double>(ranks);
    y += 2.0 * kRowsLine;
    canvas_.text("", left, y,
                 fmt::format("The busiest rank has {:.3f} times the mean;",
                             static_cast<double>(std::ranges::max(sums)) / mean));
    y += kRowsLine;
    canvas_.text("", left, y,
                 fmt::format("a ring that waits in every step takes {:.3f} times it.",
                             static_cast<double>(in_step) / mean));
  }

  static std::string rules() {
    std::string rules = fmt::format(
        ".ground{{fill:none;stroke:{};stroke-width:0.8}}\n"
        ".border{{stroke:{};stroke-width:1.2;stroke-dasharray:4 2}}\n"
        ".whole{{fill:{};stroke:#ffffff;stroke-width:0.7}}\n"
        ".part{{fill:{};stroke:#ffffff;stroke-width:0.7}}\n",
        kRule, kGrey.dark, kBlue.strong, kBlue.light);
    for (std::size_t i = 0; i < kRankColours.size(); ++i) {
      rules += fmt::format(".r{}{{fill:{};stroke:#ffffff;stroke-width:0.5}}\n", i, kRankColours[i]);
    }
    return rules;
  }

  std::string description() const {
    std::string words;
    for (int rank = 0; rank < sample_.cut.ranks(); ++rank) {
      words += fmt::format("Rank {} holds rows", rank);
      for (const RowChunk& chunk : rows_.chunks) {
        if (chunk.rank != rank) continue;
        words += fmt::format(" {}-{}", chunk.first, chunk.first + chunk.count - 1);
      }
      words += ". ";
    }
    return words + fmt::format("{} blocks of queries and keys are seen.", rows_.blocks.size());
  }

  const ContextRows& rows_;
  const ContextSample& sample_;
  double scale_;  // pixels of a row
  Canvas canvas_;
  double left_ = 0.0;
  double width_ = 0.0;
  double y_ = kRowsMargin;
};

}  // namespace

std::string to_svg(const ContextRows& rows, const ContextSample& sample) {
  return ContextRowsDrawing(rows, sample).document();
}

}  // namespace phalanx
