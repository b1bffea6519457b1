// Flags that change a whole run: iterations that are left out, no training at all, weights to begin
// from, numbers that are logged, and failing sinks.

#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/metrics/metrics_file.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/run_sinks.h"
#include "phalanx/train/test_support.h"
#include "phalanx/watch/replica_check.h"

namespace phalanx {
namespace {

using testing::HasSubstr;

// What a run logged.
struct Diary {
  std::vector<IterationReport> iterations;
  std::vector<EvaluationReport> evaluations;
  std::vector<std::string> notes;
};

class DiarySink final : public RunSink {
 public:
  explicit DiarySink(Diary& diary) : diary_(diary) {}
  std::string name() const override { return "the diary"; }
  void iteration(const IterationReport& report) override { diary_.iterations.push_back(report); }
  void evaluation(const EvaluationReport& report) override { diary_.evaluations.push_back(report); }
  void note(const RunNote& note) override { diary_.notes.push_back(note.text); }

 private:
  Diary& diary_;
};

class RunFlagsTest : public RunTest {
 protected:
  static Diary diary_of(const TrainConfig& c) {
    Diary diary;
    RunSinks sinks = default_sinks(c.run);
    sinks.add(std::make_unique<DiarySink>(diary));
    EXPECT_EQ(pretrain(c, nullptr, sinks), RunEnd::kFinished);
    return diary;
  }
  TrainConfig config(const std::string& save) const {
    return with_flags(RunTest::config(save), "--micro-batch-size 1");
  }
  // The gradient is not finite from the second iteration on.
  static TrainConfig exploding(TrainConfig c) {
    set_flags(c, "--lr 1e30 --min-lr 0 --lr-warmup-iters 0 --clip-grad 0");
    return c;
  }
};

TEST_F(RunFlagsTest, WhatIsNotFiniteHasAName) {
  for (const Layout& layout : {Layout{}, Layout{.tensor = 2, .data = 2, .sharded = true}}) {
    EXPECT_THAT(error_of(ErrorCode::kDoNotRestart,
                         [&] { pretrain(exploding(with_layout(config(layout.name), layout))); }),
                testing::AllOf(HasSubstr("iteration 2: the loss or gradient is not finite"),
                               HasSubstr("forward pass of microbatch 0, on rank 0")))
        << layout.name;
  }
}

// Such steps are skipped and counted, as with a loss scale.
TEST_F(RunFlagsTest, WithoutTheCheckStepsAreSkipped) {
  TrainConfig c =
      with_flags(exploding(config("run")), "--no-check-for-nan-in-loss-and-grad --log-interval 6");
  testing::internal::CaptureStderr();
  const Diary diary = diary_of(c);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("number of skipped iterations:   5 | number of nan iterations:   5 |"));
  ASSERT_EQ(diary.iterations.size(), 6U);
  EXPECT_FALSE(diary.iterations[0].skipped);
  for (std::size_t i = 1; i < 6; ++i) EXPECT_TRUE(diary.iterations[i].skipped);
  const Manifest manifest = CheckpointReader::open(c.run.save).manifest();
  EXPECT_EQ(manifest.optimizer.adam_step, 1);
  EXPECT_EQ(manifest.consumed_train_samples, 24);
}

TEST_F(RunFlagsTest, IterationsThatAreLeftOutConsumeTheirSamples) {
  TrainConfig c = with_flags(config("whole"), "--iterations-to-skip 3 4 900");
  const Diary diary = diary_of(c);
  std::vector<std::int64_t> iterations;
  for (const IterationReport& report : diary.iterations) iterations.push_back(report.iteration);
  EXPECT_EQ(iterations, (std::vector<std::int64_t>{1, 2, 5, 6}));
  EXPECT_EQ(diary.iterations[1].skipped_samples, 0);
  EXPECT_EQ(diary.iterations[2].skipped_samples, 8);
  EXPECT_EQ(diary.iterations[2].consumed_samples, 20);
  EXPECT_THAT(diary.notes, testing::Contains(HasSubstr("iteration 3 is left out: its 4 samples")));
  // Schedules and Adam's count stand still, and evaluations are made.
  const Manifest manifest = CheckpointReader::open(c.run.save).manifest();
  EXPECT_EQ(manifest.optimizer.adam_step, 4);
  EXPECT_EQ(manifest.optimizer.schedule_steps, 16);
  EXPECT_EQ(manifest.consumed_train_samples, 24);
  EXPECT_EQ(diary.evaluations.size(), 5U);

  c.run.save = path("parts");
  c.run.load = path("parts");
  c.run.exit_interval = 3;
  diary_of(c);
  c.run.exit_interval = 0;
  const Diary rest = diary_of(c);
  EXPECT_EQ(rest.iterations.back().skipped_samples, 8);
  EXPECT_TRUE(equal("whole", "parts"));
  EXPECT_EQ(losses("whole"), losses("parts"));
}

// A step after a skipped one has the same samples as without skipping.
TEST_F(RunFlagsTest, ThoseBehindHaveTheirOwnSamples) {
  TrainConfig c = with_flags(config("whole"),
                             "--lr-decay-style constant --lr 1e-9 --min-lr 0 --lr-warmup-iters 0");
  train(c);
  c.run.save = path("without");
  c.run.iterations_to_skip = {"1", "3"};
  train(c);
  const auto whole = losses("whole");
  const auto without = losses("without");
  const std::vector<double> expected = {whole[1], whole[3], whole[4], whole[5]};
  ASSERT_EQ(without.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(without[i], expected[i], 1e-5);
    EXPECT_GT(std::abs(whole[0] - expected[i]), 1e-4);
  }
}

TEST_F(RunFlagsTest, RefusesWhatIsNoIteration) {
  for (const char* word : {"0", "-1", "x", "2.5", ""}) {
    TrainConfig c = config("");
    c.run.iterations_to_skip = {"2", word};
    EXPECT_THROW(resolve(c, true), ConfigError) << word;
  }
  TrainConfig c = with_flags(config(""), "--skip-train --eval-iters 0");
  EXPECT_THROW(resolve(c, true), ConfigError);
}

// Only the evaluations at the end, at any iteration; nothing is saved.
TEST_F(RunFlagsTest, WithoutTrainingOnlyTheLastEvaluationsAreMade) {
  const Diary whole = diary_of(config("run"));
  TrainConfig c = config("evaluated");
  c.run.load = path("run");
  c.run.skip_train = true;
  const Diary evaluated = diary_of(c);
  EXPECT_TRUE(evaluated.iterations.empty());
  ASSERT_EQ(evaluated.evaluations.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const EvaluationReport& now = evaluated.evaluations[i];
    const EvaluationReport& then = whole.evaluations[whole.evaluations.size() - 2 + i];
    EXPECT_EQ(now.split, then.split);
    EXPECT_EQ(now.place, then.place);
    EXPECT_EQ(now.losses.at(0).value, then.losses.at(0).value);
  }
  EXPECT_FALSE(CheckpointReader::open_if_any(path("evaluated"), Verify::kNo));
}

// One rank has the value of the closed form, and all layouts have it up to rounding.
TEST_F(RunFlagsTest, TheNormOfTheWeightsIsTheSameInEveryLayout) {
  const auto norms = [&](const Layout& layout, bool bf16) {
    TrainConfig c =
        with_flags(config(""),
                   "--num-layers 4 --hidden-dropout 0 --attention-dropout 0 --train-iters 2 "
                   "--eval-iters 0 --lr-warmup-iters 0 --log-params-norm");
    c.model.bf16 = bf16;
    std::vector<double> found;
    for (const auto& report : diary_of(with_layout(c, layout)).iterations) {
      found.push_back(report.parameters_norm.value());
    }
    return found;
  };
  for (const bool bf16 : {false, true}) {
    const auto expected = norms({}, bf16);
    ASSERT_EQ(expected.size(), 2U);
    EXPECT_NE(expected[0], expected[1]);
    for (const Layout& layout :
         {Layout{.name = "t2-sp", .tensor = 2, .sequence = true}, Layout{.name = "d2", .data = 2},
          Layout{.name = "zero1", .data = 2, .sharded = true, .overlaps = true},
          Layout{.name = "p2", .pipeline = 2},
          Layout{.name = "zb-v", .pipeline = 2, .schedule = "zb-v"},
          Layout{.name = "all",
          .tensor = 2,
          .data = 2,
          .sequence = true,
          .sharded = true,
          .pipeline = 2}}) {
      const auto found = norms(layout, bf16);
      ASSERT_EQ(found.size(), 2U);
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_NEAR(found[i], expected[i], (bf16 ? 1e-4 : 1e-6) * expected[i]) << layout.name;
      }
    }
  }
  TrainConfig c = with_flags(config(""), "--log-params-norm");
  const RunSetup setup(c);
  run_ranks(setup.config, *setup.model, [&](Rank& rank) {
    rank.initialise();
    RunData::Stream stream(*setup.data, SplitKind::kTrain, 0);
    const StepResult step = rank.train_step({.lr = 1e-2}, stream.source());
    double squares = 0.0;
    for (ParamId id = 0; id < rank.table().size(); ++id) {
      for (const float x : rank.parameters().weight(id).span<float>()) {
        squares += static_cast<double>(x) * static_cast<double>(x);
      }
    }
    EXPECT_NEAR(step.parameters_norm.value(), std::sqrt(squares), 1e-9 * std::sqrt(squares));
  });
}

