#include "phalanx/train/config.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

TrainConfig valid() {
  TrainConfig c;
  c.num_layers = 2;
  c.hidden_size = 64;
  c.num_attention_heads = 4;
  c.max_position_embeddings = 32;
  c.seq_length = 32;
  c.micro_batch_size = 2;
  c.global_batch_size = 8;
  c.train_iters = 100;
  c.lr = 1e-3;
  c.data_path = "data";
  return c;
}

// The message must name the flags to blame.
void expect_refused(const std::function<void(TrainConfig&)>& spoil, const std::string& flag) {
  TrainConfig c = valid();
  spoil(c);
  try {
    resolve(c, true);
    FAIL() << flag << " was accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find(flag), std::string::npos) << error.what();
  }
}

TEST(TrainConfig, DerivesWhatIsOpen) {
  TrainConfig c = valid();
  resolve(c, true);
  EXPECT_EQ(c.ffn_hidden_size, 256);
  EXPECT_EQ(c.kv_channels, 16);
  EXPECT_EQ(c.num_query_groups, 4);
  EXPECT_GE(c.threads_per_rank, 1);
  EXPECT_EQ(num_microbatches(c), 4);
  EXPECT_EQ(train_iterations(c), 100);
  const GptConfig model = gpt_config(c, 50257);
  EXPECT_EQ(model.padded_vocabulary, 50304);
  resolve(c, true);  // resolving twice changes nothing
  EXPECT_EQ(c.ffn_hidden_size, 256);
}

TEST(TrainConfig, CountsSamplesOfSchedules) {
  TrainConfig c = valid();
  c.lr_decay_iters = 50;
  c.lr_warmup_fraction = 0.1;
  resolve(c, true);
  EXPECT_EQ(parameter_schedule(c).decay_samples, 400);
  EXPECT_EQ(parameter_schedule(c).warmup_samples, 40);
  TrainConfig s = valid();
  s.train_iters = 0;
  s.train_samples = 1004;
  s.lr_warmup_samples = 10;
  resolve(s, true);
  EXPECT_EQ(train_iterations(s), 125);
  EXPECT_EQ(parameter_schedule(s).decay_samples, 1004);
  EXPECT_EQ(parameter_schedule(s).warmup_samples, 10);
}

TEST(TrainConfig, RefusesWithTheFlagsName) {
  expect_refused([](TrainConfig& c) { c.num_layers = 0; }, "--num-layers");
  expect_refused([](TrainConfig& c) { c.hidden_size = 65; }, "--num-attention-heads");
  expect_refused([](TrainConfig& c) { c.max_position_embeddings = 8; }, "--seq-length");
  expect_refused([](TrainConfig& c) { c.global_batch_size = 7; }, "--micro-batch-size");
  expect_refused([](TrainConfig& c) { c.hidden_dropout = 1.0; }, "--hidden-dropout");
  expect_refused([](TrainConfig& c) { c.attention_dropout = -0.1; }, "--attention-dropout");
  expect_refused([](TrainConfig& c) { c.lr.reset(); }, "--lr");
  expect_refused([](TrainConfig& c) { c.min_lr = 1.0; }, "--min-lr");
  expect_refused([](TrainConfig& c) { c.train_samples = 5; }, "--train-samples");
  expect_refused([](TrainConfig& c) { c.lr_warmup_samples = 5; }, "--lr-warmup-samples");
  expect_refused([](TrainConfig& c) { c.lr_warmup_iters = 100; }, "warm-up");
  expect_refused([](TrainConfig& c) { c.lr_decay_style = "cosin"; }, "--lr-decay-style");
  expect_refused([](TrainConfig& c) { c.matmul_precision = "bf16"; }, "--bf16");
  expect_refused([](TrainConfig& c) { c.matmul_precision = "fp8"; }, "--matmul-precision");
  expect_refused([](TrainConfig& c) { c.attention_backend = "flash"; }, "--attention-backend");
  expect_refused([](TrainConfig& c) { c.data_path.clear(); }, "--data-path");
  expect_refused([](TrainConfig& c) { c.save = "x"; }, "--save-interval");
  expect_refused([](TrainConfig& c) { c.seed = 0; }, "--seed");
  expect_refused([](TrainConfig& c) { c.start_weight_decay = 0.0; }, "--weight-decay-incr-style");
  expect_refused(
      [](TrainConfig& c) {
        c.group_query_attention = true;
        c.num_query_groups = 3;
      },
      "--num-query-groups");
}

}  // namespace
}  // namespace phalanx
