// The program as people and scripts use it: exit codes, messages, JSON documents.

#include "program_test.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>
#include <utility>

namespace phalanx {
namespace {

using Json = nlohmann::json;
using Output = ProgramOutput;

// Help is an answer: on standard output, alone.
TEST_F(ProgramTest, HelpIsThereForEveryCommand) {
  const Output usage = run("--help");
  EXPECT_EQ(usage.status, 0) << usage.err;
  EXPECT_EQ(usage.err, "");
  EXPECT_EQ(run("help").out, usage.out);
  EXPECT_EQ(run("-h").out, usage.out);
  const auto expect_help = [&](const std::string& words, const std::string& mention) {
    const Output output = run(words);
    EXPECT_EQ(output.status, 0) << words << "\n" << output.err;
    EXPECT_EQ(output.err, "") << words;
    EXPECT_NE(output.out.find(mention), std::string::npos) << words << "\n" << output.out;
    EXPECT_NE(output.out, usage.out) << words;
  };
  // Whatever commands there are: an indented line each.
  std::set<std::string> commands;
  std::istringstream lines(usage.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ") && line[2] != ' ') {
      commands.insert(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  EXPECT_TRUE(commands.contains("pretrain") && commands.contains("import")) << usage.out;
  for (const std::string& command : commands) {
    for (const std::string& words : {command + " --help", command + " -h", "help " + command}) {
      expect_help(words, "usage: phalanx " + command);
    }
  }
  for (const auto& [verb, flag] : {std::pair{"dataset info", "--data-path"},
                                   {"dataset check", "--data-path"},
                                   {"dataset head", "--data-path"},
                                   {"dataset merge", "--output-prefix"},
                                   {"dataset samples", "--seq-length"},
                                   {"checkpoint info", "--json"},
                                   {"checkpoint digest", "--json"},
                                   {"checkpoint diff", "--json"},
                                   {"checkpoint verify", "--json"},
                                   {"checkpoint consolidate", "--output"},
                                   {"import llmc", "--tokens"},
                                   {"export llmc", "--tokens"},
                                   {"score", "--stride"},
                                   {"pretrain gpt", "--hidden-size"},
                                   {"plan gpt", "--hidden-size"},
                                   {"grid", "--tensor-model-parallel-size"},
                                   {"schedule", "--kind"},
                                   {"generate", "--max-tokens"}}) {
    expect_help(verb + std::string(" --help"), flag);
    EXPECT_NE(run(verb).status, 0) << verb << " lacks what its help says is required";
  }
}

TEST_F(ProgramTest, HelpForWhatIsNotThereIsAnError) {
  expect_error("pretain --help", 64, "did you mean pretrain?");
  expect_error("help pretain", 64, "did you mean pretrain?");
  expect_error("pretrain gtp --help", 64, "unknown model gtp");
  expect_error("dataset infos --help", 64, "info, check, head, merge or samples, not infos");
  expect_error("checkpoint show --help", 64, "info, digest, diff, verify or consolidate, not show");
  expect_error("import pytorch --help", 64, "llmc or hf, not pytorch");
  expect_error("export pytorch --help", 64, "llmc or hf, not pytorch");
}

TEST_F(ProgramTest, WithoutACommandTheUsageIsAnError) {
  const Output output = run("");
  EXPECT_EQ(output.status, 64);
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(output.err, run("--help").out);
  expect_error("dataset", 64, "info, check, head, merge or samples");
  expect_error("checkpoint", 64, "info, digest, diff, verify or consolidate");
  expect_error("import", 64, "llmc");
  expect_error("export", 64, "llmc");
}

TEST_F(ProgramTest, Version) {
  const Json version = run_json("version --json");
  EXPECT_GE(version.at("threads").get<int>(), 1);
  const std::string number = version.at("version");
  EXPECT_NE(run("--version").out.find(number), std::string::npos);
  EXPECT_NE(run("--help").out.find(number), std::string::npos);
  expect_error("version 2", 64, "2 belongs to no flag");
}

// Whatever computes says what it runs with, or refuses what it cannot.
TEST_F(ProgramTest, TheEnvironmentNamesTheTarget) {
  const auto with_target = [&](const std::string& target, const std::string& words) {
    return run_between("export PHALANX_CPU_TARGET=" + target, words, "");
  };
  const Json version = Json::parse(with_target("scalar", "version --json").out);
  EXPECT_EQ(version.at("target"), "scalar");
  const std::string best = version.at("targets").back();
  const ProgramOutput unnamed = run_between("unset PHALANX_CPU_TARGET", "version --json", "");
  EXPECT_EQ(Json::parse(unnamed.out).at("target"), best);

  prepare();
  const std::string pretrain =
      "pretrain gpt " + training() + "--train-iters 2 --eval-iters 0 --save run --save-interval 2";
  const Output trained = with_target("scalar", pretrain);
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.err.find("> CPU target: scalar (PHALANX_CPU_TARGET; the best here is " + best),
            std::string::npos)
      << trained.err;
  for (const std::string& words :
       {pretrain + " --overwrite", std::string("generate --load run --max-tokens 1"),
        "plan gpt --bf16 " + training(), std::string("version")}) {
    const Output refused = with_target("avx1024", words);
    EXPECT_EQ(refused.status, 78) << words << refused.err;
    EXPECT_NE(refused.err.find("PHALANX_CPU_TARGET is 'avx1024', which is no target: this machine "
                               "has scalar"),
              std::string::npos)
        << refused.err;
  }
}

// Two ranks on two cores have one each; less than all cores is left to the system.
TEST_F(ProgramTest, RanksThatShareOutTheCoresAreBound) {
  const int cores = run_json("version --json").at("threads");
  // A quota counts fewer cores than there are to be bound to.
  const bool has_quota = cores != static_cast<int>(std::thread::hardware_concurrency());
  if (cores < 2 || has_quota) GTEST_SKIP() << cores << " usable cores";
  prepare();
  const std::string words = "pretrain gpt " + training() +
                            "--global-batch-size 4 --train-iters 1 --eval-iters 0 --nproc 2 ";
  const auto says = [&](const std::string& command, const std::string& mention) {
    const Output output =
        run_between("unset OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY", command, "");
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_NE(output.err.find(mention), std::string::npos) << mention << "\n" << output.err;
  };
  says(words + "--threads-per-rank 0", "affinity: ranks on cores ");
  says(words + "--threads-per-rank 0 --no-cpu-affinity", "affinity: none (--no-cpu-affinity)");
  says(words + "--threads-per-rank " + std::to_string(cores),
       "affinity: none (there are more threads than cores)");
}

TEST_F(ProgramTest, WordsThatAreMissingOrTooManyAreNamed) {
  expect_error("pretrain gpt --hidden-size", 64, "--hidden-size");
  expect_error("generate --load", 64, "--load");
  expect_error("grid --world-size", 64, "--world-size");
  expect_error("grid --world-size 8 9", 64, "9 belongs to no flag");
  expect_error("tokenize text", 64, "text belongs to no flag");
  expect_error("schedule --kind 1f1b --microbatches 2.5", 64, "2.5");
  expect_error("checkpoint diff one", 64, "DIR");
  expect_error("checkpoint info one two", 64, "two belongs to no flag");
  expect_error("checkpoint info --jsn one", 64, "did you mean --json?");
}

TEST_F(ProgramTest, WrongUsageNamesTheNearest) {
  expect_error("pretain gpt", 64, "did you mean pretrain?");
  expect_error("pretrain gtp", 64, "unknown model gtp");
  expect_error("pretrain", 64, "name the model");
  expect_error("pretrain gpt --hiden-size 4", 64, "did you mean --hidden-size?");
  expect_error("pretrain gpt --zzzzzzzzzz", 64, "--zzzzzzzzzz: unknown flag");
  expect_error("pretrain gpt " + training() + "--multi-latent-attention", 78, "not available");
  expect_error("pretrain gpt --num-layers two", 64, "--num-layers");
  expect_error("pretrain gpt 12", 64, "12");
  expect_error("checkpoint show x", 64, "info, digest, diff, verify or consolidate");
  expect_error("generate", 64, "--load");
}

TEST_F(ProgramTest, BadSettingsNameTheFlags) {
  const std::string size =
      "--num-layers 1 --hidden-size 10 --num-attention-heads 4 --seq-length 8 "
      "--max-position-embeddings 8 --micro-batch-size 1 --vocab-size 10";
  expect_error("plan gpt " + size, 78, "--num-attention-heads");
  expect_error("plan gpt " + size + " --hidden-size 12 --matmul-precision bf16", 78, "--bf16");
  expect_error("plan gpt " + size + " --hidden-size 12 --device tpu", 78, "--device");
  expect_error("dataset info --data-path nothing", 66, "nothing.idx");
  expect_error("checkpoint info nothing", 66, "nothing");
  expect_error("tokenize --vocab-file a.json --merge-file b.txt", 66, "a.json");
}

TEST_F(ProgramTest, APlanPredictsAStep) {
  const std::string flags =
      "plan gpt --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 64 "
      "--max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 4 --vocab-size 500 "
      "--pipeline-model-parallel-size 2 --world-size 2 --bf16 ";
  const Json time = run_json(flags + "--json --cluster a100-80").at("time");
  EXPECT_GT(time.at("seconds").get<double>(), 0.0);
  EXPECT_EQ(time.at("price"), nullptr);
  const ProgramOutput drawn = run(flags + "--cluster h100 --tokens 1e9 --step-timeline step.txt");
  EXPECT_THAT(drawn.out, testing::HasSubstr("1e+09 tokens take"));
  EXPECT_THAT(read("step.txt"), testing::HasSubstr("rank 1"));
  EXPECT_THAT(
      run(flags + "--cluster h100 --svg memory.svg --compare 'seq-length=32 | seq-length=64'").out,
      testing::HasSubstr("--seq-length 64: a step on"));
  expect_error(flags + "--cluster h100 --step-timeline step.png", 64, ".svg, .txt or .json");
  expect_error(flags + "--cluster h1000", 78, "a100-40");
  expect_error(flags + "--step-timeline step.svg", 78, "--cluster");
  expect_error(flags + "--tokens 5", 78, "--cluster");
}

TEST_F(ProgramTest, PlansWithoutAllocating) {
  // 96 (12 h^2 + 13 h) + (51,200 + 2,048 + 2) h with h = 12,288.
  constexpr std::int64_t kGpt3 = 174615846912;
  const Json plan = run_json(
      "plan gpt --num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 "
      "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 1536 "
      "--vocab-size 51200 --bf16 --matmul-precision fp32 --json");
  EXPECT_EQ(plan.at("model").at("parameters").get<std::int64_t>(), kGpt3);
  const Json& bytes = plan.at("ranks").at(0).at("bytes");
  std::int64_t total = 0;
  for (const char* part : {"parameters", "main_parameters", "gradients", "optimizer", "saved",
                           "workspace", "communication", "constants"}) {
    total += bytes.at(part).get<std::int64_t>();
  }
  EXPECT_EQ(bytes.at("total").get<std::int64_t>(), total);
  EXPECT_GE(bytes.at("parameters").get<std::int64_t>(), 2 * kGpt3);
  EXPECT_GE(bytes.at("optimizer").get<std::int64_t>(), 8 * kGpt3);
  // 6 operations a parameter and token, and attention on top.
  EXPECT_GT(plan.at("flops_per_step").get<double>(), 6.0 * 174e9 * 1536 * 2048);
  EXPECT_EQ(plan.at("ranks").at(0).at("microbatches_in_flight").at(0).get<int>(), 1);
}

TEST_F(ProgramTest, PlansForManyRanks) {
  const std::string words =
      "plan gpt --num-layers 4 --hidden-size 64 --num-attention-heads 8 --seq-length 32 "
      "--max-position-embeddings 32 --micro-batch-size 1 --vocab-size 1000 --fp16 "
      "--tensor-model-parallel-size 4 --sequence-parallel --use-distributed-optimizer ";
  const Json small = run_json(words + "--world-size 8 --json");
  EXPECT_EQ(small.at("ranks").size(), 8U);
  EXPECT_EQ(small.at("model").at("dtype"), "f16");
  const Json large = run_json(words + "--world-size 128 --json");
  EXPECT_EQ(large.at("ranks").size(), 4U);
  EXPECT_EQ(large.at("ranks").at(2).at("same_as").size(), 31U);
  EXPECT_EQ(large.at("ranks").at(2).at("coordinates").at("tp"), 2);
  EXPECT_EQ(run_json(words + "--world-size 128 --all-ranks --json").at("ranks").size(), 128U);
  const Output text = run(words + "--world-size 8");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("8 ranks: tensor parallel 4 with sequence parallelism, data parallel 2"),
            std::string::npos)
      << text.out;
}

TEST_F(ProgramTest, BadLayoutsNameTheFlags) {
  const std::string words = "pretrain gpt " + training();
  expect_error(words + "--nproc 3 --tensor-model-parallel-size 2", 78,
               "--tensor-model-parallel-size 2");
  expect_error(words + "--nproc 4 --tensor-model-parallel-size 4", 78, "--num-attention-heads 2");
  expect_error(words + "--nproc 2 --global-batch-size 6", 78, "--global-batch-size 6");
  expect_error(words + "--nproc 3 --pipeline-model-parallel-size 2", 78,
               "--pipeline-model-parallel-size 2");
  expect_error(words + "--nproc 4 --pipeline-model-parallel-size 4", 78, "--num-layers 2");
  expect_error(words + "--nproc 2 --pipeline-model-parallel-size 2 --pipeline-schedule pipedream",
               78, "--clip-grad");
  expect_error(words +
                   "--nproc 2 --seq-length 31 --tensor-model-parallel-size 2 "
                   "--sequence-parallel",
               78, "--seq-length 31");
  expect_error(words + "--nproc 2 --overlap-param-gather", 78, "--use-distributed-optimizer");
  expect_error(words + "--recompute-granularity full", 78, "--recompute-method");
  expect_error(words + "--fp16 --bf16", 78, "--fp16");
  expect_error(words + "--nproc two", 64, "--nproc");
  expect_error(words + "--world-size 2", 64, "--world-size");
  EXPECT_EQ(run("plan gpt " + training() + "--nproc 2").status, 0);
}

TEST_F(ProgramTest, TokenizesAndBack) {
  prepare();
  const Output ids = run("tokenize " + tokenizer(), "And the 3 said\n\xff");
  ASSERT_EQ(ids.status, 0) << ids.err;
  EXPECT_TRUE(Json::parse(ids.out).is_array());
  EXPECT_EQ(run("tokenize --decode " + tokenizer(), ids.out).out, "And the 3 said\n\xff");
  EXPECT_EQ(run("tokenize --decode " + tokenizer(), "999999").status, 65);
  EXPECT_EQ(run("tokenize --decode " + tokenizer(), "[1,").status, 65);
}

TEST_F(ProgramTest, FromTextToText) {
  prepare();
  const Json info = run_json("dataset info --data-path data_text_document --json");
  EXPECT_EQ(info.at("documents").get<int>(), 400);
  const Json samples = run_json(
      "dataset samples --data-path data_text_document --split 90,5,5 --seq-length 32 --seed 1234 "
      "--train-samples 32 --valid-samples 12 --test-samples 4 --of train --first 3 --json");
  EXPECT_GE(samples.at("length").get<int>(), 32);
  EXPECT_EQ(samples.at("samples").size(), 3U);
  EXPECT_EQ(samples.at("samples").at(0).size(), 33U);

  const Output first =
      run("pretrain gpt " + training() + "--save one --save-interval 4 --keep-last 1");
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out, "");
  EXPECT_NE(first.err.find(" iteration        8/       8 |"), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("validation loss at iteration 8 on test set"), std::string::npos);
  EXPECT_EQ(read("one/latest_checkpointed_iteration.txt").substr(0, 1), "8");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "one/iter_0000004"));

  // In two parts: the same digests.
  ASSERT_EQ(run("pretrain gpt " + training() +
                "--save two --load two --save-interval 4 "
                "--exit-interval 4")
                .status,
            0);
  ASSERT_EQ(run("pretrain gpt " + training() + "--save two --load two --save-interval 4").status,
            0);
  const Json one = run_json("checkpoint digest one --json");
  EXPECT_EQ(one, run_json("checkpoint digest two --json"));
  EXPECT_EQ(one.at("iteration").get<int>(), 8);
  EXPECT_TRUE(one.at("tensors").contains("decoder.layers.0.mlp.linear_fc1.weight"));
  EXPECT_TRUE(one.at("tensors").contains("optimizer.exp_avg.decoder.layers.1.mlp.linear_fc2.bias"));
  EXPECT_EQ(run("checkpoint diff one two").status, 0);
  EXPECT_EQ(run("checkpoint diff one two/iter_0000004").status, 1);
  EXPECT_GT(run_json("checkpoint info one --json").at("parameters").get<int>(), 0);

  const std::string words = "generate --load one --prompt 'And the' --max-tokens 12 --seed 3";
  const Output text = run(words);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out.substr(0, 7), "And the");
  EXPECT_EQ(text.out, run(words).out);
  EXPECT_EQ(run_json(words + " --json").at("tokens").size(), 12U);
}

