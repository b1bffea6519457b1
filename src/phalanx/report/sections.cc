#include "phalanx/report/sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <set>

#include "phalanx/base/numeric.h"
#include "phalanx/drawing/markup.h"
#include "phalanx/report/html.h"
#include "phalanx/tensor/memory_rows.h"

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

std::string count_text(const std::optional<double>& value) {
  if (!value || !(std::abs(*value) < 9e15)) return {};
  return format_count(static_cast<std::int64_t>(*value));
}

std::string bytes_text(const std::optional<double>& value) {
  if (!value || !(*value >= 0 && *value < 9e18)) return {};
  return format_bytes(static_cast<std::int64_t>(*value));
}

// "save failed" for "save_failed".
std::string readable(std::string key) {
  std::ranges::replace(key, '_', ' ');
  return key;
}

// The value as in the file, without quotes.
std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string bars(const std::vector<std::string>& cells) {
  return fmt::format("<div class=\"bars\">{}</div>\n", fmt::join(cells, ""));
}

std::string bar_row(std::string_view name, const std::vector<BarPart>& parts,
                    std::string_view value) {
  return fmt::format("<span>{}</span>{}<span>{}</span>", escape_markup(name), stacked_bar(parts),
                     escape_markup(value));
}

// The parts as shares of `whole`.
std::vector<BarPart> shares(std::vector<BarPart> parts, double whole) {
  for (BarPart& part : parts) part.share = whole > 0 ? std::max(part.share, 0.0) / whole : 0;
  return parts;
}

// The time of all starts, each up to its last event.
std::string whole_run(const ReportRun& run) {
  const ReportMetrics& metrics = run.metrics;
  const double data = metrics[Metric::kWaitedForData].sum();
  const double messages = metrics[Metric::kWaitedForMessages].sum();
  const double files = metrics[Metric::kWaitedForFiles].sum();
  const double saving = metrics[Metric::kSaving].sum();
  const double steps = metrics[Metric::kSeconds].sum();
  double wall = 0;
  for (const ReportStart& start : run.starts) wall += start.last_seconds - start.begin_seconds;
  const double rest = std::max(0.0, wall - steps - saving);
  std::vector<BarPart> parts = {{"steps", steps - data - messages - files, 0},
                                {"waiting for data (first rank)", data, 3},
                                {"waiting for messages (first rank)", messages, 4},
                                {"waiting for files (first rank)", files, 2},
                                {"saving", saving, 5},
                                {"start, evaluation and other", rest, 6}};
  const double whole = steps + saving + rest;
  if (whole <= 0) return {};
  std::erase_if(parts, [](const BarPart& part) { return !(part.share > 0); });
  std::vector<std::vector<std::string>> rows;
  for (const BarPart& part : parts) {
    rows.push_back({part.name, duration_text(part.share), percent_text(part.share / whole)});
  }
  return "<h3>The whole run</h3>\n" +
         bars({bar_row("all starts", shares(parts, whole), duration_text(whole))}) +
         bar_legend(parts) + to_html({{"", "time", "share"}, rows, ""});
}

// A step of a run with states in files: predicted and measured times.
std::string disk_time(const ReportRun& run) {
  const auto fact = [&](std::string_view pointer) { return number_at(run.facts(), pointer); };
  if (!fact("/disk/read_bytes")) return {};
  const auto time = [](const std::optional<double>& seconds) {
    return seconds ? duration_text(*seconds) : std::string();
  };
  const auto median = [&](Metric metric) {
    const Series& series = run.metrics[metric];
    return series.empty() ? std::string() : duration_text(series.median());
  };
  const std::vector<std::vector<std::string>> rows = {
      {fmt::format("the disk: {} read, {} written", bytes_text(fact("/disk/read_bytes")),
                   bytes_text(fact("/disk/write_bytes"))),
       time(fact("/disk/seconds")), ""},
      {"arithmetic at the peak", time(fact("/disk/arithmetic_seconds")), ""},
      {"the step (median)", "", median(Metric::kSeconds)},
      {"of it, waiting for files (first rank, median)", "", median(Metric::kWaitedForFiles)}};
  return "<h3>States in files: a step</h3>\n" + to_html({{"", "predicted", "measured"}, rows, ""});
}

