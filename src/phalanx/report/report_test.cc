#include "phalanx/report/report.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "phalanx/base/error.h"
#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"
#include "phalanx/metrics/metrics_file.h"
#include "phalanx/report/html.h"
#include "phalanx/report/run.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class ReportTest : public testing::Test {
 protected:
  fs::path directory(const std::string& name) const {
    fs::create_directories(root_ / name);
    return root_ / name;
  }
  static void write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::app) << text;
  }
  // Writes iterations 1 to `last` with a falling loss.
  static void write_metrics(const fs::path& directory, int last, double loss = 8) {
    std::string text;
    for (int i = 1; i <= last; ++i) {
      text += fmt::format(
          "{{\"iteration\": {}, \"consumed_samples\": {}, \"lm_loss\": {}, \"learning_rate\": "
          "0.001, \"grad_norm\": 1.5, \"loss_scale\": {}, \"skipped\": {}, \"elapsed_s\": 0.25, "
          "\"tokens_per_second\": 1000, \"model_flops_per_second\": 2e9, \"rss_bytes\": "
          "1048576}}\n",
          i, 4 * i, loss / i, i < 3 ? 64 >> i : 16, i < 3 ? "true" : "false");
    }
    text += fmt::format("{{\"iteration\": {}, \"eval\": \"valid\", \"lm_loss\": 3.25}}\n", last);
    write(directory / kMetricsName, text);
  }
  // The "begin" of a start of run "r" at iteration `from`.
  static RunBegin begin_at(std::int64_t from, int start) {
    RunBegin begin;
    begin.iteration = from;
    begin.last_iteration = 40;
    begin.peak_flops = 4e9;
    begin.arguments = {{"--lr", "0.001"}, {"--seed", "1"}};
    begin.facts = fmt::format(
        R"({{"run": "r", "start": {}, "restarts": {}, "version": "0.1", "machine": {{"host": "h7"}},
            "layout": {{"world_size": 2}}, "memory": [{{"ranks": "0-1", "bytes": {{"parameters":
            1048576, "saved": 3145728, "total": 4194304, "library_bound": 17}}}}]}})",
        start, start - 1);
    return begin;
  }
  static void write_event(const fs::path& directory, const std::string& line) {
    write(directory / kEventsName, line + "\n");
  }
  // The lines of a run with every kind of event: two starts, the first of which is killed.
  fs::path eventful_run(const std::string& name) const {
    fs::path run = directory(name);
    write_metrics(run, 40);
    write_event(run, begin_line(begin_at(0, 1), at(0)));
    write_event(run, note_line({RunNote::Kind::kSaved, 10, "  successfully saved"}, at(10)));
    write_event(run, note_line({RunNote::Kind::kSaveFailed, 20, "the disk is full"}, at(20)));
    write_event(run, begin_line(begin_at(10, 2), at(60)));
    write_event(run, note_line({RunNote::Kind::kBatchSize, 30, "global batch size is 8"}, at(65)));
    write_event(run, note_line({RunNote::Kind::kSignal, 40, "SIGTERM"}, at(70)));
    write_event(run, end_line({RunEnding::Outcome::kPreempted, 40, "",
                               R"({"timeline": {"measured": [], "passes": [{"forward": 100,
                                   "backward": 50, "weight": 25, "span": 200}]}})"},
                              at(70)));
    return run;
  }
  static EventTime at(int seconds) {
    return EventTime(std::chrono::seconds(1'769'860'800 + seconds));
  }
  static std::string page_of(const std::vector<fs::path>& directories) {
    return report_of(directories, {nullptr, at(100)});
  }

  const TemporaryDirectory temporary_{"report"};
  const fs::path root_ = temporary_.path();
};

// A step of 200 and 100 MiB: predicted times beside measured ones.
TEST_F(ReportTest, ARunWithFilesShowsWhatTheDiskTook) {
  const fs::path run = directory("run");
  std::string text;
  for (int i = 1; i <= 3; ++i) {
    text += fmt::format(
        "{{\"iteration\": {}, \"lm_loss\": 1, \"elapsed_s\": 5, \"waited_for_messages_s\": 0, "
        "\"waited_for_files_s\": {}, \"saving_s\": 0}}\n",
        i, i);
  }
  write(run / kMetricsName, text);
  RunBegin begin = begin_at(0, 1);
  begin.facts = R"({"run": "r", "disk": {"read_bytes": 209715200, "write_bytes": 104857600,
                    "arithmetic_seconds": 3, "seconds": 4}})";
  write_event(run, begin_line(begin, at(0)));
  write_event(run, end_line({RunEnding::Outcome::kFinished, 3, "", ""}, at(20)));
  const std::string page = page_of({run});
  for (const char* part : {"the disk: 200 MiB read, 100 MiB written", "waiting for files", "4.0 s",
                           "3.0 s", "5.0 s", "2.0 s", "Waiting for files"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page_of({eventful_run("other")}), Not(HasSubstr("aiting for files")));
}