TEST_F(ProgramTest, TrainsOnTwoRanks) {
  prepare();
  const std::string words = "pretrain gpt " + training() + "--threads-per-rank 1 ";
  ASSERT_EQ(run(words + "--save one --save-interval 8").status, 0);
  const Output tensor = run(words +
                            "--nproc 2 --tensor-model-parallel-size 2 --sequence-parallel "
                            "--save two --save-interval 8");
  ASSERT_EQ(tensor.status, 0) << tensor.err;
  EXPECT_NE(tensor.err.find("world size 2, 1 threads per rank"), std::string::npos) << tensor.err;
  EXPECT_NE(tensor.err.find("> tensor-model-parallel size 2 with sequence parallelism"),
            std::string::npos)
      << tensor.err;
  const auto one = metrics("one");
  const auto two = metrics("two");
  ASSERT_EQ(one.size(), 8U);
  ASSERT_EQ(two.size(), 8U);
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double loss = one[i].at("lm_loss");
    EXPECT_NEAR(two[i].at("lm_loss").get<double>(), loss, 1e-5 * loss) << i;
  }
  // One rank writes on with what two have trained.
  const std::string prompt = "generate --prompt 'And the' --max-tokens 8 --seed 3 --load ";
  const Output text = run(prompt + "two");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out, run(prompt + "one").out);

  const Output data =
      run(words +
          "--nproc 2 --use-distributed-optimizer --overlap-grad-reduce "
          "--overlap-param-gather --fp16 --loss-scale-window 2 --initial-loss-scale 3e7 "
          "--recompute-granularity full --recompute-method uniform "
          "--log-num-zeros-in-grad --save three --save-interval 8");
  ASSERT_EQ(data.status, 0) << data.err;
  EXPECT_NE(data.err.find("data-parallel size 2 with a distributed optimizer"), std::string::npos)
      << data.err;
  EXPECT_NE(data.err.find("number of skipped iterations:   4"), std::string::npos) << data.err;
  EXPECT_TRUE(metrics("three").front().at("skipped").get<bool>());

  // Each rank writes its part: the same tensors as those of the first, "two".
  ASSERT_EQ(run(words + "--nproc 2 --tensor-model-parallel-size 2 --sequence-parallel "
                        "--save parts --save-interval 8 --ckpt-fully-parallel-save")
                .status,
            0);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "parts/iter_0000008/part-00001.bin"));
  EXPECT_EQ(run("checkpoint diff two parts").status, 0);
  EXPECT_EQ(run(prompt + "parts").out, text.out);
  EXPECT_EQ(run("checkpoint verify parts").status, 0);
  EXPECT_EQ(run("checkpoint consolidate parts --output whole").status, 0);
  EXPECT_EQ(run("checkpoint consolidate parts --output whole").status, 73);
  EXPECT_EQ(run("checkpoint consolidate parts").status, 0);
  EXPECT_NE(run("checkpoint consolidate parts").out.find("has whole tensors already"),
            std::string::npos);
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string file = std::string("/iter_0000008/") + name;
    EXPECT_EQ(read("parts" + file), read("two" + file));
    EXPECT_EQ(read("whole" + file), read("two" + file));
  }
  write("parts/iter_0000008/model.safetensors", read("two/iter_0000008/optimizer.safetensors"));
  EXPECT_EQ(run("checkpoint verify parts").status, 65);
}

