// What the flags of a model family ask for, and which of them other families refuse.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phalanx/flag_table/train_flags.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/rules/test_support.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using config_tests::refusal_of;
using config_tests::resolved;

// Four stages, of which two are the encoder's.
TrainConfig t5() {
  return with_flags(config_tests::valid(),
                    "--family t5 --num-layers 4 --decoder-num-layers 6 --hidden-size 32 "
                    "--max-position-embeddings 24 --seq-length 24 --decoder-seq-length 16 "
                    "--world-size 4 --pipeline-model-parallel-size 4 "
                    "--pipeline-model-parallel-split-rank 2 --micro-batch-size 1");
}

TrainConfig of_family(const std::string& family) {
  return with_flags(t5(),
                    "--decoder-num-layers 0 --decoder-seq-length 0 "
                    "--pipeline-model-parallel-split-rank 0 --family " +
                        family);
}

std::vector<std::int64_t> layers_of(const TrainConfig& from, const std::string& flags) {
  const TrainConfig c = resolved(from, flags);
  std::vector<std::int64_t> layers;
  for (const StageRange& range : stage_ranges(
           c, schedule_kind(c.layout.pipeline_schedule).placement(schedule_request(c.layout, 8)))) {
    layers.push_back(range.num_layers + range.num_decoder_layers);
  }
  return layers;
}

TEST(FamilyConfig, FlagsOfOtherFamiliesAreRefused) {
  EXPECT_EQ(refusal_of(of_family("gpt")), "no error");
  EXPECT_EQ(refusal_of(of_family("bert")), "no error");
  EXPECT_EQ(refusal_of(t5()), "no error");
  EXPECT_EQ(refusal_of(of_family("gpt"), "--decoder-num-layers 2"),
            "--decoder-num-layers 2 is a flag of t5, not of gpt: leave it out");
  EXPECT_EQ(refusal_of(of_family("gpt"), "--bert-no-binary-head"),
            "--bert-no-binary-head is a flag of bert, not of gpt: leave it out");
  EXPECT_THAT(
      refusal_of(of_family("bert"),
                 "--pipeline-model-parallel-split-rank 1 --decoder-seq-length 8 "
                 "--position-embedding-type relative"),
      AllOf(HasSubstr("--pipeline-model-parallel-split-rank 1 is a flag of t5"),
            HasSubstr("--decoder-seq-length 8"), HasSubstr("--position-embedding-type relative")));
  EXPECT_THAT(
      refusal_of(
          t5(),
          "--decoder-first-pipeline-num-layers 2 --group-query-attention --reset-attention-mask"),
      AllOf(HasSubstr("--decoder-first-pipeline-num-layers 2 is a flag of gpt and bert"),
            HasSubstr("--group-query-attention"), HasSubstr("--reset-attention-mask")));
}

// Rows name families that there are.
TEST(FamilyConfig, FamiliesOfFlagsExist) {
  for (const TrainFlag& flag : train_flags()) {
    for (const auto family : words_of(flag.families)) {
      EXPECT_TRUE(family == "gpt" || family == "bert" || family == "t5") << flag.spec.name;
    }
  }
}

TEST(FamilyConfig, PartsOfLayersThatAFamilyDoesNotHave) {
  const std::string rotary = "--position-embedding-type rope";
  EXPECT_EQ(refusal_of(of_family("gpt"), rotary), "no error");
  EXPECT_EQ(refusal_of(of_family("bert"), rotary),
            "--position-embedding-type rope is a flag of gpt and t5, not of bert: leave it out");
  EXPECT_THAT(refusal_of(t5(), rotary),
              HasSubstr("a T5 has learned_absolute or relative positions"));
  EXPECT_THAT(refusal_of(t5(), "--window-size 3,0 --qk-layernorm"),
              AllOf(HasSubstr("--window-size 3,0 is a flag of gpt"), HasSubstr("--qk-layernorm")));
  EXPECT_THAT(refusal_of(of_family("gpt"), "--scale-decoder-output --disable-output-bias"),
              AllOf(HasSubstr("--scale-decoder-output is a flag of t5"),
                    HasSubstr("--disable-output-bias is a flag of t5")));
  for (const TrainConfig& c : {of_family("gpt"), of_family("bert"), t5()}) {
    EXPECT_EQ(refusal_of(c,
                         "--normalization RMSNorm --activation-func relu --gated-linear-unit "
                         "--disable-bias-linear"),
              "no error");
  }
}

