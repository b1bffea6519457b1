// Command lines, files of flags and resumed runs, through the built program.

#include <gmock/gmock.h>

#include <algorithm>

#include "program_test.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class CommandLineTest : public ProgramTest {};

TEST_F(CommandLineTest, AllFaultsOfACallAreTold) {
  expect_error("pretrain gpt --num-layer 2 --lr x --global-batch-size 4294967298 a", 64,
               "--num-layer: unknown flag; did you mean --num-layers?");
  const ProgramOutput output =
      run("pretrain gpt --num-layer 2 --lr x --global-batch-size 4294967298 a");
  EXPECT_THAT(output.err, AllOf(HasSubstr("--lr x: is not a number"),
                                HasSubstr("--global-batch-size 4294967298: must be from 0"),
                                HasSubstr("a belongs to no flag"),
                                HasSubstr("--data-path, --seq-length must be given")));
  // And those of settings that are possible one by one.
  const ProgramOutput settings =
      run("plan gpt --num-layers 2 --hidden-size 30 --num-attention-heads 4 --seq-length 8 "
          "--max-position-embeddings 8 --split 0,0 --min-lr 2 --lr 1 --trace t.svg");
  EXPECT_EQ(settings.status, 78);
  EXPECT_THAT(settings.err, AllOf(HasSubstr("--hidden-size 30"), HasSubstr("--split 0,0"),
                                  HasSubstr("--min-lr 2"), HasSubstr("--trace t.svg")));
}

// What people try: a model's name, another program's script, a comparison of one run. One line
// each.
TEST_F(CommandLineTest, WhatIsMeantIsTold) {
  const auto only_line = [&](const std::string& words, int status) {
    const ProgramOutput output = run(words);
    EXPECT_EQ(output.status, status) << words;
    EXPECT_EQ(std::ranges::count(output.err, '\n'), 1) << output.err;
    return output.err;
  };
  for (const std::string name : {"llama", "meta-llama/Llama-3.1-8B"}) {
    EXPECT_THAT(only_line("pretrain " + name, 64),
                HasSubstr(name + " is a model of the family gpt, with flags of its own: phalanx "
                                 "pretrain gpt --yaml-cfg examples/llama3_8b.yaml has them"));
  }
  EXPECT_THAT(only_line("plan bert-large", 64), HasSubstr("phalanx plan bert FLAGS"));
  EXPECT_THAT(only_line("pretrain gtp", 64), HasSubstr("(did you mean gpt?)"));
  EXPECT_THAT(only_line("pretrain mamba", 64), HasSubstr("phalanx pretrain gpt|bert|t5 FLAGS"));
  EXPECT_THAT(only_line("pretrain pretrain_gpt.py --num-layers 2", 64),
              HasSubstr("give its flags to phalanx pretrain gpt"));
  EXPECT_THAT(only_line("tools/preprocess_data.py --input x", 64),
              HasSubstr("give its flags to phalanx preprocess-data"));
  EXPECT_THAT(only_line("launch --nproc-per-node 2 pretrain_gpt.py --num-layers 2", 64),
              HasSubstr("phalanx launch --nproc-per-node 2 pretrain gpt ..."));
  const std::string model =
      "plan gpt --num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 8 "
      "--max-position-embeddings 8 --micro-batch-size 1 --vocab-size 20 --world-size 2 "
      "--tokenizer-type NullTokenizer --svg c.svg ";
  EXPECT_THAT(
      only_line(model + "--compare '--zero-stage 1'", 64),
      HasSubstr("--compare '--zero-stage 1' names one run: put | between the flags of two"));
  const ProgramOutput compared = run(model + "--compare '--zero-stage 1 --bf16 | zero_stage=2'");
  EXPECT_EQ(compared.status, 0) << compared.err;
  EXPECT_THAT(compared.out,
              AllOf(HasSubstr("--zero-stage 1 --bf16, "), HasSubstr("--zero_stage 2, ")));
}

