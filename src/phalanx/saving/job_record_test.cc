#include "phalanx/saving/job_record.h"

#include <gmock/gmock.h>

#include <fstream>
#include <ostream>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Killed {};

// A job whose attempts are started again, in a directory where another run has saved iterations 2,
// 4 and 6.
class JobTest : public RunTest {
 protected:
  JobTest() {
    TrainConfig c = with_flags(job("other", 0), "--seed 99");
    c.run.job.clear();
    train(c);
  }

  // An attempt of the job, which saves after every second iteration.
  TrainConfig job(const std::string& save, std::int64_t restarts) const {
    TrainConfig c = with_flags(config(save), "--save-interval 2 --keep-last 100 --overwrite false");
    c.run.restarts = restarts;
    c.run.job = {{.name = "a launch", .restarts = restarts}};
    return c;
  }
  static TrainConfig started_again(TrainConfig c) {
    c.run.restarts = 1;
    c.run.job[0].restarts = 1;
    return c;
  }
  std::string copy_of_other(const std::string& name) const {
    fs::remove_all(path(name));
    fs::copy(path("other"), path(name), fs::copy_options::recursive);
    return name;
  }
  // An attempt that is killed before a given step of its claim; false where there is no such step.
  static bool is_killed_in_claim(const TrainConfig& c, int step) {
    const RunSetup setup(c);
    try {
      setup.directory->claim([&](std::string_view /*name*/) {
        if (step-- == 0) throw Killed();
      });
    } catch (const Killed&) {
      return true;
    }
    return false;
  }
  void expect_same(const std::string& found, const std::string& expected, const std::string& why) {
    EXPECT_EQ(iterations(found), iterations(expected)) << why;
    EXPECT_TRUE(equal(found, expected)) << why;
    EXPECT_EQ(losses(found), losses(expected)) << why;
    EXPECT_EQ(fs::exists(path(found + "/abandoned-1")), fs::exists(path(expected + "/abandoned-1")))
        << why;
    EXPECT_EQ(iterations(found + "/abandoned-1"), iterations(expected + "/abandoned-1")) << why;
    EXPECT_EQ(metrics_text(found + "/abandoned-1"), metrics_text(expected + "/abandoned-1")) << why;
    EXPECT_FALSE(fs::exists(path(found + "/abandoned-2"))) << why;
  }
};

// How a first attempt may begin over another run.
struct Begin {
  const char* name;
  std::function<void(TrainConfig& config, const std::string& elsewhere)> choose;

  friend void PrintTo(const Begin& begin, std::ostream* out) { *out << begin.name; }
};

class JobCrashTest : public JobTest, public testing::WithParamInterface<Begin> {
 protected:
  TrainConfig first(const std::string& save) const {
    TrainConfig c = job(save, 0);
    GetParam().choose(c, path("elsewhere"));
    return c;
  }
};

// Wherever the first attempt is killed, the second one ends as an undisturbed one.
TEST_P(JobCrashTest, TheNextAttemptDoesTheRest) {
  copy_of_other("elsewhere");
  train(first(copy_of_other("whole")));

  const TrainConfig c = first(copy_of_other("parts"));
  train(started_again(c));
  expect_same("parts", "whole", "killed before the record");

  int steps = 0;
  for (;; ++steps) {
    copy_of_other("parts");
    if (!is_killed_in_claim(c, steps)) break;
    // Killed once more at the same place.
    is_killed_in_claim(started_again(c), steps);
    train(started_again(c));
    expect_same("parts", "whole", fmt::format("killed in step {} of the claim", steps));
  }
  EXPECT_GE(steps, 2);

  // Lines of a training that has saved nothing.
  std::ofstream(fs::path(path("parts")) / "metrics.jsonl", std::ios::app)
      << "{\"iteration\": 7, \"lm_loss\": 1}\n";
  train(started_again(c));
  expect_same("parts", "whole", "killed before the first save");

  copy_of_other("parts");
  train(with_flags(c, "--exit-interval 4"));
  // The recorded choice stays, whatever is saved elsewhere later.
  fs::remove_all(path("elsewhere"));
  train(started_again(c));
  expect_same("parts", "whole", "killed after the first save");
}