TEST(FamilyConfig, TheDecodersLengths) {
  EXPECT_EQ(resolved(t5(), "--decoder-num-layers 0").model.decoder_num_layers, 4);
  EXPECT_THAT(refusal_of(t5(), "--decoder-seq-length 0"),
              HasSubstr("--decoder-seq-length must be given"));
  EXPECT_THAT(refusal_of(t5(), "--decoder-seq-length 25"),
              HasSubstr("--max-position-embeddings 24 is below --decoder-seq-length 25"));
  EXPECT_THAT(refusal_of(t5(),
                         "--world-size 16 --tensor-model-parallel-size 4 --sequence-parallel "
                         "--decoder-seq-length 14"),
              HasSubstr("--decoder-seq-length 14 is not a multiple of --tensor-model-parallel-size "
                        "4"));
}

TEST(FamilyConfig, RelativePositions) {
  // There is no table: the decoder may be longer.
  const std::string relative = "--position-embedding-type relative --decoder-seq-length 400";
  EXPECT_EQ(refusal_of(t5(), relative), "no error");
  EXPECT_THAT(refusal_of(t5(), "--relative-attention-num-buckets 16"),
              HasSubstr("need --position-embedding-type relative"));
  EXPECT_THAT(refusal_of(t5(), relative + " --relative-attention-num-buckets 30"),
              HasSubstr("--relative-attention-num-buckets 30 is not a multiple of 4"));
  EXPECT_THAT(refusal_of(t5(), relative + " --relative-attention-max-distance 16"),
              HasSubstr("--relative-attention-max-distance 16 must be above 16"));
}

TEST(SplitConfig, EverySplitThatComesOutEven) {
  const auto at = [](std::int64_t split) {
    return fmt::format("--decoder-num-layers 12 --pipeline-model-parallel-split-rank {}", split);
  };
  EXPECT_THAT(layers_of(t5(), at(1)), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(layers_of(t5(), at(2)), ElementsAre(2, 2, 6, 6));
  EXPECT_THAT(refusal_of(t5(), at(3)),
              HasSubstr("--encoder-num-layers 4 is not a multiple of the 3"));
  EXPECT_THAT(refusal_of(t5(), at(4)), HasSubstr("must be from 1 to 3"));
  EXPECT_THAT(refusal_of(t5(), at(0)),
              HasSubstr("4 pipeline stages need --pipeline-model-parallel-split-rank"));
  // Without a pipeline there is nothing to cut.
  EXPECT_EQ(refusal_of(t5(), "--world-size 1 --pipeline-model-parallel-size 1"), "no error");
}

TEST(SplitConfig, TheEncodersSizeIsAnotherWayToSayIt) {
  const auto sizes = [](std::int64_t encoder, std::int64_t decoder) {
    return fmt::format(
        "--pipeline-model-parallel-split-rank 0 --encoder-pipeline-model-parallel-size {} "
        "--pipeline-model-parallel-size {}",
        encoder, decoder);
  };
  EXPECT_THAT(layers_of(t5(), sizes(2, 2)), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(layers_of(t5(), sizes(1, 3)), ElementsAre(4, 2, 2, 2));
  EXPECT_THAT(refusal_of(t5(), sizes(2, 3)), HasSubstr("4 ranks"));
  const TrainConfig one = resolved(t5(), sizes(1, 1) + " --world-size 2");
  EXPECT_EQ(one.layout.pipeline_model_parallel_size, 2);
  EXPECT_EQ(one.layout.pipeline_model_parallel_split_rank, 1);
  const auto before = argument_values(one);
  EXPECT_EQ(argument_values(resolved(one)), before);
  EXPECT_THAT(refusal_of(t5(), "--encoder-pipeline-model-parallel-size 1"),
              HasSubstr("exclude each other"));
  EXPECT_THAT(
      refusal_of(
          t5(),
          "--world-size 8 --tensor-model-parallel-size 2 --encoder-tensor-model-parallel-size 1"),
      HasSubstr("whose equal gradients it may not add up"));
  EXPECT_EQ(
      refusal_of(
          t5(),
          "--world-size 8 --tensor-model-parallel-size 2 --encoder-tensor-model-parallel-size 2"),
      "no error");
}

TEST(SplitConfig, SchedulesWithOneStageOnEveryRank) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    const std::string with_kind = fmt::format("--pipeline-schedule {}", kind.name);
    if (!kind.split_obstacle.empty()) {
      EXPECT_THAT(refusal_of(t5(), with_kind),
                  AllOf(HasSubstr("cannot run an encoder and a decoder"),
                        HasSubstr("naive, gpipe, 1f1b, eager-1f1b, zb-h1, zb-h2, backward-first")))
          << kind.name;
      continue;
    }
    EXPECT_THAT(layers_of(t5(), with_kind), ElementsAre(2, 2, 3, 3)) << kind.name;
    // Generated, verified and lowered.
    const StepPrograms programs = step_programs(resolved(t5(), with_kind));
    EXPECT_EQ(programs.training.begin()->second.ranks.size(), 4U) << kind.name;
  }
  EXPECT_THAT(refusal_of(t5(), "--num-virtual-stages-per-pipeline-rank 2"),
              HasSubstr("one stage on every rank"));
  EXPECT_THAT(refusal_of(t5(), "--num-layers-per-virtual-pipeline-stage 1"),
              HasSubstr("one stage on every rank"));
}