// "+0.12 s", "-3 ms".
std::string difference_text(double seconds) {
  return (seconds < 0 ? "-" : "+") + duration_text(std::abs(seconds));
}

std::string signed_percent(double share) {
  return (share < 0 ? "-" : "+") + percent_text(std::abs(share));
}

// The parts of a step that was predicted and measured: a bar of each, and what they differ by.
std::string predicted_parts(const Json& prediction, double predicted, double measured) {
  const Json& parts = part_at(prediction, "/parts");
  if (!parts.is_object() || parts.empty()) return {};
  std::vector<BarPart> before, after;
  std::vector<std::vector<std::string>> rows;
  std::string farthest;
  double most = 0;
  for (const auto& [name, part] : parts.items()) {
    const double was = std::max(0.0, number_at(part, "/predicted").value_or(0));
    const double is = std::max(0.0, number_at(part, "/measured").value_or(0));
    const int colour = static_cast<int>(before.size()) % kBarColours;
    before.push_back({name, was, colour});
    after.push_back({name, is, colour});
    rows.push_back({name, duration_text(was), duration_text(is), difference_text(is - was)});
    if (std::abs(is - was) <= most) continue;
    most = std::abs(is - was);
    farthest = fmt::format("Farthest off: {}, {} where {} were predicted.", name, duration_text(is),
                           duration_text(was));
  }
  double sum = 0;
  for (const BarPart& part : after) sum += part.share;
  const double whole = std::max({predicted, measured, sum});
  return fmt::format("<p class=\"note\">{}</p>\n", escape_markup(farthest)) +
         bars({bar_row("predicted", shares(before, whole), duration_text(predicted)),
               bar_row("measured (mean)", shares(after, whole), duration_text(sum))}) +
         bar_legend(after) + to_html({{"", "predicted", "measured", "difference"}, rows, ""});
}

// A step of a run with --cluster.
std::string prediction_time(const ReportRun& run) {
  const Json* const end = run.ending();
  const bool is_compared = end != nullptr && number_at(*end, "/prediction/seconds");
  const Json& begun = part_at(run.facts(), "/prediction");
  const Json& prediction = is_compared ? part_at(*end, "/prediction") : begun;
  const double predicted = number_at(prediction, "/seconds").value_or(0);
  if (!(predicted > 0)) return {};
  std::string text = fmt::format("Predicted: {}", duration_text(predicted));
  const double low = number_at(prediction, "/low").value_or(predicted);
  const double high = number_at(prediction, "/high").value_or(predicted);
  if (low < high) text += fmt::format(" ({} to {})", duration_text(low), duration_text(high));
  if (const std::string machine = text_at(begun, "/machine"); !machine.empty()) {
    text += fmt::format(" on {}", machine);
  }
  const Series& steps = run.metrics[Metric::kSeconds];
  double measured = number_at(prediction, "/measured").value_or(0);
  if (!(measured > 0) && !steps.empty()) measured = steps.median();
  if (measured > 0) {
    text += fmt::format("; measured: {} (median, {})", duration_text(measured),
                        signed_percent(measured / predicted - 1));
  }
  return fmt::format("<h3>A step, predicted and measured</h3>\n<p class=\"note\">{}.</p>\n",
                     escape_markup(text)) +
         predicted_parts(prediction, predicted, measured);
}