INSTANTIATE_TEST_SUITE_P(
    Begins, JobCrashTest,
    testing::Values(Begin{"Overwrite", [](auto& c, const auto&) { c.run.overwrite = true; }},
                    Begin{"FinetuneItself",
                          [](auto& c, const auto&) {
                            set_flags(c, "--overwrite --finetune");
                            c.run.load = c.run.save;
                          }},
                    Begin{"FinetuneAnother",
                          [](auto& c, const auto& elsewhere) {
                            set_flags(c, "--overwrite --finetune");
                            c.run.load = elsewhere;
                            c.run.ckpt_step = 4;
                          }},
                    Begin{"GoOnElsewhere",
                          [](auto& c, const auto& elsewhere) {
                            c.run.overwrite = true;
                            c.run.load = elsewhere;
                            c.run.ckpt_step = 2;
                            c.run.seed = 99;  // as the run that goes on
                          }},
                    Begin{"Pretrained",
                          [](auto& c, const auto& elsewhere) {
                            c.run.overwrite = true;
                            c.run.load = c.run.save + "-empty";
                            c.run.pretrained_checkpoint = elsewhere;
                          }},
                    Begin{"GoBack",
                          [](auto& c, const auto&) {
                            c.run.overwrite = true;
                            c.run.load = c.run.save;
                            c.run.ckpt_step = 2;
                            c.run.seed = 99;  // as the run that goes on
                          }}),
    [](const auto& begin) { return std::string(begin.param.name); });

// A restart may be counted although the first attempt never began.
TEST_F(JobTest, AnotherRunIsRefusedToEveryAttempt) {
  const std::string before = metrics_text("other");
  for (const std::int64_t restarts : {0, 1, 2}) {
    const TrainConfig c = job("other", restarts);
    EXPECT_THAT(refusal(c), HasSubstr("holds a run at iteration 6"));
    TrainConfig finetune = c;
    finetune.run.load = c.run.save;
    finetune.run.finetune = true;
    EXPECT_THAT(refusal(finetune), HasSubstr("--finetune"));
    TrainConfig back = c;
    back.run.load = c.run.save;
    back.run.ckpt_step = 2;
    EXPECT_THAT(refusal(back), HasSubstr("--ckpt-step 2"));
  }
  EXPECT_EQ(metrics_text("other"), before);
  EXPECT_THAT(iterations("other"), ElementsAre(2, 4, 6));
  // Also of a job without a name.
  TrainConfig unnamed = job("other", 1);
  unnamed.run.job.clear();
  EXPECT_THAT(refusal(unnamed), HasSubstr("holds a run at iteration 6"));
}

TEST_F(JobTest, WhoseTheRecordIsDecides) {
  const auto prepare = [&] {
    fs::remove_all(path("run"));
    train(with_flags(job("run", 0), "--exit-interval 4"));
  };
  const std::string refused = "holds a run at iteration 4";
  prepare();
  TrainConfig other = job("run", 1);
  other.run.job[0].name = "another launch";
  EXPECT_THAT(refusal(other), HasSubstr(refused));
  // Another command of the same job.
  TrainConfig command = job("run", 1);
  command.run.load = path("other");
  EXPECT_THAT(refusal(command), HasSubstr(refused));
  // Without a restart it is a first attempt, even with the same job name.
  TrainConfig again = job("run", 0);
  again.run.job.push_back({.name = "a cluster's job", .restarts = 1});
  EXPECT_THAT(refusal(again), HasSubstr(refused));
  train(job("run", 1));
  EXPECT_THAT(iterations("run"), ElementsAre(2, 4, 6));

  // Another run has continued since.
  prepare();
  TrainConfig by_hand = job("run", 0);
  by_hand.run.job.clear();
  by_hand.run.load = by_hand.run.save;
  by_hand.run.exit_interval = 5;
  train(by_hand);
  EXPECT_THAT(refusal(job("run", 1)), HasSubstr("holds a run at iteration 5"));

  // Saved by a program that keeps no record.
  prepare();
  const std::string record = read_file(fs::path(path("run")) / kJobRecordName);
  set_flags(by_hand, "--overwrite --load");
  train(by_hand);
  std::ofstream(fs::path(path("run")) / kJobRecordName) << record;
  EXPECT_THAT(refusal(job("run", 1)), HasSubstr("holds a run at iteration 5"));

  // A record that cannot be read belongs to no job.
  for (const char* text : {"", "{}", "[1, 2]", "{\"version\": 2}"}) {
    prepare();
    std::ofstream(fs::path(path("run")) / kJobRecordName) << text;
    EXPECT_THAT(refusal(job("run", 1)), HasSubstr(refused)) << text;
  }
}

