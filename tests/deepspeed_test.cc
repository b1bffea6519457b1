// DeepSpeed files, through the built program.

#include <gmock/gmock.h>

#include "program_test.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class DeepspeedTest : public ProgramTest {
 protected:
  static constexpr const char* kModel =
      "gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 "
      "--max-position-embeddings 16 --mock-data --tokenizer-type NullTokenizer --vocab-size 60 "
      "--train-iters 4 --eval-iters 0 --threads-per-rank 1 --nproc 2 ";
};

// A bit of every section, such that each key decides bits or messages.
constexpr const char* kFile = R"({
  "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2,
  "gradient_clipping": 0.5, "steps_per_print": 2, "seed": 77,
  "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 8, "loss_scale_window": 2},
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-2, "betas": [0.8, 0.95], "eps": 1e-6,
                                            "weight_decay": 0.1}},
  "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_type": "linear", "cos_min_ratio": 0.1,
                                                     "warmup_num_steps": 2, "total_num_steps": 4}},
  "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 5e3,
                        "contiguous_gradients": true,
                        "offload_optimizer": {"device": "cpu", "pin_memory": true}}
})";
constexpr const char* kFlags =
    "--global-batch-size 8 --micro-batch-size 2 --clip-grad 0.5 --log-interval 2 --seed 77 --fp16 "
    "--initial-loss-scale 256 --loss-scale-window 2 --lr 3e-2 --adam-beta1 0.8 --adam-beta2 0.95 "
    "--adam-eps 1e-6 --weight-decay 0.1 --lr-decay-style cosine --min-lr 3e-3 --lr-warmup-iters 2 "
    "--lr-decay-iters 4 --zero-stage 2 --overlap-grad-reduce --ddp-bucket-size 5000 ";

TEST_F(DeepspeedTest, AFileMakesTheRunOfItsFlags) {
  write("ds.json", kFile);
  const std::string call = std::string("pretrain ") + kModel;
  const std::string save = "--save-interval 4 --save ";
  const ProgramOutput by_file = run(call + save + "one --deepspeed-config ds.json");
  ASSERT_EQ(by_file.status, 0) << by_file.err;
  EXPECT_THAT(by_file.err, HasSubstr("ds.json: zero_optimization.offload_optimizer.device: "
                                     "optimizer states lie in the host's memory"));
  EXPECT_THAT(by_file.err,
              HasSubstr("\n  clip_grad ....................................... 0.5\n"));
  ASSERT_EQ(run(call + save + "two " + kFlags).status, 0);
  const Json digest = run_json("checkpoint digest one --json");
  EXPECT_EQ(digest, run_json("checkpoint digest two --json"));

  // The same call without the file.
  const ProgramOutput printed = run(call + "--deepspeed-config ds.json --print-yaml");
  EXPECT_THAT(printed.out, AllOf(HasSubstr("min_lr: 0.003"), Not(HasSubstr("deepspeed"))));
  write("run.yaml", printed.out);
  ASSERT_EQ(run("pretrain gpt --yaml-cfg run.yaml " + save + "three").status, 0);
  EXPECT_EQ(digest, run_json("checkpoint digest three --json"));
}

TEST_F(DeepspeedTest, FaultsNameTheFileAndTheKey) {
  const std::string call = std::string("pretrain ") + kModel + "--deepspeed-config ds.json ";
  expect_error(call, 66, "ds.json");
  const auto refuse = [&](const std::string& text, int status, const std::string& mention) {
    write("ds.json", text);
    expect_error(call, status, mention);
  };
  refuse("{\"seed\": 1, // of all\n}", 65, "ds.json:1:13: a comment");
  refuse("{\"zero_optimization\": {\"stge\": 1}}", 64, "did you mean zero_optimization.stage?");
  refuse(
      "{\"zero_optimization\": {\"stage\": 4}, \"train_batch_size\": 2, "
      "\"optimizer\": {\"params\": {\"lr\": 1}}}",
      78, "ds.json: zero_optimization.stage 4: must be from 0 to 3");
  refuse(
      "{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2, "
      "\"gradient_accumulation_steps\": 3, \"optimizer\": {\"params\": {\"lr\": 1}}}",
      78, "x 2 data-parallel ranks are 12, and train_batch_size is 8");
}

TEST_F(DeepspeedTest, APlanReadsItToo) {
  write("ds.json", R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3,
                       "zero_optimization": {"stage": 3, "mics_shard_size": 2}})");
  const std::string shape =
      "plan gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 "
      "--max-position-embeddings 16 --json --world-size 4 ";
  EXPECT_EQ(run_json(shape + "--deepspeed_config ds.json"),
            run_json(shape + "--micro-batch-size 2 --global-batch-size 24 --zero-stage 3 "
                             "--num-distributed-optimizer-instances 2"));
}

}  // namespace
}  // namespace phalanx