std::string last_step(const ReportRun& run) {
  const Json* const end = run.ending();
  if (end == nullptr) return {};
  const Json& passes = part_at(*end, "/timeline/passes");
  if (!passes.is_array() || passes.empty()) return {};
  const auto of = [](const Json& rank, std::string_view key) {
    return std::max(0.0, number_at(rank, key).value_or(0)) / 1e3;
  };
  double whole = run.metrics[Metric::kSeconds].empty() ? 0 : run.metrics[Metric::kSeconds].last();
  whole *= std::max(1.0, number_at(*end, "/timeline/iterations").value_or(1));
  for (const Json& rank : passes) whole = std::max(whole, of(rank, "/span"));
  std::vector<std::string> cells;
  std::vector<BarPart> parts;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const Json& rank = passes[i];
    parts = {{"forward", of(rank, "/forward"), 0},
             {"backward (input gradient, or both)", of(rank, "/backward"), 2},
             {"weight gradient", of(rank, "/weight"), 3}};
    double busy = 0;
    for (const BarPart& part : parts) busy += part.share;
    parts.push_back({"everything else: messages, waiting, reductions, optimizer", whole - busy, 7});
    cells.push_back(bar_row(fmt::format("stage {}", i), shares(parts, whole),
                            percent_text(whole > 0 ? busy / whole : 0) + " in passes"));
  }
  return fmt::format("<h3>The last step: {}</h3>\n", duration_text(whole)) + bars(cells) +
         bar_legend(parts);
}

}  // namespace