// A launcher that Slurm has started again: both may restart the ranks.
TEST_F(JobTest, AnyOfItsNamesWillDo) {
  TrainConfig c = job("run", 0);
  c.run.job.push_back({.name = "a cluster's job", .restarts = 0});
  c.run.exit_interval = 2;
  train(c);
  c.run.job = {{.name = "the next launch", .restarts = 0},
               {.name = "a cluster's job", .restarts = 1}};
  c.run.restarts = 1;
  c.run.exit_interval = 4;
  train(c);
  c.run.job = {{.name = "the next launch", .restarts = 1}};
  c.run.exit_interval = 0;
  train(c);
  EXPECT_THAT(iterations("run"), ElementsAre(2, 4, 6));
}

// A checkpoint that is saved elsewhere changes nothing, and one that is gone is an error.
TEST_F(JobTest, TheCheckpointItBeginsWithIsTheFirstAttempts) {
  fs::create_directories(path("elsewhere"));
  fs::copy(path("other/iter_0000002"), path("elsewhere/iter_0000002"));
  TrainConfig c = job("run", 0);
  c.run.load = path("elsewhere");
  c.run.finetune = true;
  train(c);
  EXPECT_FALSE(is_killed_in_claim(
      [&] {
        TrainConfig parts = c;
        parts.run.save = path("parts");
        return parts;
      }(),
      100));
  fs::copy(path("other/iter_0000006"), path("elsewhere/iter_0000006"));
  TrainConfig again = started_again(c);
  again.run.save = path("parts");
  train(again);
  EXPECT_EQ(losses("parts"), losses("run"));

  fs::remove_all(path("parts"));
  fs::remove_all(path("elsewhere/iter_0000006"));
  TrainConfig once_more = c;
  once_more.run.save = path("parts");
  is_killed_in_claim(once_more, 100);
  fs::remove_all(path("elsewhere/iter_0000002"));
  EXPECT_THROW(pretrain(started_again(once_more)), InputMissingError);
  EXPECT_THAT(iterations("parts"), IsEmpty());
}

TEST_F(JobTest, ARecordIsReadBack) {
  const JobRecord record{.job = {"a \"launch\"", "Slurm job c/7"},
                         .flags = "{}",
                         .checkpoint = "/w/iter_0000002",
                         .manifest_digest = "0123",
                         .is_pretrained = true,
                         .run_id = "ab",
                         .start = 3,
                         .aside = "abandoned-2",
                         .is_settled = true};
  EXPECT_EQ(JobRecord::from_text(record.to_text()), record);
  EXPECT_EQ(JobRecord::from_text(JobRecord().to_text()), JobRecord());
  // Each says one thing, and that is read as it stands.
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = record.to_text();
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"start\": 3", "\"start\": 3, \"start\": 4"},
           {"\"start\": 3", "\"start\": 3.7"},
           {"\"start\": 3", "\"start\": true"},
           {"\"start\": 3", "\"start\": -3"},
           {"\"start\": 3", "\"start\": 9223372036854775809"},
           {"\"version\": 1", "\"version\": 4294967297"},
           {"\"version\": 1", "\"version\": 1.5"},
           {"\"version\": 1", "\"version\": 1, \"more\": 2"},
           {"\"settled\": true", "\"settled\": 1"},
           {"\"manifest\": \"0123\"", "\"manifest\": \"\""},
           {"\"run_id\": \"ab\"", "\"run_id\": \"\""},
           {"\"flags\": \"{}\"", "\"flags\": {}"}}) {
    EXPECT_THAT(error_of<DataError>(
                    [&, &from = from, &to = to] { JobRecord::from_text(changed(from, to)); }),
                HasSubstr(".job: "))
        << to;
  }
  JobRecord outside = record;
  outside.aside = "../w";
  EXPECT_THROW(JobRecord::from_text(outside.to_text()), DataError);
}

}  // namespace
}  // namespace phalanx