TEST_F(RunFlagsTest, ReplicasAreCompared) {
  TrainConfig c = with_flags(with_layout(config("run"), {.tensor = 2, .data = 2, .sharded = true}),
                             "--check-weight-hash-across-dp-replicas-interval 2");
  train(c);
  const RunSetup setup(c);
  const auto compare = [&](int rank_of_fault) {
    run_ranks(setup.config, *setup.model, [&](Rank& rank) {
      rank.initialise();
      if (rank.ranks().world->rank() == rank_of_fault) {
        const Tensor& weight = rank.parameters().weight(3);
        ops::fill(rank.context(),
                  {.x = weight.reshape({weight.count()}).slice(0, 1, 1), .value = 0.125});
      }
      check_replicas(rank, setup.places, 12, [&] {
        EXPECT_EQ(rank.ranks().world->rank(), 0);
        return std::string("Start again");
      });
    });
  };
  compare(-1);
  EXPECT_THAT(error_of(ErrorCode::kTemporary, [&] { compare(3); }),
              testing::AllOf(HasSubstr("after iteration 12: rank 3 (tp 1, pp 0, dp 1) has other "
                                       "bits of decoder.layers.0.input_layernorm.bias"),
                             HasSubstr("is suspicious. Start again, without that machine")));
}

// A checkpoint that was saved after the ranks were last the same may be wrong.
TEST_F(RunFlagsTest, ADifferenceNamesTheCheckpointToStartFrom) {
  train(with_flags(config("run"), "--save-interval 2"));
  const std::string save = path("run");
  const std::string run = CheckpointReader::open(save).manifest().run_id;
  EXPECT_THAT(
      restart_advice(save, run, 5),
      testing::AllOf(HasSubstr("same after iteration 5, and later checkpoints may be spoilt"),
                     HasSubstr(save + "/iter_0000004 (--load " + save + " --ckpt-step 4")));
  EXPECT_THAT(restart_advice(save, run, 6),
              HasSubstr("last checkpoint, " + save + "/iter_0000006"));
  std::filesystem::remove_all(save + "/iter_0000002");
  std::filesystem::remove_all(save + "/iter_0000004");
  EXPECT_THAT(restart_advice(save, run, 5), HasSubstr("no checkpoint from before"));
  EXPECT_THAT(restart_advice(save, "another", 6), HasSubstr("no checkpoint from before"));
  EXPECT_THAT(restart_advice("", run, 6), HasSubstr("nothing is saved: start the run again"));
}