TEST_F(ReportTest, ARunWithAPredictionShowsWhereItWasOff) {
  const fs::path run = directory("run");
  RunBegin begin = begin_at(0, 1);
  begin.facts =
      R"({"run": "r", "prediction": {"machine": "<h100>", "seconds": 0.2, "low": 0.1, "high": 0.3}})";
  write_event(run, begin_line(begin, at(0)));
  write_metrics(run, 5);
  // While it goes on.
  for (const char* part : {"A step, predicted and measured",
                           "Predicted: 0.2 s (0.1 s to 0.3 s) on &lt;h100&gt;; measured: 0.25 s "
                           "(median, +25.0 %)."}) {
    EXPECT_THAT(page_of({run}), HasSubstr(part));
  }
  write_event(run, end_line({.iteration = 5,
                             .error = {},
                             .facts = R"({"prediction": {"seconds": 0.2, "low": 0.2, "high": 0.2,
                                 "measured": 0.5, "parts": {
                                   "products": {"predicted": 0.15, "measured": 0.16},
                                   "tp": {"predicted": 0.05, "measured": 0.34}}}})"},
                            at(5)));
  const std::string page = page_of({run});
  for (const char* part :
       {"Predicted: 0.2 s on &lt;h100&gt;; measured: 0.5 s (median, +150.0 %).",
        "Farthest off: tp, 0.34 s where 0.05 s were predicted.", "+0.29 s", "+0.01 s"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST_F(ReportTest, ARunWithExpertsShowsHowBusyTheyAre) {
  const fs::path run = directory("run");
  std::string text;
  for (int i = 1; i <= 3; ++i) {
    text += fmt::format(
        "{{\"iteration\": {}, \"lm_loss\": 1, \"expert_load\": {}, \"expert_load_mean\": 1.25, "
        "\"expert_dropped\": {}}}\n",
        i, 1 + 1.0 / i, 0.1 * i);
  }
  write(run / kMetricsName, text);
  const std::string page = page_of({run});
  for (const char* part : {"Load of experts", "busiest expert over mean, worst layer",
                           "Load of experts, mean of layers", "Dropped by experts"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page_of({eventful_run("other")}), Not(HasSubstr("experts")));
}

TEST_F(ReportTest, APageTellsAllOfARun) {
  const std::string page = page_of({eventful_run("run")});
  for (const char* text : {"<h1>run</h1>",
                           "stopped by a signal, its state saved",
                           "lm loss",
                           "validation 3.25",
                           "Learning rate",
                           "Gradient norm",
                           "Throughput",
                           "50.0 %",
                           "Loss scale",
                           "Where the time went",
                           "70.0 % in passes",
                           "Memory plan",
                           "rank 0-1",
                           "4.00 MiB",
                           "save failed",
                           "the disk is full",
                           "the start before left no last word",
                           "start 2 of the run, from iteration 10 to 40",
                           "attempt 2 of the job",
                           "2 iterations were skipped",
                           "global batch size is 8",
                           "2026-01-31 12:01:10",
                           "h7",
                           "--lr",
                           ">resumed</text>"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  // The page loads nothing.
  EXPECT_THAT(page, Not(HasSubstr("http:")));
  EXPECT_THAT(page, Not(HasSubstr(" src=")));
  EXPECT_THAT(page, Not(HasSubstr(" href=")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
}

// Older versions write the log's lines into events.jsonl.
TEST_F(ReportTest, AnEventIsASentenceNotTheLogsLines) {
  const fs::path run = eventful_run("run");
  for (const char* times : {"(min, max) time across ranks (ms):\n    save-checkpoint ....: (5, 6)",
                            "times across ranks (ms):\n  save-checkpoint:\n     rank  0: 5.00"}) {
    write_event(run, note_line({RunNote::Kind::kSaved, 40,
                                std::string("  successfully saved checkpoint at iteration      40 "
                                            "to x\n") +
                                    times},
                               at(71)));
  }
  write_event(run, note_line({RunNote::Kind::kWarning, 40, "one\n  two"}, at(72)));
  const std::string page = page_of({run});
  EXPECT_THAT(page, HasSubstr("<td>successfully saved checkpoint at iteration 40 to x</td>"));
  EXPECT_THAT(page, Not(HasSubstr("across ranks")));
  EXPECT_THAT(page, Not(HasSubstr("save-checkpoint")));
  EXPECT_THAT(page, HasSubstr("<td>one\ntwo</td>"));  // two lines on the page, too
  EXPECT_THAT(page, HasSubstr(".events td:last-child{white-space:pre-line}"));
}

// The value is at the end of the curve, in charts of both widths, and at the top of the page.
TEST_F(ReportTest, TheSmoothedLossIsTheSameAtEveryWidth) {
  const fs::path run = directory("run");
  std::string text;
  for (int i = 1; i <= 1500; ++i) {
    text += fmt::format("{{\"iteration\": {}, \"lm_loss\": {}}}\n", i,
                        8.0 * std::exp(-i / 700.0) + 0.5 * std::sin(i * i * 0.37));
  }
  write(run / kMetricsName, text);
  const std::string page = page_of({run});
  const std::regex name(">smoothed ([0-9.]+)</text>");
  const std::vector<std::string> found(
      std::sregex_token_iterator(page.begin(), page.end(), name, 1), std::sregex_token_iterator());
  ASSERT_EQ(found.size(), 4U);  // wide and narrow, linear and logarithmic
  EXPECT_THAT(found, testing::Each(found.front()));
  EXPECT_THAT(page, HasSubstr("<b>" + found.front() + "</b><span>training loss, smoothed</span>"));
}

TEST_F(ReportTest, BothEvaluationsOfTheLastIterationAreShown) {
  const fs::path run = directory("run");
  write_metrics(run, 40);  // 3.25
  write(run / kMetricsName,
        "{\"iteration\": 40, \"eval\": \"valid\", \"lm_loss\": 3.125, \"ppl\": 22.76}\n"
        "{\"iteration\": 40, \"eval\": \"test\", \"lm_loss\": 3.5, \"f1\": 0.75}\n");
  const std::string page = page_of({run});
  for (const char* part :
       {"<b>3.25</b><span>validation loss</span>",
        "<b>3.125</b><span>validation loss, at the end</span>", "<b>3.5</b><span>test loss</span>",
        "<td>40</td><td>valid</td><td class=\"n\">3.25</td>",
        "<td>40</td><td>valid</td><td class=\"n\">3.125</td>",
        "<td>40</td><td>test</td><td class=\"n\">3.5</td>", ">F1</th>", "0.75", "22.76"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

// A rectangle of a class without a rule is black.
TEST_F(ReportTest, EveryColourOfThePageHasARule) {
  const fs::path run = directory("run");
  write_metrics(run, 40);
  RunBegin begin = begin_at(0, 1);
  begin.facts =
      R"({"run": "r", "memory": [{"ranks": "0", "bytes": {"parameters": 1, "main_parameters": 1,
          "gradients": 1, "optimizer": 1, "saved": 1, "workspace": 1, "communication": 1,
          "constants": 1, "staging": 1, "total": 9}}]})";
  write_event(run, begin_line(begin, at(0)));
  write_event(run, end_line({RunEnding::Outcome::kFinished, 40, "",
                             R"({"timeline": {"passes": [{"forward": 1, "backward": 1}]}})"},
                            at(20)));
  const std::string page = page_of({run});
  const std::regex used("<rect class=\"(b[0-9]+)\"");
  std::set<std::string> styles(std::sregex_token_iterator(page.begin(), page.end(), used, 1),
                               std::sregex_token_iterator());
  EXPECT_EQ(styles.size(), 9U);
  for (const std::string& style : styles) {
    EXPECT_THAT(page, HasSubstr(fmt::format(".{0}{{fill:var(--{0})}}", style)));
    EXPECT_THAT(page, HasSubstr(fmt::format("--{}:#", style)));
  }
}

// Classes without bytes are left out, so that the table fits in a window.
TEST_F(ReportTest, TheMemoryPlanShowsWhatThereIs) {
  const std::string page = page_of({eventful_run("run")});
  EXPECT_THAT(page, HasSubstr("<th></th><th class=\"n\">rank 0-1</th>"));
  EXPECT_THAT(page, HasSubstr("<td>parameters</td><td class=\"n\">1.00 MiB</td>"));
  EXPECT_THAT(page, HasSubstr("<td>beside it, libraries: at most</td><td class=\"n\">17 B</td>"));
  EXPECT_THAT(page, Not(HasSubstr("staging of files")));
  EXPECT_THAT(page, Not(HasSubstr("constants")));
}

TEST_F(ReportTest, TheSameFilesGiveTheSamePage) {
  const fs::path run = eventful_run("run");
  EXPECT_EQ(page_of({run}), page_of({run}));
}

TEST_F(ReportTest, ARunIsCalledByItsDirectory) {
  for (const auto& [path, name] :
       {std::pair("run", "run"), std::pair("mine/checkpoint", "mine/checkpoint")}) {
    write_metrics(directory(path), 2);
    EXPECT_THAT(page_of({root_ / path}), HasSubstr(fmt::format("<h1>{}</h1>", name)));
  }
}

TEST_F(ReportTest, WhatIsMissingIsSaid) {
  const fs::path old = directory("old");
  write_metrics(old, 5);
  const std::string page = page_of({old});
  EXPECT_THAT(page, HasSubstr("There is no events.jsonl"));
  EXPECT_THAT(page, HasSubstr("lm loss"));
  EXPECT_THAT(page, Not(HasSubstr("Memory plan")));

  const fs::path begun = directory("begun");
  write_event(begun, begin_line(begin_at(0, 1), at(0)));
  write(begun / kEventsName, "torn {");
  const std::string early = page_of({begun});
  EXPECT_THAT(early, HasSubstr("there is no metrics.jsonl"));
  EXPECT_THAT(early, HasSubstr("it is running, or left no last word"));
  EXPECT_THAT(early, Not(HasSubstr("left out")));

  const fs::path odd = directory("odd");
  write(odd / kMetricsName, "foreign\n{\"iteration\": 1, \"lm_loss\": 2}\n{\"iteration\": 2, \"lm");
  write(odd / kEventsName, "foreign\n[]\n{\"event\": 3}\n{\"event\": \"save\"}\n");
  const std::string page_of_odd = page_of({odd});
  EXPECT_THAT(page_of_odd, HasSubstr("1 line of metrics.jsonl left out"));
  EXPECT_THAT(page_of_odd, HasSubstr("3 lines of events.jsonl left out"));
}

// A directory may have the events of several runs.
TEST_F(ReportTest, OnlyTheLastRunOfADirectoryCounts) {
  const fs::path run = eventful_run("run");
  RunBegin other = begin_at(0, 1);
  other.facts = R"({"run": "s"})";
  write_event(run, begin_line(other, at(80)));
  const std::string page = page_of({run});
  EXPECT_THAT(page, Not(HasSubstr("the disk is full")));
  EXPECT_EQ(read_run(run).starts.size(), 1U);
}

TEST_F(ReportTest, NothingThatIsReadIsMarkup) {
  const std::string bad = "<script>alert(1)</script>\"'><img src=x>";
  const fs::path run = directory("a<b>&\"c\"");
  write(run / kMetricsName, R"({"iteration": 1, "<script>alert(2)</script>loss": 2})"
                            "\n"
                            R"({"iteration": 2, "<script>alert(2)</script>loss": 1})"
                            "\n");
  RunBegin begin = begin_at(0, 1);
  begin.arguments = {{bad, bad}};
  const nlohmann::json facts = {{"version", bad},
                                {"machine", {{"host", bad}, {"processor", bad}}},
                                {"memory", {{{"ranks", bad}, {"bytes", {{"total", 5}}}}}},
                                {"data", {{"files", {{{"flag", bad}, {"path", bad}}}}}},
                                {"layout", {{"schedule", bad}}}};
  begin.facts = facts.dump();
  write_event(run, begin_line(begin, at(0)));
  write_event(run, note_line({RunNote::Kind::kWarning, 1, bad}, at(1)));
  write_event(run, end_line({RunEnding::Outcome::kFailed, 1, bad, ""}, at(2)));
  const fs::path plain = directory("plain");
  write_metrics(plain, 3);
  for (const std::string& page : {page_of({run}), page_of({run, plain})}) {
    EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
    EXPECT_THAT(page, Not(HasSubstr("<img")));
    EXPECT_THAT(page, HasSubstr("a&lt;b&gt;&amp;&quot;c&quot;"));
  }
}

TEST_F(ReportTest, FactsOfOtherTypesAreNoFacts) {
  const fs::path run = directory("run");
  write_metrics(run, 3);
  write_event(run,
              R"({"event": "begin", "time": 5, "iteration": "x", "text": [1], "arguments": [1, 2],
                  "memory": {"a": 1}, "data": {"files": "no"}, "machine": 7, "peak_flops": "no"})");
  // One line each.
  std::string text = read_file(run / kEventsName);
  std::erase(text, '\n');
  fs::remove(run / kEventsName);
  write_event(run, text);
  write_event(run, R"({"event": "end", "outcome": 3, "timeline": {"passes": [1, "x", {}]}})");
  EXPECT_THAT(page_of({run}), HasSubstr("<h1>run</h1>"));
}

TEST_F(ReportTest, SeveralRunsAreCompared) {
  const fs::path first = eventful_run("a/run");
  const fs::path second = directory("b/run");
  write_metrics(second, 20, 4);
  RunBegin begin = begin_at(0, 1);
  begin.arguments = {{"--lr", "0.002"}, {"--seed", "1"}, {"--new", "yes"}};
  write_event(second, begin_line(begin, at(0)));
  const std::string page = page_of({first, second});
  EXPECT_THAT(page, HasSubstr("<h1>2 runs compared</h1>"));
  EXPECT_THAT(page, HasSubstr(">a/run</text>"));
  EXPECT_THAT(page, HasSubstr(">b/run</text>"));
  EXPECT_THAT(page, HasSubstr("<td>--lr</td><td>0.001</td><td>0.002</td>"));
  EXPECT_THAT(page, HasSubstr("<td>--new</td><td></td><td>yes</td>"));
  EXPECT_THAT(page, Not(HasSubstr("--seed")));
}

TEST_F(ReportTest, FaultsOfACallAreTold) {
  const fs::path run = eventful_run("run");
  const fs::path empty = directory("empty");
  const auto expect = [](const std::vector<fs::path>& directories, ErrorCode code,
                         const std::string& mention) {
    try {
      page_of(directories);
      ADD_FAILURE() << mention;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_THAT(error.what(), HasSubstr(mention));
    }
  };
  expect({root_ / "none"}, ErrorCode::kInputMissing, "no such directory");
  expect({run / kMetricsName}, ErrorCode::kInputMissing, "not a directory");
  expect({empty}, ErrorCode::kInputMissing, "there is no metrics.jsonl in it");
  expect({run, root_ / "empty" / ".." / "run"}, ErrorCode::kUsage, "the same directory");
  const fs::path unreadable = directory("unreadable");
  fs::create_directories(unreadable / kMetricsName);
  expect({unreadable}, ErrorCode::kInputMissing, "not a regular file");
}

TEST_F(ReportTest, ALongRunIsAShortPage) {
  const fs::path run = directory("run");
  write_metrics(run, 60'000);
  for (int i = 0; i < 6000; ++i) {
    write_event(run, i == 0 ? begin_line(begin_at(0, 1), at(0))
                            : note_line({RunNote::Kind::kSaved, 10 * i, "saved"}, at(i)));
  }
  const std::string page = page_of({run});
  EXPECT_LT(page.size(), 1'000'000U);
  EXPECT_THAT(page, HasSubstr("events in the middle are left out"));
}

TEST_F(ReportTest, ASinkWritesThePageAtTheEnd) {
  const fs::path run = eventful_run("run");
  std::string drawn;
  ReportSink sink(run, [&](const std::string& timelines) {
    drawn = timelines;
    return std::string("<svg>picture</svg>");
  });
  sink.begin({});
  EXPECT_FALSE(fs::exists(run / kReportName));
  sink.end({});
  EXPECT_THAT(read_file(run / kReportName), HasSubstr("<svg>picture</svg>"));
  EXPECT_THAT(drawn, HasSubstr("measured"));
}

TEST_F(ReportTest, ATimelineThatCannotBeDrawnIsSaid) {
  const fs::path run = eventful_run("run");
  const std::string page = report_of(
      {run}, {[](const std::string&) -> std::string { throw DataError("odd <ranks>"); }, at(0)});
  EXPECT_THAT(page, HasSubstr("cannot be drawn: odd &lt;ranks&gt;"));
}

TEST(ReportText, DurationsHaveTwoUnits) {
  EXPECT_EQ(duration_text(0.0123), "0.0123 s");
  EXPECT_EQ(duration_text(45.21), "45.2 s");
  EXPECT_EQ(duration_text(59.99), "1 min 0 s");
  EXPECT_EQ(duration_text(725), "12 min 5 s");
  EXPECT_EQ(duration_text(3 * 3600 + 12 * 60 + 59), "3 h 12 min");
  EXPECT_EQ(duration_text(52 * 3600.0), "2 d 4 h");
  EXPECT_EQ(duration_text(-1), "-");
}

// A save is a bar over the iterations that went on meanwhile.
TEST_F(ReportTest, SavesAreBars) {
  const fs::path run = eventful_run("saves");
  EXPECT_THAT(page_of({run}), Not(HasSubstr("over the iterations that went on meanwhile")));
  write_event(run, note_line({RunNote::Kind::kSaved, 20, "saved", "",
                              R"({"until": 26, "seconds": 4, "bytes": 8000000000})"},
                             at(80)));
  const ReportRun read = read_run(run);
  EXPECT_EQ(read.events.back().until, 26);
  EXPECT_EQ(read.events.back().bytes, 8e9);
  EXPECT_THAT(page_of({run}), HasSubstr("over the iterations that went on meanwhile"));
}

}  // namespace
}  // namespace phalanx