// A checkpoint has all that text needs, wherever it goes.
TEST_F(ProgramTest, ACheckpointKeepsItsTokenizer) {
  prepare();
  ASSERT_EQ(run("pretrain gpt " + training() + "--save one --save-interval 8").status, 0);
  const std::string words = "--prompt 'And the' --max-tokens 12 --seed 3";
  const Output before = run("generate --load one " + words);
  ASSERT_EQ(before.status, 0) << before.err;
  const Output after = run_between("rm -r tok\nmv one two", "generate --load two " + words, "");
  EXPECT_EQ(after.status, 0) << after.err;
  EXPECT_EQ(after.out, before.out);
}

TEST_F(ProgramTest, ADatasetThatIsTruncatedIsNamedAndWhatWasSavedStays) {
  prepare();
  const Output output = run_between(
      "",
      "pretrain gpt " + training() +
          "--threads-per-rank 1 --nproc 2 --train-iters 100000 --save run --save-interval 4",
      "&\npid=$!\n"
      "while [ ! -s run/latest_checkpointed_iteration.txt ] && kill -0 $pid; do sleep 0.05; done\n"
      ": > data_text_document.bin\nwait $pid");
  EXPECT_EQ(output.status, 74) << output.err;
  EXPECT_NE(output.err.find("error: data_text_document.bin: cannot be read beyond byte"),
            std::string::npos)
      << output.err;
  EXPECT_GE(run_json("checkpoint digest run --json").at("iteration").get<int>(), 4);
}