// Keys and values of one group on two tensor-parallel ranks.
TEST_F(RunFlagsTest, RowsOfSeveralRanksAreCompared) {
  TrainConfig c = with_flags(config("run"), "--group-query-attention --num-query-groups 1");
  const RunSetup setup(with_layout(c, {.tensor = 2}));
  // An element of linear_qkv: this many before its end.
  const auto compare = [&](std::int64_t from_end) {
    run_ranks(setup.config, *setup.model, [&](Rank& rank) {
      rank.initialise();
      for (ParamId id = 0; id < rank.table().size(); ++id) {
        if (rank.ranks().coordinates.tensor == 0 ||
            !rank.table()[id].name.ends_with("1.self_attention.linear_qkv.weight")) {
          continue;
        }
        const Tensor& weight = rank.parameters().weight(id);
        const std::int64_t elements = weight.count();
        ops::fill(rank.context(), {.x = weight.reshape({elements}).slice(0, elements - from_end, 1),
                                   .value = 0.125});
      }
      check_replicas(rank, setup.places, 3, [] { return std::string(); });
    });
  };
  const std::int64_t common = 2 * setup.config.model.kv_channels * setup.config.model.hidden_size;
  compare(common + 1);  // what the rank has alone
  for (const std::int64_t from_end : {common, std::int64_t{1}}) {
    EXPECT_THAT(error_of(ErrorCode::kTemporary, [&] { compare(from_end); }),
                HasSubstr("other bits of decoder.layers.1.self_attention.linear_qkv.weight"));
  }
}