// The flags of Megatron's that a script has and no result depends on are one line of the log.
TEST_F(CommandLineTest, AScriptOfMegatronsPassesOver) {
  prepare();
  const ProgramOutput output =
      run("pretrain gpt --wandb-project p --wandb-exp-name e --async-strategy nvrx --log-straggler "
          "--dist-ckpt-strictness assume_ok_unexpected --profile --profile-ranks 0 1 " +
          training());
  EXPECT_EQ(output.status, 0) << output.err;
  const std::string log = output.out + output.err;
  const auto begin = log.find("passed over, for no result depends on them: ");
  ASSERT_NE(begin, std::string::npos) << log;
  const std::string note = log.substr(begin, log.find('\n', begin) - begin);
  EXPECT_THAT(note, AllOf(HasSubstr("--async-strategy nvrx"), HasSubstr("--wandb-project p"),
                          HasSubstr("--profile-ranks 0 1"), HasSubstr("--tensorboard-dir"),
                          HasSubstr("metrics.jsonl of --save")));
  EXPECT_EQ(log.find("--wandb-exp-name", begin + note.size()), std::string::npos);
}

// Standard error is a pipe that is full, and that nobody reads: the log is for people, the run is
// not.
TEST_F(CommandLineTest, ARunWaitsForNobodyWhoReadsItsLog) {
  prepare();
  const std::string fifo =
      "mkfifo unread && { sleep 300 < unread & reader=$!; head -c 65536 /dev/zero > unread; }";
  const ProgramOutput output = run_between(
      fifo, "pretrain gpt --nproc 2 --save run --save-interval 8 --log-interval 1 " + training(),
      "2> unread; status=$?; kill $reader; exit $status");
  EXPECT_EQ(output.status, 0);
  EXPECT_EQ(metrics("run").back()["iteration"], 8);
}

// As daemons start programs. What has nowhere to go is no file's or socket's.
TEST_F(CommandLineTest, StandardStreamsMayBeClosed) {
  prepare();
  for (const char* closed : {"<&-", "<&- >&- 2>&-"}) {
    const ProgramOutput output =
        run_between("", "launch --nproc-per-node 2 pretrain gpt " + training(), closed);
    EXPECT_EQ(output.status, 0) << closed << ": " << output.err;
  }
}

TEST_F(CommandLineTest, AWorkingDirectoryThatIsGoneIsTold) {
  const std::string call = fmt::format(
      "; mkdir gone && cd gone && rmdir ../gone && '{}' launch --log-dir logs version "
      "2> \"$here/told\"",
      program_path());
  EXPECT_EQ(run_between("here=$PWD", "version", call).status, 66);
  EXPECT_THAT(read("told"), HasSubstr("logs: the working directory cannot be found"));
}

// Names that are no text would come back from JSON as other names.
TEST_F(CommandLineTest, NamesThatAreNoUtf8AreRefusedByTheirFlag) {
  const std::string train =
      "pretrain gpt --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 "
      "--max-position-embeddings 8 --micro-batch-size 1 --train-iters 1 --lr 1e-3 --mock-data "
      "--tokenizer-type NullTokenizer --vocab-size 9 --eval-iters 0 --save-interval 1 ";
  const std::string name = "\"$(printf 'run\\377')\"";
  const std::string shown = "'run\\xff': not UTF-8 from byte 4 on";
  expect_error(train + "--save " + name, 64, "--save " + shown);
  expect_error("launch --nproc-per-node 2 " + train + "--save " + name, 64, "--save " + shown);
  expect_error("checkpoint info " + name, 64, shown);
  expect_error(name, 64, "unknown command run\\xff");
  const auto with_variable = [&](const std::string& variable, const std::string& words,
                                 const std::string& mention) {
    const ProgramOutput output = run_between("export " + variable + "=" + name, words, "");
    EXPECT_EQ(output.status, 64);
    EXPECT_NE(output.err.find(mention), std::string::npos) << output.err;
  };
  with_variable("PET_LOG_DIR", "launch --nproc-per-node 1 " + train,
                "the environment's PET_LOG_DIR " + shown);
  write("run.yaml", "save: ${PLACE}\n");
  with_variable("PLACE", train + "--yaml-cfg run.yaml --yaml-env",
                "run.yaml:1:7: the environment's PLACE " + shown);
  // In a directory of such a name nothing begins that could not go on.
  run_between("here=$PWD",
              "version >/dev/null; mkdir " + name + " && cd " + name + " && '" + program_path() +
                  "' " + train + "--save run 2>\"$here/told\" #",
              "");
  EXPECT_THAT(read("told"), HasSubstr("run\\xff/run: the path is not UTF-8"));
}