// The process takes what the plan says, and beside it no more than the printed bound.
TEST_F(ProgramTest, ResidentSizeIsWithinThePlan) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow memory is not in the plan";
#endif
  prepare();
  const Json plan = run_json("plan gpt " + training() + "--json");
  const Json& bytes = plan.at("ranks").at(0).at("bytes");
  ASSERT_EQ(run("pretrain gpt " + training() + "--save one --save-interval 8").status, 0);
  const std::string metrics = read("one/metrics.jsonl");
  const Json first = Json::parse(metrics.substr(0, metrics.find('\n')));
  EXPECT_EQ(first.at("peak_bytes").get<std::int64_t>(), bytes.at("total").get<std::int64_t>());
  EXPECT_LE(first.at("rss_bytes").get<std::int64_t>(),
            bytes.at("total").get<std::int64_t>() + bytes.at("library_bound").get<std::int64_t>());
}

TEST_F(ProgramTest, DamagedCheckpointsAreRefused) {
  prepare();
  ASSERT_EQ(run("pretrain gpt " + training() + "--save one --save-interval 8").status, 0);
  std::string weights = read("one/iter_0000008/model.safetensors");
  weights[weights.size() / 2] = static_cast<char>(weights[weights.size() / 2] ^ 1);
  write("one/iter_0000008/model.safetensors", weights);
  const Output output = run("generate --load one --prompt x");
  EXPECT_EQ(output.status, 65) << output.err;
  EXPECT_NE(output.err.find("model.safetensors"), std::string::npos) << output.err;
}

}  // namespace
}  // namespace phalanx