// The word table of a tied head on another rank of the pipeline.
TEST_F(RunFlagsTest, HoldersOfASharedParameterAreCompared) {
  const RunSetup setup(with_layout(config("run"), {.pipeline = 2}));
  const auto compare = [&](bool changed) {
    run_ranks(setup.config, *setup.model, [&](Rank& rank) {
      rank.initialise();
      for (ParamId id = 0; changed && id < rank.table().size(); ++id) {
        if (rank.ranks().coordinates.pipeline == 0 || rank.table()[id].shared_by.empty()) continue;
        const Tensor& weight = rank.parameters().weight(id);
        ops::fill(rank.context(),
                  {.x = weight.reshape({weight.count()}).slice(0, 1, 1), .value = 0.125});
      }
      check_replicas(rank, setup.places, 3, [] { return std::string(); });
    });
  };
  compare(false);
  EXPECT_THAT(error_of(ErrorCode::kTemporary, [&] { compare(true); }),
              HasSubstr("other bits of embedding.word_embeddings.weight"));
}

// Where --load has nothing the run begins as with --finetune; otherwise it resumes from --load.
TEST_F(RunFlagsTest, BeginsFromPretrainedWeights) {
  train(config("pretrained"));
  TrainConfig c = with_flags(config("finetuned"), "--seed 99");
  c.run.load = path("pretrained");
  c.run.finetune = true;
  train(c);
  c.run.save = path("run");
  c.run.load = path("run");
  c.run.finetune = false;
  c.run.pretrained_checkpoint = path("pretrained");
  c.run.exit_interval = 3;
  train(c);
  c.run.exit_interval = 0;
  train(c);
  EXPECT_TRUE(equal("run", "finetuned"));
  EXPECT_EQ(losses("run"), losses("finetuned"));
  c.run.load.clear();
  c.run.save = path("unloaded");
  train(c);
  EXPECT_TRUE(equal("unloaded", "finetuned"));
  c.run.save = path("other");
  c.run.pretrained_checkpoint = path("nothing");
  EXPECT_THAT(error_of<InputMissingError>([&] { pretrain(c); }),
              HasSubstr("--pretrained-checkpoint"));
}

// A sink that fails at its n-th call.
class FailingSink final : public RunSink {
 public:
  explicit FailingSink(int call) : left_(call) {}
  std::string name() const override { return "a sink"; }
  void begin(const RunBegin& /*begin*/) override { tick(); }
  void iteration(const IterationReport& /*report*/) override { tick(); }
  void evaluation(const EvaluationReport& /*report*/) override { tick(); }
  void note(const RunNote& /*note*/) override { tick(); }
  void end(const RunEnding& /*ending*/) override { tick(); }

 private:
  void tick() {
    if (left_-- == 0) throw OutputError("the disk is full");
  }
  int left_;
};

// Failing sinks change no bit of a run: a full disk, a directory that is gone, anything.
TEST_F(RunFlagsTest, ARunDoesNotDependOnWhoShowsIt) {
  TrainConfig c = config("whole");
  const Diary whole = diary_of(c);
  const auto expect_same = [&](const std::string& save, const Diary& diary) {
    EXPECT_TRUE(equal("whole", save)) << save;
    ASSERT_EQ(diary.iterations.size(), whole.iterations.size()) << save;
    for (std::size_t i = 0; i < whole.iterations.size(); ++i) {
      EXPECT_EQ(diary.iterations[i].losses.at(0).value, whole.iterations[i].losses.at(0).value);
    }
  };
  c.run.save = path("full");
  std::filesystem::create_directories(c.run.save);
  std::filesystem::create_symlink("/dev/full", std::filesystem::path(c.run.save) / "metrics.jsonl");
  expect_same("full", diary_of(c));

  for (const int call : {0, 1, 3, 9}) {
    c.run.save = path(fmt::format("failing-{}", call));
    Diary diary;
    RunSinks sinks;
    sinks.add(std::make_unique<FailingSink>(call));
    sinks.add(std::make_unique<MetricsSink>(path("gone") + "/metrics.jsonl"));
    sinks.add(std::make_unique<DiarySink>(diary));
    EXPECT_EQ(pretrain(c, nullptr, sinks), RunEnd::kFinished);
    expect_same(fmt::format("failing-{}", call), diary);
  }
}

}  // namespace
}  // namespace phalanx