std::string evaluations_section(const ReportRun& run) {
  const auto& evaluations = run.metrics.evaluations;
  if (evaluations.empty()) return {};
  std::vector<std::string> keys;  // those of all lines
  for (const EvaluationNumbers& evaluation : evaluations) {
    for (const auto& [key, value] : evaluation.numbers) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  PageTable table{.headings = {"iteration", ":of the split"}, .rows = {}, .style = ""};
  for (const std::string& key : keys) {
    table.headings.push_back(key == key_of(Metric::kPerplexity) ? "perplexity"
                             : key == "f1"                      ? "F1"
                                                                : title_of({&run, 1}, key));
  }
  for (const EvaluationNumbers& evaluation : evaluations) {
    const std::string of = evaluation.set.empty() ? "" : ", " + evaluation.set;
    std::vector<std::string> row = {format_count(evaluation.iteration), evaluation.split + of};
    for (const std::string& key : keys) {
      const auto found = std::ranges::find(evaluation.numbers, key,
                                           [](const auto& number) { return number.first; });
      row.push_back(found == evaluation.numbers.end() ? "" : short_value(found->second, 5));
    }
    table.rows.push_back(std::move(row));
  }
  std::string html = heading("Evaluations") + to_html(table);
  if (run.metrics.evaluations_left_out > 0) {
    html += missing_text(fmt::format("{} before these are left out; the curves have them.",
                                     format_count(run.metrics.evaluations_left_out)));
  }
  return html;
}

std::string answers_section(const ReportRun& run) {
  if (run.metrics.answered.empty()) return {};
  std::string html = heading("Answers");
  for (const AnsweredPrompt& prompt : run.metrics.answered) {
    html += facts_list({{"prompt", prompt.prompt}, {"expected", prompt.expected}});
    PageTable table{.headings = {"after iteration", ":answer"}, .rows = {}, .style = ""};
    for (const auto& [iteration, answer] : prompt.answers) {
      table.rows.push_back({format_count(iteration), answer});
    }
    html += to_html(table);
    if (prompt.left_out > 0) {
      html +=
          missing_text(fmt::format("{} answers before these are left out; metrics.jsonl has "
                                   "them.",
                                   format_count(prompt.left_out)));
    }
  }
  return html;
}

std::string time_section(const ReportRun& run) {
  const std::string whole = whole_run(run);
  const std::string step = prediction_time(run) + disk_time(run) + last_step(run);
  if (whole.empty() && step.empty()) return {};
  return heading("Where the time went") + whole + step;
}

std::string timeline_section(const ReportRun& run, const DrawTimelines& draw) {
  const Json* const end = run.ending();
  const bool is_measured = end != nullptr && part_at(*end, "/timeline/measured").is_array();
  const Json& timelines =
      is_measured ? part_at(*end, "/timeline") : part_at(run.facts(), "/schedule");
  if (!timelines.is_object() || timelines.empty() || !draw) return {};
  std::string html = heading("Pipeline timeline");
  if (!is_measured) {
    html += missing_text(
        "Simulated with equal times of all passes: no measured step is recorded, which a run does "
        "at its end.");
  }
  try {
    const std::string picture = draw(timelines.dump());
    if (picture.empty()) {
      html += missing_text("The step has too many passes for a page: --trace draws them all.");
    } else {
      html += "<div class=\"timeline\">" + picture + "</div>\n";
    }
  } catch (const std::exception& error) {
    html +=
        missing_text(fmt::format("The timeline of events.jsonl cannot be drawn: {}", error.what()));
  }
  return html;
}

std::string memory_section(const ReportRun& run) {
  const Json& plans = part_at(run.facts(), "/memory");
  if (!plans.is_array() || plans.empty()) return {};
  double most = 0;
  for (const Json& plan : plans) most = std::max(most, number_at(plan, "/bytes/total").value_or(0));
  const auto bytes_of = [](const Json& plan, std::string_view key) {
    return number_at(part_at(plan, "/bytes"), fmt::format("/{}", key));
  };
  std::vector<std::string> cells;
  std::vector<BarPart> legend;  // of the classes that some rank has
  PageTable table{.headings = {""}, .rows = {}, .style = ""};
  // A row for each class, so that the table of a few ranks fits on a phone.
  const auto add_row = [&](std::string_view name, std::string_view key) {
    std::vector<std::string> row = {std::string(name)};
    double all = 0;
    for (const Json& plan : plans) {
      const auto bytes = bytes_of(plan, key);
      row.push_back(bytes_text(bytes));
      all += bytes.value_or(0);
    }
    if (all > 0) table.rows.push_back(std::move(row));
    return all;
  };
  const auto part_of = [](std::size_t row, double bytes) {
    return BarPart{std::string(kMemoryRows[row].name), bytes, static_cast<int>(row) % kBarColours};
  };
  for (std::size_t row = 0; row < kMemoryRows.size(); ++row) {
    const double all = add_row(kMemoryRows[row].name, kMemoryRows[row].key);
    if (all > 0) legend.push_back(part_of(row, all));
  }
  add_row("total", "total");
  add_row("beside it, libraries: at most", "library_bound");
  for (const Json& plan : plans) {
    const std::string ranks = text_at(plan, "/ranks");
    table.headings.push_back("rank " + ranks);
    std::vector<BarPart> parts;
    for (std::size_t row = 0; row < kMemoryRows.size(); ++row) {
      parts.push_back(part_of(row, bytes_of(plan, kMemoryRows[row].key).value_or(0)));
    }
    cells.push_back(
        bar_row("rank " + ranks, shares(parts, most), bytes_text(bytes_of(plan, "total"))));
  }
  return heading("Memory plan") +
         "<p class=\"note\">Every byte is planned before the first step; a run ends with an error "
         "where its high-water mark is another.</p>\n" +
         bars(cells) + bar_legend(legend) + to_html(table);
}

namespace {

struct PageEvent {
  std::string time;
  std::int64_t iteration = 0;
  std::string event;
  std::string text;
};

PageEvent skipped_event(const SkippedRange& range) {
  const std::int64_t count = range.last - range.first + 1;
  std::string text = count == 1
                         ? "1 iteration was skipped"
                         : fmt::format("{} iterations were skipped, to {}", count, range.last);
  if (range.loss_scale > 0) {
    text += fmt::format("; the loss scale is {} after {}", short_value(range.loss_scale, 4),
                        count == 1 ? "it" : "them");
  }
  return {"", range.first, "skipped", text};
}

// The events of events.jsonl, and the skipped iterations of metrics.jsonl between them.
std::vector<PageEvent> page_events(const ReportRun& run) {
  std::vector<PageEvent> events;
  std::size_t skip = 0;
  const auto& skips = run.metrics.skipped_ranges;
  bool is_open = false;  // a start has begun and not ended
  for (const ReportEvent& event : run.events) {
    const bool begins = event.event == "begin";
    if (begins && is_open) {
      events.push_back({"", event.iteration, "lost",
                        "the start before left no last word: it was killed, or the machine went "
                        "down; what it trained since its last checkpoint is trained again"});
    }
    is_open = event.event != "end" && (is_open || begins);
    // The iteration of a begin may be less than those before: its iterations come again.
    while (!begins && skip < skips.size() && skips[skip].first <= event.iteration) {
      events.push_back(skipped_event(skips[skip++]));
    }
    events.push_back(
        {readable_time(event.time), event.iteration, readable(event.event), event.text});
  }
  while (skip < skips.size()) events.push_back(skipped_event(skips[skip++]));
  return events;
}

}  // namespace

std::string events_section(const ReportRun& run) {
  std::string html = heading("Events");
  if (!run.has_events) {
    html += missing_text(
        "There is no events.jsonl: the run is of an older version, or of another program. What is "
        "known is what metrics.jsonl says.");
  }
  PageTable table{
      .headings = {"time (UTC)", ":event", "iteration", ":"}, .rows = {}, .style = "events"};
  for (const PageEvent& event : page_events(run)) {
    table.rows.push_back({event.time, event.event, format_count(event.iteration), event.text});
  }
  if (!table.rows.empty()) html += to_html(table);
  if (run.events_left_out > 0) {
    html += missing_text(
        fmt::format("{} events in the middle are left out.", format_count(run.events_left_out)));
  }
  if (run.has_events && table.rows.empty()) html += missing_text("Nothing is recorded.");
  return html;
}

std::string facts_section(const ReportRun& run) {
  const Json& facts = run.facts();
  if (facts.empty()) return {};
  const auto text = [&](std::string_view pointer) { return text_at(facts, pointer); };
  const auto number = [&](std::string_view pointer) { return number_at(facts, pointer); };
  const auto with = [](std::string value, std::string_view unit) {
    return value.empty() ? value : fmt::format("{} {}", value, unit);
  };
  std::string html;
  const auto add = [&](std::string_view name, const NamedTexts& named) {
    const std::string list = facts_list(named);
    if (!list.empty()) html += fmt::format("<div><h3>{}</h3>{}</div>\n", name, list);
  };
  add("Model", {{"parameters", count_text(number("/model/parameters"))},
                {"layers", count_text(number("/model/layers"))},
                {"hidden size", count_text(number("/model/hidden_size"))},
                {"attention heads", count_text(number("/model/attention_heads"))},
                {"sequence length", count_text(number("/model/sequence_length"))},
                {"vocabulary", with(count_text(number("/model/vocabulary")), "ids")},
                {"stored as", text("/model/dtype")}});
  add("Layout",
      {{"ranks", count_text(number("/layout/world_size"))},
       {"tensor parallel", count_text(number("/layout/tensor"))},
       {"pipeline parallel", count_text(number("/layout/pipeline"))},
       {"data parallel", count_text(number("/layout/data"))},
       {"context parallel", count_text(number("/layout/context"))},
       {"context exchange", text("/layout/context_exchange")},
       {"expert parallel", count_text(number("/layout/expert"))},
       {"expert tensor parallel", count_text(number("/layout/expert_tensor"))},
       {"expert data parallel", count_text(number("/layout/expert_data"))},
       {"schedule", text("/layout/schedule")},
       {"threads per rank", count_text(number("/layout/threads_per_rank"))},
       {"microbatch", with(count_text(number("/layout/micro_batch_size")), "samples")},
       {"global batch", with(count_text(number("/layout/global_batch_size")), "samples")}});
  NamedTexts data = {{"tokens", count_text(number("/data/tokens"))},
                     {"documents", count_text(number("/data/documents"))},
                     {"split", text("/data/split")},
                     {"training samples", count_text(number("/data/samples/train"))},
                     {"validation samples", count_text(number("/data/samples/valid"))},
                     {"test samples", count_text(number("/data/samples/test"))},
                     {"order", text("/data/order")},
                     {"tokenizer", text("/data/tokenizer")}};
  for (const Json& file : part_at(facts, "/data/files")) {
    data.emplace_back(text_at(file, "/flag"), fmt::format("{}, {}", text_at(file, "/path"),
                                                          bytes_text(number_at(file, "/bytes"))));
  }
  add("Data", data);
  add("Machine", {{"host", text("/machine/host")},
                  {"hosts", count_text(number("/machine/hosts"))},
                  {"processor", text("/machine/processor")},
                  {"cores", text("/machine/cores")},
                  {"memory", bytes_text(number("/machine/memory_bytes"))},
                  {"kernels for", text("/machine/target")},
                  {"matrix products", text("/machine/products")},
                  {"peak", text("/machine/peak")},
                  {"affinity", text("/machine/affinity")},
                  {"phalanx", text("/version")}});
  if (html.empty()) return html;
  return heading("What it is") + "<div class=\"columns\">\n" + html + "</div>\n";
}

std::string arguments_section(const ReportRun& run) {
  const Json& arguments = part_at(run.facts(), "/arguments");
  if (!arguments.is_object() || arguments.empty()) return {};
  std::string rows;
  for (const auto& [flag, value] : arguments.items()) {
    rows += fmt::format("<div><span>{}</span><span>{}</span></div>\n", escape_markup(flag),
                        escape_markup(plain(value)));
  }
  return heading("Arguments") + "<div class=\"arguments\">\n" + rows + "</div>\n";
}

std::string differences_section(std::span<const ReportRun> runs) {
  PageTable table{.headings = {"argument"}, .rows = {}, .style = "differences"};
  for (const ReportRun& run : runs) table.headings.push_back(":" + run.name);
  std::vector<std::string> flags;
  std::set<std::string> known;
  bool some_have_none = false;
  for (const ReportRun& run : runs) {
    const Json& arguments = part_at(run.facts(), "/arguments");
    some_have_none = some_have_none || arguments.empty();
    for (const auto& [flag, value] : arguments.items()) {
      if (known.insert(flag).second) flags.push_back(flag);
    }
  }
  const auto add = [&](const std::string& name, const auto& value_of) {
    std::vector<std::string> row = {name};
    std::set<std::string> values;
    for (const ReportRun& run : runs) {
      row.push_back(value_of(run));
      values.insert(row.back());
    }
    if (values.size() > 1) table.rows.push_back(std::move(row));
  };
  for (const std::string& flag : flags) {
    add(flag, [&](const ReportRun& run) {
      const Json& arguments = part_at(run.facts(), "/arguments");
      return arguments.contains(flag) ? plain(arguments.at(flag)) : std::string();
    });
  }
  struct Fact {
    const char* name;
    const char* pointer;
  };
  static constexpr std::array<Fact, 6> kFacts = {{{"ranks", "/layout/world_size"},
                                                  {"host", "/machine/host"},
                                                  {"processor", "/machine/processor"},
                                                  {"kernels for", "/machine/target"},
                                                  {"matrix products", "/machine/products"},
                                                  {"phalanx", "/version"}}};
  for (const Fact& fact : kFacts) {
    add(fact.name, [&](const ReportRun& run) {
      const Json& value = part_at(run.facts(), fact.pointer);
      return value.is_primitive() ? plain(value) : std::string();
    });
  }
  std::string html = heading("What differs");
  if (!table.rows.empty()) html += to_html(table);
  if (table.rows.empty() && !some_have_none) html += "<p>No argument.</p>\n";
  if (some_have_none) {
    html += missing_text(
        "Of a run without events.jsonl (an older version's, or another program's) the arguments "
        "are not known.");
  }
  return html;
}

}  // namespace phalanx