// A plan judges what it does not read, and needs no file.
TEST_F(CommandLineTest, APlanJudgesEveryGivenValue) {
  const std::string shape =
      "plan gpt --num-layers 010 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 ";
  EXPECT_EQ(run_json(shape + "--json").at("model").at("layers"), 10);
  expect_error(shape + "--lr-decay-style liner", 78, "--lr-decay-style liner");
  expect_error(shape + "--split 1,x", 64, "--split 1,x");
  expect_error(shape + "--train-iters 9 --train-samples 9", 78, "one of --train-iters");
  expect_error(shape + "--num-query-groups 2", 78, "--group-query-attention");
  expect_error(shape + "--save-interval 5", 78, "needs --save");
  expect_error(shape + "--initial-loss-scale 5", 78, "needs --fp16");
  expect_error(shape + "--lr-warmup-iters -3", 78, "must be from 0");
  EXPECT_EQ(run(shape + "--data-path 0.5 a 0.5 b").status, 0);
  expect_error(shape + "--data-path 0.5 a x b", 78, "x is none");
  expect_error(shape + "--data-path a --mock-data", 78, "--data-path and --mock-data");
  expect_error(shape + "--train-iters 9007199254740992 --global-batch-size 1024", 78, "64 bits");
  expect_error(shape + "--global-batch-size 2147483647", 78, "raise --micro-batch-size");
  expect_error(
      "plan gpt --num-layers 65534 --hidden-size 1048576 --num-attention-heads 4096 "
      "--seq-length 2147483647 --max-position-embeddings 2147483647 "
      "--micro-batch-size 2147483647",
      78, "beyond 64 bits");
  const ProgramOutput missing = run(shape + "--vocab-file no.json --merge-file no.txt --load no");
  EXPECT_EQ(missing.status, 0) << missing.err;
  EXPECT_THAT(missing.err, HasSubstr("50257"));
  // One copy of the model where no number of ranks is given.
  EXPECT_EQ(run_json(shape + "--tensor-model-parallel-size 4 --json").at("ranks").size(), 4U);
  expect_error("dataset head --data-path x --tokens -5", 78, "--tokens -5: must be at least 0");
}

TEST_F(CommandLineTest, ARunSaysWhatItsFlagsMean) {
  prepare();
  const ProgramOutput output =
      run("pretrain gpt " + training() +
          "--batch-size 1 --num_workers 4 --accumulate-allreduce-grads-in-fp32 --local_rank 0");
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_THAT(output.err, AllOf(HasSubstr("--batch-size is now called --micro-batch-size\n"),
                                HasSubstr("--local_rank 0: "),
                                HasSubstr("--accumulate-allreduce-grads-in-fp32: main gradients")));
  EXPECT_THAT(output.err,
              AllOf(HasSubstr("------------------------ arguments ------------------------\n"),
                    HasSubstr("\n  micro_batch_size ................................ 1\n"),
                    HasSubstr("\n  num_workers ..................................... 4\n"),
                    HasSubstr("\n-------------------- end of arguments ---------------------\n")));
}

