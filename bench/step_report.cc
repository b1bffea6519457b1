#include "step_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "phalanx/base/numeric.h"

namespace phalanx::bench {
namespace {

// Operations below this share of the step are listed together.
constexpr double kSmallShare = 0.001;

template <typename Select>
OpTotal total(const StepReport& report, const Select& select) {
  OpTotal sum;
  for (const ProfileRow& row : report.profile) {
    if (!select(std::string_view(row.op))) continue;
    sum.seconds += row.seconds;
    sum.flops += row.calls * row.flops;
  }
  return sum;
}

bool is_linear(std::string_view op) { return op.starts_with("linear_"); }
bool is_attention(std::string_view op) {
  return op.find("attention_") != op.npos && op != "attention_delta";
}

double percent(double part, double whole) { return whole > 0.0 ? 100.0 * part / whole : 0.0; }

std::string products_line(const StepReport& r, std::string_view name, const OpTotal& sum) {
  return fmt::format("  {:<12} {:>9.1f} ms  {:>5.1f} % of the step, {:.0f} GFLOP/s, {:.1f} %\n",
                     name, sum.seconds * 1e3, percent(sum.seconds, r.mean_seconds),
                     sum.seconds > 0.0 ? sum.flops / sum.seconds / 1e9 : 0.0,
                     percent(sum.flops, sum.seconds * r.peak()));
}

std::string time_line(const StepReport& r, std::string_view name, double seconds) {
  return fmt::format("  {:<12} {:>9.1f} ms  {:>5.1f} %\n", name, seconds * 1e3,
                     percent(seconds, r.mean_seconds));
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepSetting, model, dtype, attention, matmul_precision, threads,
                                   steps, micro_batch, global_batch, sequence, lora_rank)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProfileRow, op, calls, flops, bytes, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepReport, setting, products, target, steps, unclean,
                                   tokens_per_second, slowest, fastest, step_seconds,
                                   flops_per_token, peak_before, peak_after, instruction_peak,
                                   witness, bandwidth, busy, waiting, loss, plan_bytes,
                                   library_bound, resident_bytes, mean_seconds, profile)

double StepReport::peak() const { return std::max(peak_before, peak_after); }

double StepReport::flops_per_second() const { return tokens_per_second * flops_per_token; }

OpTotal linear_total(const StepReport& report) { return total(report, is_linear); }

OpTotal attention_total(const StepReport& report) { return total(report, is_attention); }

OpTotal all_total(const StepReport& report) {
  return total(report, [](std::string_view) { return true; });
}

std::string to_text(const StepReport& r) {
  const StepSetting& s = r.setting;
  const OpTotal linear = linear_total(r);
  const OpTotal attention = attention_total(r);
  const double ops = all_total(r).seconds;
  std::string text = fmt::format(
      "{} {}: {} x {} tokens in microbatches of {}, {} threads, {} attention, "
      "{} products, target {}\n",
      s.model, s.dtype, s.global_batch, s.sequence, s.micro_batch, s.threads, s.attention,
      r.products, r.target);
  text += fmt::format("  {:<12} {:>9.1f}     median of {} clean steps of {}; {:.1f} to {:.1f}\n",
                      "tokens/s", r.tokens_per_second, r.steps - r.unclean, r.steps, r.slowest,
                      r.fastest);
  text += fmt::format(
      "  {:<12} {:>9.1f}     {:.1f} % of what products can reach, {:.1f} ({:.1f} before, {:.1f} "
      "after; "
      "{:.1f} of the instruction alone)\n",
      "GFLOP/s", r.flops_per_second() / 1e9, 100.0 * r.share_of_peak(), r.peak() / 1e9,
      r.peak_before / 1e9, r.peak_after / 1e9, r.instruction_peak / 1e9);
  text += fmt::format("  {:<12} {:>9.1f} ms  {:.3f} GFLOP a token by the model's convention\n",
                      "step", r.step_seconds * 1e3, r.flops_per_token / 1e9);
  text += products_line(r, "linear", linear);
  text += products_line(r, "attention", attention);
  text += time_line(r, "other ops", ops - linear.seconds - attention.seconds);
  text += time_line(r, "outside ops", r.mean_seconds - ops);
  text += fmt::format("  {:<12} {:>9.1f} %   of {} threads; ready but without a core {:.1f} %\n",
                      "busy", 100.0 * r.busy, s.threads, 100.0 * r.waiting);
  text += fmt::format("  {:<12} {:>9.1f}     instructions per cycle of additions, at least\n",
                      "witness", r.witness);
  text += fmt::format("  {:<12} {:>12}  at most; planned {}, libraries at most {}\n", "resident",
                      format_bytes(r.resident_bytes), format_bytes(r.plan_bytes),
                      format_bytes(r.library_bound));
  text += fmt::format("  {:<12} {:>9.4f}     after {} steps\n", "loss", r.loss, r.steps);
  return text;
}

std::string profile_text(const StepReport& r) {
  std::string text =
      fmt::format("  {:<28} {:>6} {:>9} {:>9} {:>9} {:>6} {:>8} {:>6} {:>7} {:>6}\n", "op", "calls",
                  "GFLOP", "MB", "ms", "share", "GFLOP/s", "peak", "GB/s", "limit");
  ProfileRow rest{.op = "smaller ones"};
  for (const ProfileRow& row : r.profile) {
    if (row.seconds < kSmallShare * r.mean_seconds) {
      rest.calls += row.calls;
      rest.seconds += row.seconds;
      continue;
    }
    const double bytes = row.calls * row.bytes / row.seconds;
    std::string products = fmt::format("{:>8} {:>6}", "", "");
    if (row.flops > 0.0) {
      const double flops = row.calls * row.flops / row.seconds;
      products = fmt::format("{:>8.1f} {:>5.0f}%", flops / 1e9, percent(flops, r.peak()));
    }
    text += fmt::format(
        "  {:<28} {:>6.0f} {:>9.3f} {:>9.2f} {:>9.2f} {:>5.1f}% {} {:>7.1f} {:>5.0f}%\n", row.op,
        row.calls, row.flops / 1e9, row.bytes / 1e6, row.seconds * 1e3,
        percent(row.seconds, r.mean_seconds), products, bytes / 1e9, percent(bytes, r.bandwidth));
  }
  text += fmt::format("  {:<28} {:>6.0f} {:>9} {:>9} {:>9.2f} {:>5.1f}%\n", rest.op, rest.calls, "",
                      "", rest.seconds * 1e3, percent(rest.seconds, r.mean_seconds));
  text += fmt::format(
      "  GFLOP and MB of one call, ms of all calls of a step; peak {:.1f} GFLOP/s, limit {:.1f} "
      "GB/s of memory\n  (an op whose operands are still in a cache can be above it)\n",
      r.peak() / 1e9, r.bandwidth / 1e9);
  return text;
}

std::string markdown_header() {
  return "| model | storage | products | tokens/s: median (slowest-fastest) | clean steps "
         "| GFLOP/s | peak | share | linear: of the step, of peak | attention: of the step, of "
         "peak "
         "| witness | resident | plan + libraries at most |\n"
         "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
}

std::string markdown_row(const StepReport& r) {
  const auto products = [&r](const OpTotal& sum) {
    return fmt::format("{:.0f} %, {:.0f} %", percent(sum.seconds, r.mean_seconds),
                       percent(sum.flops, sum.seconds * r.peak()));
  };
  const StepSetting& s = r.setting;
  std::string row =
      fmt::format("| {}, {} x {} | {} | {} | **{:.0f}** ({:.0f}-{:.0f}) | {} of {} ", s.model,
                  s.global_batch, s.sequence, s.dtype, r.products, r.tokens_per_second, r.slowest,
                  r.fastest, r.steps - r.unclean, r.steps);
  row += fmt::format("| {:.0f} | {:.0f} | **{:.1f} %** | {} | {} ", r.flops_per_second() / 1e9,
                     r.peak() / 1e9, 100.0 * r.share_of_peak(), products(linear_total(r)),
                     products(attention_total(r)));
  row += fmt::format("| {:.1f} | {} | {} + {} |\n", r.witness, format_bytes(r.resident_bytes),
                     format_bytes(r.plan_bytes), format_bytes(r.library_bound));
  return row;
}

std::string to_json(const StepReport& report) {
  nlohmann::json json = report;
  json["share_of_peak"] = report.share_of_peak();
  return json.dump() + "\n";
}

StepReport report_from_json(const std::string& text) {
  return nlohmann::json::parse(text).get<StepReport>();
}

}  // namespace phalanx::bench
