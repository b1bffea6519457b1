// What the flags of a model family ask for, and which of them other families refuse.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/flag_table/train_flags.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/rank/step_programs.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Four stages, of which two are the encoder's.
TrainConfig t5() {
  TrainConfig c;
  c.model.family = "t5";
  c.model.num_layers = 4;
  c.model.decoder_num_layers = 6;
  c.model.hidden_size = 32;
  c.model.num_attention_heads = 4;
  c.model.max_position_embeddings = 24;
  c.data.seq_length = 24;
  c.data.decoder_seq_length = 16;
  c.data.data_path = {"data"};
  c.layout.world_size = 4;
  c.layout.pipeline_model_parallel_size = 4;
  c.layout.pipeline_model_parallel_split_rank = 2;
  c.layout.micro_batch_size = 1;
  c.layout.global_batch_size = 8;
  c.run.train_iters = 100;
  c.optimizer.lr = 1e-3;
  return c;
}

TrainConfig of_family(const std::string& family) {
  TrainConfig c = t5();
  c.model.family = family;
  c.model.decoder_num_layers = 0;
  c.data.decoder_seq_length = 0;
  c.layout.pipeline_model_parallel_split_rank = 0;
  return c;
}

using Change = std::function<void(TrainConfig&)>;

std::string refusal_of(TrainConfig c, const Change& change = {}) {
  if (change) change(c);
  try {
    resolve(c, true);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<StageRange> stages_of(TrainConfig c, const Change& change) {
  change(c);
  resolve(c, true);
  return stage_ranges(
      c, schedule_kind(c.layout.pipeline_schedule).placement(schedule_request(c.layout, 8)));
}

std::vector<std::int64_t> layers_of(const TrainConfig& c, const Change& change) {
  std::vector<std::int64_t> layers;
  for (const StageRange& range : stages_of(c, change)) {
    layers.push_back(range.num_layers + range.num_decoder_layers);
  }
  return layers;
}

TEST(FamilyConfig, FlagsOfOtherFamiliesAreRefused) {
  EXPECT_EQ(refusal_of(of_family("gpt")), "accepted");
  EXPECT_EQ(refusal_of(of_family("bert")), "accepted");
  EXPECT_EQ(refusal_of(t5()), "accepted");
  EXPECT_EQ(refusal_of(of_family("gpt"), [](TrainConfig& c) { c.model.decoder_num_layers = 2; }),
            "--decoder-num-layers 2 is a flag of t5, not of gpt: leave it out");
  EXPECT_EQ(
      refusal_of(of_family("gpt"), [](TrainConfig& c) { c.model.bert_no_binary_head = true; }),
      "--bert-no-binary-head is a flag of bert, not of gpt: leave it out");
  EXPECT_THAT(
      refusal_of(of_family("bert"),
                 [](TrainConfig& c) {
                   c.layout.pipeline_model_parallel_split_rank = 1;
                   c.data.decoder_seq_length = 8;
                   c.model.position_embedding_type = "relative";
                 }),
      AllOf(HasSubstr("--pipeline-model-parallel-split-rank 1 is a flag of t5"),
            HasSubstr("--decoder-seq-length 8"), HasSubstr("--position-embedding-type relative")));
  EXPECT_THAT(refusal_of(t5(),
                         [](TrainConfig& c) {
                           c.layout.decoder_first_pipeline_num_layers = 2;
                           c.model.group_query_attention = true;
                           c.data.reset_attention_mask = true;
                         }),
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
  const auto rotary = [](TrainConfig& c) { c.model.position_embedding_type = "rope"; };
  EXPECT_EQ(refusal_of(of_family("gpt"), rotary), "accepted");
  EXPECT_EQ(refusal_of(of_family("bert"), rotary),
            "--position-embedding-type rope is a flag of gpt and t5, not of bert: leave it out");
  EXPECT_THAT(refusal_of(t5(), rotary),
              HasSubstr("a T5 has learned_absolute or relative positions"));
  EXPECT_THAT(refusal_of(t5(),
                         [](TrainConfig& c) {
                           c.model.window_size = "3,0";
                           c.model.qk_layernorm = true;
                         }),
              AllOf(HasSubstr("--window-size 3,0 is a flag of gpt"), HasSubstr("--qk-layernorm")));
  EXPECT_THAT(refusal_of(of_family("gpt"),
                         [](TrainConfig& c) {
                           c.model.scale_decoder_output = true;
                           c.model.disable_output_bias = true;
                         }),
              AllOf(HasSubstr("--scale-decoder-output is a flag of t5"),
                    HasSubstr("--disable-output-bias is a flag of t5")));
  for (const TrainConfig& c : {of_family("gpt"), of_family("bert"), t5()}) {
    EXPECT_EQ(refusal_of(c,
                         [](TrainConfig& m) {
                           m.model.normalization = "RMSNorm";
                           m.model.activation_func = "relu";
                           m.model.gated_linear_unit = true;
                           m.model.disable_bias_linear = true;
                         }),
              "accepted");
  }
}

TEST(FamilyConfig, TheDecodersLengths) {
  TrainConfig c = t5();
  c.model.decoder_num_layers = 0;
  resolve(c, true);
  EXPECT_EQ(c.model.decoder_num_layers, 4);
  EXPECT_THAT(refusal_of(t5(), [](TrainConfig& t) { t.data.decoder_seq_length = 0; }),
              HasSubstr("--decoder-seq-length must be given"));
  EXPECT_THAT(refusal_of(t5(), [](TrainConfig& t) { t.data.decoder_seq_length = 25; }),
              HasSubstr("--max-position-embeddings 24 is below --decoder-seq-length 25"));
  EXPECT_THAT(refusal_of(t5(),
                         [](TrainConfig& t) {
                           t.layout.world_size = 16;
                           t.layout.tensor_model_parallel_size = 4;
                           t.layout.sequence_parallel = true;
                           t.data.decoder_seq_length = 14;
                         }),
              HasSubstr("--decoder-seq-length 14 is not a multiple of --tensor-model-parallel-size "
                        "4"));
}

TEST(FamilyConfig, RelativePositions) {
  const auto relative = [](TrainConfig& t) {
    t.model.position_embedding_type = "relative";
    t.data.decoder_seq_length = 400;  // there is no table
  };
  EXPECT_EQ(refusal_of(t5(), relative), "accepted");
  EXPECT_THAT(refusal_of(t5(), [](TrainConfig& t) { t.model.relative_attention_num_buckets = 16; }),
              HasSubstr("need --position-embedding-type relative"));
  EXPECT_THAT(refusal_of(t5(),
                         [&](TrainConfig& t) {
                           relative(t);
                           t.model.relative_attention_num_buckets = 30;
                         }),
              HasSubstr("--relative-attention-num-buckets 30 is not a multiple of 4"));
  EXPECT_THAT(refusal_of(t5(),
                         [&](TrainConfig& t) {
                           relative(t);
                           t.model.relative_attention_max_distance = 16;
                         }),
              HasSubstr("--relative-attention-max-distance 16 must be above 16"));
}

TEST(SplitConfig, EverySplitThatComesOutEven) {
  const auto at = [](std::int64_t split) {
    return [split](TrainConfig& c) {
      c.model.decoder_num_layers = 12;
      c.layout.pipeline_model_parallel_split_rank = split;
    };
  };
  EXPECT_THAT(layers_of(t5(), at(1)), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(layers_of(t5(), at(2)), ElementsAre(2, 2, 6, 6));
  EXPECT_THAT(refusal_of(t5(), at(3)),
              HasSubstr("--encoder-num-layers 4 is not a multiple of the 3"));
  EXPECT_THAT(refusal_of(t5(), at(4)), HasSubstr("must be from 1 to 3"));
  EXPECT_THAT(refusal_of(t5(), at(0)),
              HasSubstr("4 pipeline stages need --pipeline-model-parallel-split-rank"));
  // Without a pipeline there is nothing to cut.
  EXPECT_EQ(refusal_of(t5(),
                       [](TrainConfig& c) {
                         c.layout.world_size = 1;
                         c.layout.pipeline_model_parallel_size = 1;
                       }),
            "accepted");
}

TEST(SplitConfig, TheEncodersSizeIsAnotherWayToSayIt) {
  const auto sizes = [](std::int64_t encoder, std::int64_t decoder) {
    return [=](TrainConfig& c) {
      c.layout.pipeline_model_parallel_split_rank = 0;
      c.layout.encoder_pipeline_model_parallel_size = encoder;
      c.layout.pipeline_model_parallel_size = decoder;
    };
  };
  EXPECT_THAT(layers_of(t5(), sizes(2, 2)), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(layers_of(t5(), sizes(1, 3)), ElementsAre(4, 2, 2, 2));
  EXPECT_THAT(refusal_of(t5(), sizes(2, 3)), HasSubstr("4 ranks"));
  TrainConfig one = t5();
  sizes(1, 1)(one);
  one.layout.world_size = 2;
  resolve(one, true);
  EXPECT_EQ(one.layout.pipeline_model_parallel_size, 2);
  EXPECT_EQ(one.layout.pipeline_model_parallel_split_rank, 1);
  const auto before = argument_values(one);
  resolve(one, true);
  EXPECT_EQ(argument_values(one), before);
  EXPECT_THAT(
      refusal_of(t5(), [](TrainConfig& c) { c.layout.encoder_pipeline_model_parallel_size = 1; }),
      HasSubstr("exclude each other"));
  EXPECT_THAT(refusal_of(t5(),
                         [](TrainConfig& c) {
                           c.layout.world_size = 8;
                           c.layout.tensor_model_parallel_size = 2;
                           c.layout.encoder_tensor_model_parallel_size = 1;
                         }),
              HasSubstr("whose equal gradients it may not add up"));
  EXPECT_EQ(refusal_of(t5(),
                       [](TrainConfig& c) {
                         c.layout.world_size = 8;
                         c.layout.tensor_model_parallel_size = 2;
                         c.layout.encoder_tensor_model_parallel_size = 2;
                       }),
            "accepted");
}

TEST(SplitConfig, SchedulesWithOneStageOnEveryRank) {
  const std::vector<std::string> can = {"naive", "gpipe", "1f1b",          "eager-1f1b",
                                        "zb-h1", "zb-h2", "backward-first"};
  for (const ScheduleKind& kind : schedule_kinds()) {
    const auto with_kind = [&](TrainConfig& c) { c.layout.pipeline_schedule = kind.name; };
    if (std::ranges::find(can, kind.name) == can.end()) {
      EXPECT_THAT(refusal_of(t5(), with_kind),
                  AllOf(HasSubstr("cannot run an encoder and a decoder"),
                        HasSubstr("naive, gpipe, 1f1b, eager-1f1b, zb-h1, zb-h2, backward-first")))
          << kind.name;
      continue;
    }
    EXPECT_THAT(layers_of(t5(), with_kind), ElementsAre(2, 2, 3, 3)) << kind.name;
    // Generated, verified and lowered.
    TrainConfig c = t5();
    with_kind(c);
    resolve(c, true);
    EXPECT_EQ(step_programs(c).training.begin()->second.ranks.size(), 4U) << kind.name;
  }
  EXPECT_THAT(
      refusal_of(t5(), [](TrainConfig& c) { c.layout.num_virtual_stages_per_pipeline_rank = 2; }),
      HasSubstr("one stage on every rank"));
  EXPECT_THAT(
      refusal_of(t5(), [](TrainConfig& c) { c.layout.num_layers_per_virtual_pipeline_stage = 1; }),
      HasSubstr("one stage on every rank"));
}

TEST(SplitConfig, AStandaloneEmbedding) {
  const auto standalone = [](TrainConfig& c) { c.layout.standalone_embedding_stage = true; };
  EXPECT_THAT(layers_of(t5(), standalone), ElementsAre(0, 4, 3, 3));
  EXPECT_THAT(layers_of(of_family("gpt"),
                        [&](TrainConfig& c) {
                          standalone(c);
                          c.model.num_layers = 6;
                        }),
              ElementsAre(0, 2, 2, 2));
  EXPECT_THAT(layers_of(of_family("gpt"),
                        [&](TrainConfig& c) {
                          standalone(c);
                          c.model.num_layers = 5;
                          c.layout.decoder_last_pipeline_num_layers = 1;
                        }),
              ElementsAre(0, 2, 2, 1));
  EXPECT_THAT(refusal_of(of_family("gpt"),
                         [&](TrainConfig& c) {
                           standalone(c);
                           c.model.num_layers = 2;
                         }),
              HasSubstr("less than the 3 stages"));
  EXPECT_THAT(refusal_of(of_family("gpt"),
                         [&](TrainConfig& c) {
                           standalone(c);
                           c.model.num_layers = 16;
                           c.layout.num_virtual_stages_per_pipeline_rank = 2;
                         }),
              HasSubstr("needs one stage on every rank"));
  EXPECT_THAT(refusal_of(of_family("gpt"),
                         [&](TrainConfig& c) {
                           standalone(c);
                           c.layout.decoder_first_pipeline_num_layers = 1;
                         }),
              HasSubstr("exclude each other"));
  EXPECT_THAT(refusal_of(of_family("gpt"),
                         [&](TrainConfig& c) {
                           standalone(c);
                           c.layout.world_size = 1;
                           c.layout.pipeline_model_parallel_size = 1;
                         }),
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
    try {
      flags.parse(words);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  TrainConfig config;
  EXPECT_EQ(parse({"--encoder-num-layers", "3", "--encoder-seq-length", "7"}, config), "");
  EXPECT_EQ(config.model.num_layers, 3);
  EXPECT_EQ(config.data.seq_length, 7);
  EXPECT_EQ(parse({"--encoder-num-layers", "3", "--num-layers", "3", "--seq-length", "7"}, config),
            "");
  EXPECT_THAT(
      parse({"--encoder-num-layers", "3", "--num-layers", "4", "--seq-length", "7"}, config),
      HasSubstr("contradicts --num-layers 4: give one"));
}

}  // namespace
}  // namespace phalanx