TEST(SplitConfig, AStandaloneEmbedding) {
  const std::string standalone = "--standalone-embedding-stage";
  EXPECT_THAT(layers_of(t5(), standalone), ElementsAre(0, 4, 3, 3));
  EXPECT_THAT(layers_of(of_family("gpt"), standalone + " --num-layers 6"), ElementsAre(0, 2, 2, 2));
  EXPECT_THAT(layers_of(of_family("gpt"),
                        standalone + " --num-layers 5 --decoder-last-pipeline-num-layers 1"),
              ElementsAre(0, 2, 2, 1));
  EXPECT_THAT(refusal_of(of_family("gpt"), standalone + " --num-layers 2"),
              HasSubstr("less than the 3 stages"));
  EXPECT_THAT(refusal_of(of_family("gpt"),
                         standalone + " --num-layers 16 --num-virtual-stages-per-pipeline-rank 2"),
              HasSubstr("needs one stage on every rank"));
  EXPECT_THAT(refusal_of(of_family("gpt"), standalone + " --decoder-first-pipeline-num-layers 1"),
              HasSubstr("exclude each other"));
  EXPECT_THAT(
      refusal_of(of_family("gpt"), standalone + " --world-size 1 --pipeline-model-parallel-size 1"),
      HasSubstr("needs --pipeline-model-parallel-size above 1"));
}

// The encoder's spellings are the same flags, and contradict them where they say something else.
TEST(FamilyConfig, TheEncodersSpellings) {
  const auto parse = [](std::vector<std::string> words, TrainConfig& config) -> std::string {
    FlagSet flags("phalanx pretrain t5", "");
    add_train_flags(flags, config);
    for (const char* word :
         {"--hidden-size", "8", "--num-attention-heads", "2", "--max-position-embeddings", "8",
          "--micro-batch-size", "1", "--lr", "1", "--data-path", "d"}) {
      words.emplace_back(word);
    }
    return error_of([&] { flags.parse(words); });
  };
  TrainConfig config;
  EXPECT_EQ(parse({"--encoder-num-layers", "3", "--encoder-seq-length", "7"}, config), "no error");
  EXPECT_EQ(config.model.num_layers, 3);
  EXPECT_EQ(config.data.seq_length, 7);
  EXPECT_EQ(parse({"--encoder-num-layers", "3", "--num-layers", "3", "--seq-length", "7"}, config),
            "no error");
  EXPECT_THAT(
      parse({"--encoder-num-layers", "3", "--num-layers", "4", "--seq-length", "7"}, config),
      HasSubstr("contradicts --num-layers 4: give one"));
}

}  // namespace
}  // namespace phalanx
