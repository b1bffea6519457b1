#include "phalanx/metrics/appended_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"
#include "phalanx/metrics/line_file.h"
#include "phalanx/metrics/metrics_file.h"
#include "phalanx/metrics/run_events.h"
#include "phalanx/metrics/tensorboard_sink.h"
#include "phalanx/metrics/tensorboard_test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// Files of this process cannot be longer than that: as on a full disk, a write takes what fits, and
// the next one fails.
class FullDisk {
 public:
  explicit FullDisk(std::uint64_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

class AppendedFileTest : public testing::Test {
 protected:
  // Longer than what is said on standard error, which is a file, too.
  const std::string kBefore = std::string(std::size_t{1} << 16, 'x') + "\n";

  std::filesystem::path path() const { return directory_.path() / "lines"; }
  std::string after() const { return read_file(path()).substr(kBefore.size()); }
  // What is said on standard error meanwhile.
  template <typename Action>
  static std::string said(const Action& action) {
    testing::internal::CaptureStderr();
    action();
    return testing::internal::GetCapturedStderr();
  }

 private:
  const TemporaryDirectory directory_{"appended"};
};

TEST_F(AppendedFileTest, WhatCouldNotBeWrittenFollowsAndNoPartOfItStands) {
  std::ofstream(path()) << kBefore;
  LineFile file(path());
  const std::string log = said([&] {
    const FullDisk full(kBefore.size() + 3);
    file.write("first");
    EXPECT_EQ(after(), "");
    file.write("second");
    EXPECT_EQ(after(), "");
  });
  EXPECT_THAT(log, AllOf(HasSubstr("warning: "), HasSubstr("lines: cannot write: File too large")));
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
  EXPECT_THAT(said([&] { file.write("third"); }),
              HasSubstr("is written again, nothing is missing"));
  EXPECT_EQ(after(), "first\nsecond\nthird\n");
  EXPECT_THAT(said([&] { file.write("fourth"); }), IsEmpty());
}

TEST_F(AppendedFileTest, TheEndTriesOnceMore) {
  std::ofstream(path()) << kBefore;
  EXPECT_THAT(said([&] {
                LineFile file(path());
                const FullDisk full(kBefore.size() + 3);
                file.write("first");
              }),
              HasSubstr("nothing is missing"));
  EXPECT_EQ(after(), "first\n");
}

TEST_F(AppendedFileTest, WhatIsLostAtTheEndIsCounted) {
  std::ofstream(path()) << kBefore;
  EXPECT_THAT(said([&] {
                const FullDisk full(kBefore.size());
                LineFile file(path());
                file.write("first");
                file.write("second");
              }),
              HasSubstr("lines: 2 records are missing: File too large"));
}

TEST_F(AppendedFileTest, WhatWaitsIsBounded) {
  const std::string record(AppendedFile::kMostWaiting / 4, 'x');
  AppendedFile file(path(),
                    FileDescriptor(::open(path().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600)));
  {
    const FullDisk full(0);
    for (int i = 0; i < 6; ++i) file.write(record);
  }
  EXPECT_THAT(said([&] { file.write("last"); }), HasSubstr("2 records are missing"));
  EXPECT_EQ(std::filesystem::file_size(path()), AppendedFile::kMostWaiting + 4);
}

// A device that is always full cannot be cut either.
TEST_F(AppendedFileTest, ADeviceIsTriedAgainToo) {
  LineFile file("/dev/full");
  EXPECT_THAT(said([&] { file.write("first"); }), HasSubstr("No space left on device"));
  EXPECT_THAT(said([&] { file.write("second"); }), IsEmpty());
}

TEST_F(AppendedFileTest, ALineThatWasNotWrittenToItsEndIsCutOff) {
  const std::string whole = "{\"iteration\": 1}\n";
  const std::string cut = "its last line was not written to its end";
  for (const std::string& torn : {std::string("{\"itera"), std::string(100, '\0'),
                                  "{\"answers\": [\"" + std::string(200'000, 'x')}) {
    std::ofstream(path()) << whole << torn;
    EXPECT_THAT(said([&] { LineFile(path()).write("{}"); }), HasSubstr(cut));
    EXPECT_EQ(read_file(path()), whole + "{}\n");
  }
  // Only its newline is missing.
  std::ofstream(path()) << whole << "{\"iteration\": 2}";
  EXPECT_THAT(said([&] { LineFile(path()).write("{}"); }), IsEmpty());
  EXPECT_EQ(read_file(path()), whole + "{\"iteration\": 2}\n{}\n");
  std::ofstream(path()) << "{\"itera";
  LineFile(path()).write("{}");
  EXPECT_EQ(read_file(path()), "{}\n");
}

// The sinks of a run, whose disk is full for some iterations.
TEST_F(AppendedFileTest, ARunKeepsItsSinks) {
  const TemporaryDirectory directory("full_disk_sinks");
  const auto file = [&](const char* name) { return directory.path() / name; };
  RunSinks sinks;
  sinks.add(std::make_unique<MetricsSink>(file("metrics.jsonl")));
  sinks.add(std::make_unique<EventsSink>(file("events.jsonl")));
  sinks.add(std::make_unique<TensorBoardSink>(
      TensorBoardOptions{.directory = file("events"), .queue_size = 1}));
  std::ofstream(file("metrics.jsonl")) << kBefore;
  std::ofstream(file("events.jsonl")) << kBefore;
  sinks.begin({});
  const auto iteration = [&](std::int64_t number) {
    IterationReport report;
    report.iteration = number;
    report.losses = {{"lm loss", 2.5}};
    report.seconds = 1;
    sinks.iteration(report);
    sinks.note({RunNote::Kind::kBatchSize, number, "batch"});
  };
  const std::string log = said([&] {
    iteration(1);
    {
      const FullDisk full(std::filesystem::file_size(test::event_files(file("events")).at(0)) + 10);
      for (int i = 2; i < 6; ++i) iteration(i);
    }
    iteration(6);
    sinks.end({});
  });
  EXPECT_THAT(log, testing::Not(HasSubstr("the run goes on without")));
  const auto lines = [&](const char* name) {
    return std::ranges::count(read_file(file(name)), '\n');
  };
  EXPECT_EQ(lines("metrics.jsonl"), 1 + 6);
  EXPECT_EQ(lines("events.jsonl"), 1 + 8);
  std::vector<std::int64_t> steps;
  for (const auto& event : test::read_events(test::event_files(file("events")).at(0))) {
    if (event.tag == "lm loss") steps.push_back(event.step);
  }
  EXPECT_THAT(steps, testing::ElementsAre(1, 2, 3, 4, 5, 6));
}

}  // namespace
}  // namespace phalanx