// The printed file starts the same run again, and alone stands on standard output.
TEST_F(CommandLineTest, APrintedCallMakesTheSameRun) {
  prepare();
  const std::string call = "pretrain gpt " + training() + "--save one --save-interval 8 ";
  const ProgramOutput printed = run(call + "--print-yaml");
  EXPECT_EQ(printed.status, 0);
  EXPECT_EQ(printed.err, "");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "one"));
  write("run.yaml", printed.out);
  EXPECT_EQ(run("pretrain gpt --yaml-cfg run.yaml --print-yaml").out, printed.out);
  ASSERT_EQ(run(call).status, 0);
  ASSERT_EQ(run("pretrain gpt --yaml-cfg run.yaml --save two").status, 0);
  EXPECT_EQ(run_json("checkpoint digest one --json"), run_json("checkpoint digest two --json"));
  // A call that could not run is not printed.
  expect_error(call + "--print-yaml --lr x", 64, "--lr x");
}

TEST_F(CommandLineTest, FilesThatCannotBeReadAreNamed) {
  expect_error("plan gpt --yaml-cfg no.yaml", 66, "no.yaml");
  write("bad.yaml", "num_layers: 1\nnum_layers: 2\n");
  expect_error("plan gpt --yaml-cfg bad.yaml", 65, "bad.yaml:2:1");
  write("odd.yaml", "language_model:\n  num_layer: 2\n");
  expect_error("plan gpt --yaml-cfg odd.yaml", 64, "odd.yaml:2:3: num_layer: no flag");
}

TEST_F(CommandLineTest, ResumedRunsKeepWhatTheirBitsNeed) {
  prepare();
  const std::string call =
      "pretrain gpt " + training() + "--save run --load run --save-interval 4 ";
  ASSERT_EQ(run(call + "--exit-interval 4").status, 0);
  expect_error(call + "--seed 5 --eod-mask-loss --lr 0.5", 78, "--seed is 5");
  const ProgramOutput all = run(call + "--seed 5 --eod-mask-loss --lr 0.5");
  EXPECT_THAT(all.err,
              AllOf(HasSubstr("--eod-mask-loss is true"), ContainsRegex("--lr +0.5 +0.01\n")));
  expect_error(call + "--allow-changed sed --seed 5", 78, "--allow-changed sed");
  expect_error("pretrain gpt " + training() + "--allow-changed seed", 78, "needs --load");
  // The same values, spelt otherwise.
  const ProgramOutput changed = run(call +
                                    "--split '90, 5/5.0' --seed 5 --eod-mask-loss "
                                    "--clip-grad 0.5 --allow-changed seed,eod_mask_loss");
  EXPECT_EQ(changed.status, 0) << changed.err;
  EXPECT_THAT(changed.err,
              AllOf(HasSubstr("warning: --seed is 5"), HasSubstr("warning: --clip-grad is 0.5"),
                    Not(HasSubstr("warning: --split"))));
}

TEST_F(CommandLineTest, TheCheckpointSpeaksWhereTheCallIsSilent) {
  prepare();
  ASSERT_EQ(run("pretrain gpt " + training() + "--save run --save-interval 8").status, 0);
  const std::string silent =
      "--micro-batch-size 2 --global-batch-size 4 --lr 1e-2 --train-iters 8 --lr-decay-iters 8 "
      "--lr-warmup-iters 2 --data-path data_text_document --split 90,5,5 --eval-iters 1 "
      "--threads-per-rank 2 " +
      tokenizer() + "--load run ";
  expect_error("pretrain gpt " + silent, 64, "--num-layers, --hidden-size");
  const ProgramOutput output = run("pretrain gpt " + silent + "--use-checkpoint-args");
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_THAT(output.err, HasSubstr("\n  hidden_size ..................................... 32\n"));
  // The call wins, and is judged.
  expect_error("pretrain gpt " + silent + "--use-checkpoint-args --hidden-size 64", 78,
               "--hidden-size is 64");
  EXPECT_EQ(
      run_json("plan gpt --use-checkpoint-args --load run --json").at("model").at("hidden_size"),
      32);
}

}  // namespace
}  // namespace phalanx
