#include "phalanx/report/html.h"

#include <fmt/format.h>

#include <cmath>

#include "phalanx/drawing/canvas.h"
#include "phalanx/drawing/markup.h"

namespace phalanx {

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 1) return fmt::format("{:.3g} s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  const std::int64_t minutes = whole / 60;
  if (minutes < 24 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  return fmt::format("{} d {} h", minutes / (24 * 60), minutes / 60 % 24);
}

std::string readable_time(std::string_view iso) {
  if (iso.size() < 19 || iso[10] != 'T') return std::string(iso);
  return fmt::format("{} {}", iso.substr(0, 10), iso.substr(11, 8));
}

std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string heading(std::string_view text) {
  return fmt::format("<h2>{}</h2>\n", escape_markup(text));
}

std::string missing_text(std::string_view text) {
  return fmt::format("<p class=\"missing\">{}</p>\n", escape_markup(text));
}

std::string facts_list(const NamedTexts& facts) {
  std::string rows;
  for (const auto& [name, value] : facts) {
    if (value.empty()) continue;
    rows += fmt::format("<dt>{}</dt><dd>{}</dd>", escape_markup(name), escape_markup(value));
  }
  return rows.empty() ? rows : fmt::format("<dl>{}</dl>\n", rows);
}

std::string to_html(const PageTable& table) {
  std::vector<std::string> styles;
  std::string html =
      fmt::format("<div class=\"scroll\"><table class=\"{}\"><thead><tr>", table.style);
  for (const std::string& text : table.headings) {
    const bool is_text = styles.empty() || text.starts_with(':');
    styles.emplace_back(is_text ? "" : " class=\"n\"");
    html += fmt::format("<th{}>{}</th>", styles.back(),
                        escape_markup(text.starts_with(':') ? text.substr(1) : text));
  }
  html += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      html += fmt::format("<td{}>{}</td>", i < styles.size() ? styles[i] : std::string(),
                          escape_markup(row[i]));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string stacked_bar(const std::vector<BarPart>& parts) {
  Canvas bar(3);
  std::string words;
  double left = 0;
  for (const BarPart& part : parts) {
    if (!(part.share > 0)) continue;
    words += escape_markup(part.name) + " " + percent_text(part.share) + "; ";
    bar.rectangle(fmt::format("b{}", part.colour), 100 * left, 0, 100 * part.share, 1,
                  part.name + ": " + percent_text(part.share));
    left += part.share;
  }
  return bar.element(fmt::format(
      R"(class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" role="img" aria-label="{}")",
      words));
}

std::string bar_legend(const std::vector<BarPart>& parts) {
  std::string html = "<ul class=\"legend\">";
  for (const BarPart& part : parts) {
    Canvas swatch;
    swatch.rectangle(fmt::format("b{}", part.colour), 0, 0, 12, 12);
    html +=
        fmt::format("<li>{}{}</li>", swatch.element("class=\"swatch\""), escape_markup(part.name));
  }
  return html + "</ul>\n";
}

}  // namespace phalanx
