// The launch scripts in examples/, as people start them: from another directory, with the program
// that was built.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/test_support.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

const std::filesystem::path kExamples = source_path("examples");

constexpr const char* kMapped = "--data-impl mmap: dataset files are always mapped into memory\n";
constexpr const char* kOldMethod =
    "--activations-checkpoint-method uniform is now --recompute-granularity full "
    "--recompute-method uniform\n";
constexpr const char* kOldSwitch =
    "--checkpoint-activations is now --recompute-granularity full --recompute-method uniform\n";
constexpr const char* kBackend =
    "--distributed-backend nccl: on CPUs UCX carries the messages between processes; threads of "
    "one process share its memory\n";
constexpr const char* kBuffers = ": gradients are reduced from contiguous fp32 buffers\n";
constexpr const char* kVocabulary =
    "the plan is of GPT-2's 50257 ids: the tokenizer's files are not there\n";

// What a script comes to.
struct Example {
  const char* settings;  // of the environment
  const char* script;
  std::int64_t parameters;         // without the padding of the vocabulary
  std::int64_t padded_vocabulary;  // a multiple of 128 x the tensor-parallel size
  int ranks;
  std::string notes;  // on standard error, in the order of --help
};

const std::vector<Example>& all_examples() {
  constexpr std::int64_t k124m = 124'439'808;
  constexpr std::int64_t k345m = 354'823'168;
  constexpr std::int64_t k175b = 174'604'259'328;
  constexpr std::int64_t k5b9 = 5'864'766'720;
  const std::string local = std::string("--DDP-impl local") + kBuffers;
  const auto case_of = [](int ranks, int tensor, int pipeline, int microbatch, int batch) {
    return fmt::format(
        "{} ranks: tensor {} x pipeline {} x data {}, microbatch {}, global batch {}\n", ranks,
        tensor, pipeline, ranks / tensor / pipeline, microbatch, batch);
  };
  static const std::vector<Example> all = {
      {"", "pretrain_gpt_345m.sh", k345m, 50304, 1,
       std::string(kBackend) + kOldSwitch + kMapped + kVocabulary},
      {"", "pretrain_gpt_345m_distributed.sh", k345m, 50304, 8,
       std::string(kBackend) + "--DDP-impl torch" + kBuffers + kOldSwitch + kMapped + kVocabulary},
      {"", "pretrain_gpt_345m_distributed_with_mp.sh", k345m, 50432, 8,
       std::string(kBackend) + local + kOldMethod + kMapped + kVocabulary},
      {"", "pretrain_gpt3_175b.sh", k175b, 51200, 128, std::string(kOldSwitch) + kVocabulary},
      {"", "sc21/run_figure_12.sh", k175b, 51200, 96,
       case_of(96, 8, 12, 1, 12) + local + kOldMethod + kVocabulary},
      {"INTERLEAVED=NO GBS=60", "sc21/run_figure_12.sh", k175b, 51200, 96,
       case_of(96, 8, 12, 1, 60) + local + kOldMethod + kVocabulary},
      {"PP=32 GBS=128", "sc21/run_figure_13.sh", 162'141'040'640, 50432, 64,
       case_of(64, 2, 32, 1, 128) + local + kOldMethod + kVocabulary},
      {"PP=32 GBS=512", "sc21/run_figure_14.sh", k5b9, 50304, 64,
       case_of(64, 1, 32, 1, 512) + local + kOldMethod + kVocabulary},
      {"TP=32", "sc21/run_figure_15.sh", k5b9, 53248, 64,
       case_of(64, 32, 1, 1, 32) + local + kOldMethod + kVocabulary},
      {"", "sc21/run_figure_17.sh", 145'610'674'176, 51200, 128,
       case_of(128, 8, 16, 1, 1) + local + kOldMethod + kVocabulary},
      {"ACTIVATION_RECOMPUTATION=NO GBS=4", "sc21/run_figure_17.sh", 145'610'674'176, 51200, 128,
       case_of(128, 8, 16, 1, 4) + local + kVocabulary},
      {"", "cluster/one_host_threads.sh", k124m, 50304, 2, kVocabulary},
      {"RANKS=4 TP=2", "cluster/one_host_processes.sh", k124m, 50432, 4, kVocabulary},
      {"", "cluster/tensor2_pipeline4.sh", k124m, 50432, 8, kVocabulary},
      {"NNODES=4 RANKS_PER_HOST=2", "cluster/several_hosts.sh", k124m, 50304, 8, kVocabulary},
      {"SLURM_NTASKS=8", "cluster/slurm.sh", k124m, 50304, 8, kVocabulary},
      {"", "cluster/two_hosts_in_namespaces.sh", 3'320'640, 50304, 2, kVocabulary},
  };
  return all;
}

class Examples : public testing::Test {
 protected:
  // The exit status; output is in the files stdout and stderr.
  int run(const std::string& settings, const std::string& command) const {
    const int status =
        std::system(fmt::format("cd '{}' && env PHALANX='{}' {} {} >stdout 2>stderr </dev/null",
                                directory_.string(), program_path(), settings, command)
                        .c_str());
    return WEXITSTATUS(status);
  }
  int run_example(const std::string& settings, const std::string& script,
                  const std::string& words) const {
    return run(settings, fmt::format("'{}' {}", (kExamples / script).string(), words));
  }
  std::string read(const std::string& name) const {
    std::ifstream file(directory_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  const TemporaryDirectory temporary_{"examples"};
  const std::filesystem::path directory_ = temporary_.path();
};

TEST_F(Examples, PlanAsTheyAre) {
  for (const Example& example : all_examples()) {
    SCOPED_TRACE(fmt::format("{} {}", example.settings, example.script));
    ASSERT_EQ(run_example(example.settings, example.script, "plan --json"), 0) << read("stderr");
    EXPECT_EQ(read("stderr"), example.notes);
    const Json plan = Json::parse(read("stdout"));
    EXPECT_EQ(plan["model"]["parameters"], example.parameters);
    EXPECT_EQ(plan["model"]["padded_vocabulary"], example.padded_vocabulary);
    std::size_t ranks = 0;
    for (const Json& rank : plan["ranks"]) ranks += 1 + rank.value("same_as", Json::array()).size();
    EXPECT_EQ(ranks, static_cast<std::size_t>(example.ranks));
  }
}

// Megatron counts the padding of the vocabulary too.
TEST_F(Examples, HaveTheParametersThatAreKnownOfThem) {
  const auto known = [](const Example& example, std::int64_t hidden) {
    return example.parameters + (example.padded_vocabulary - 50257) * hidden;
  };
  EXPECT_EQ(known(all_examples()[0], 1024), 354'871'296);
  EXPECT_EQ(known(all_examples()[3], 12288) / 1'000'000, 174'615);  // 174.6 billion
}

TEST_F(Examples, AreAllTried) {
  std::set<std::string> tried;
  for (const Example& example : all_examples()) tried.insert(example.script);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kExamples)) {
    const auto name = std::filesystem::relative(entry.path(), kExamples).string();
    if (entry.path().extension() != ".sh" || name.ends_with("/common.sh")) continue;
    EXPECT_TRUE(tried.contains(name)) << name;
  }
}

// What follows a script's flags wins over them; without a first word it trains.
TEST_F(Examples, HandFlagsOn) {
  ASSERT_EQ(run_example("", "pretrain_gpt_345m.sh", "plan --json --num-layers 2"), 0);
  EXPECT_EQ(Json::parse(read("stdout"))["model"]["layers"], 2);
  EXPECT_EQ(run_example("", "pretrain_gpt_345m.sh", "--print-yaml --lr 2e-4"), 0) << read("stderr");
  EXPECT_THAT(read("stdout"), HasSubstr("\n  lr: 2e-4\n"));
  EXPECT_EQ(run_example("DATA_PATH=my.data", "pretrain_gpt_345m.sh", ""), 66);
  EXPECT_THAT(read("stderr"), HasSubstr("gpt2-vocab.json"));
}

TEST_F(Examples, AreTheSameAsTheirYamlFiles) {
  const std::string from_file = fmt::format("'{}' plan gpt --yaml-cfg run.yaml ", program_path());
  for (const Example& example : all_examples()) {
    SCOPED_TRACE(fmt::format("{} {}", example.settings, example.script));
    ASSERT_EQ(run_example(example.settings, example.script, "plan --print-yaml"), 0)
        << read("stderr");
    const std::string yaml = read("stdout");
    std::filesystem::rename(directory_ / "stdout", directory_ / "run.yaml");
    ASSERT_EQ(run("", from_file + "--print-yaml"), 0) << read("stderr");
    EXPECT_EQ(read("stdout"), yaml);
  }
  const char* const script = "pretrain_gpt_345m_distributed_with_mp.sh";
  ASSERT_EQ(run_example("", script, "plan --print-yaml"), 0) << read("stderr");
  std::filesystem::rename(directory_ / "stdout", directory_ / "run.yaml");
  ASSERT_EQ(run("", from_file + "--json"), 0) << read("stderr");
  const std::string plan = read("stdout");
  ASSERT_EQ(run_example("", script, "plan --json"), 0) << read("stderr");
  EXPECT_EQ(read("stdout"), plan);
}

// With keys as Megatron's files have them.
TEST_F(Examples, AFileIsTheSameRunAsItsScript) {
  ASSERT_EQ(run_example("", "pretrain_gpt_345m.sh", "plan --json"), 0) << read("stderr");
  const std::string plan = read("stdout");
  ASSERT_EQ(run("", fmt::format("'{}' plan gpt --json --yaml-cfg '{}'", program_path(),
                                (kExamples / "pretrain_gpt_345m.yaml").string())),
            0)
      << read("stderr");
  EXPECT_EQ(read("stdout"), plan);
}

// The shapes of published models, with the parameters that they are known to have.
TEST_F(Examples, PublishedModelsAreTheirFiles) {
  struct Published {
    const char* file;
    int ranks;
    std::int64_t parameters;
    std::int64_t active = 0;  // with experts
  };
  std::set<std::string> files{"pretrain_gpt_345m.yaml"};
  for (const auto& [file, ranks, parameters, active] :
       {Published{"llama2_7b.yaml", 8, 6'738'415'616},
        Published{"llama3_8b.yaml", 8, 8'030'261'248},
        Published{"mistral_7b.yaml", 8, 7'241'732'096},
        Published{"qwen2_7b.yaml", 8, 7'615'616'512},
        Published{"mixtral_8x7b.yaml", 16, 46'702'792'704, 12'879'925'248},
        Published{"qwen3_30b_a3b.yaml", 16, 30'532'122'624, 3'353'032'704}}) {
    SCOPED_TRACE(file);
    files.insert(file);
    ASSERT_EQ(run("", fmt::format("'{}' plan gpt --json --world-size {} --yaml-cfg '{}'",
                                  program_path(), ranks, (kExamples / file).string())),
              0)
        << read("stderr");
    const Json model = Json::parse(read("stdout"))["model"];
    EXPECT_EQ(model["parameters"], parameters);
    EXPECT_EQ(model.value("active_parameters", std::int64_t{0}), active);
  }
  for (const auto& entry : std::filesystem::directory_iterator(kExamples)) {
    if (entry.path().extension() != ".yaml") continue;
    EXPECT_TRUE(files.contains(entry.path().filename().string())) << entry.path();
  }
}

// Published models without a file: Qwen3-8B and Qwen1.5-MoE-A2.7B.
TEST_F(Examples, OtherPublishedModelsHaveTheirParameters) {
  const auto plan = [&](const std::string& flags) {
    EXPECT_EQ(run("", fmt::format("'{}' plan gpt --normalization RMSNorm --swiglu "
                                  "--position-embedding-type rope --disable-bias-linear "
                                  "--untie-embeddings-and-output-weights --hidden-dropout 0 "
                                  "--attention-dropout 0 --seq-length 4096 "
                                  "--max-position-embeddings 32768 --micro-batch-size 1 "
                                  "--global-batch-size 1 --model-vocab-size 151936 --json {}",
                                  program_path(), flags)),
              0)
        << read("stderr");
    return Json::parse(read("stdout"))["model"];
  };
  EXPECT_EQ(plan("--num-layers 36 --hidden-size 4096 --ffn-hidden-size 12288 "
                 "--num-attention-heads 32 --group-query-attention --num-query-groups 8 "
                 "--kv-channels 128 --qk-layernorm")["parameters"],
            8'190'735'360);
  const Json qwen = plan(
      "--num-layers 24 --hidden-size 2048 --ffn-hidden-size 5632 --num-attention-heads 16 "
      "--add-qkv-bias --num-experts 60 --moe-router-topk 4 --moe-ffn-hidden-size 1408 "
      "--moe-router-pre-softmax --moe-shared-expert-intermediate-size 5632 "
      "--moe-shared-expert-gate");
  EXPECT_EQ(qwen["parameters"], 14'315'784'192);
  EXPECT_EQ(qwen["active_parameters"], 2'689'173'504);
}

// What the scripts for many hosts start, seen by programs that only tell how they were called.
class ClusterExamples : public Examples {
 protected:
  ClusterExamples() {
    std::filesystem::create_directories(directory_ / "programs");
    program(
        "srun",
        "echo \"srun $*\"; env | grep -E '^(MASTER|PHALANX_RDZV|SRUN)' | sort; exit ${CODE:-0}");
    program("scontrol",
            "case $2 in hostnames) printf 'n07\\nn08\\n' ;; *) echo \"scontrol $*\" ;; esac");
    program("phalanx", "echo \"phalanx $*\"");
  }

  void program(const std::string& name, const std::string& body) const {
    const std::filesystem::path path = directory_ / "programs" / name;
    std::ofstream(path) << "#!/bin/bash\n" << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  int start(const std::string& settings, const std::string& script) const {
    return run_example("PATH='" + (directory_ / "programs").string() + "':\"$PATH\" " +
                           "PHALANX=phalanx " + settings,
                       "cluster/" + script, "--seed 3");
  }
};

TEST_F(ClusterExamples, StartTheirRanks) {
  const auto starts_with = [&](const char* settings, const char* script, const std::string& words) {
    ASSERT_EQ(start(settings, script), 0) << read("stderr");
    EXPECT_THAT(read("stdout"), testing::StartsWith(words)) << script;
    EXPECT_THAT(read("stdout"), HasSubstr(" --seed 3")) << script;
  };
  starts_with("RANKS=4", "one_host_threads.sh", "phalanx pretrain gpt ");
  EXPECT_THAT(read("stdout"), testing::EndsWith(" --nproc 4\n"));
  starts_with("RANKS=4", "one_host_processes.sh",
              "phalanx launch --nproc-per-node 4 --max-restarts 3 --log-dir logs -- pretrain gpt ");
  starts_with("", "tensor2_pipeline4.sh",
              "phalanx launch --nproc-per-node 8 --max-restarts 3 --log-dir logs -- pretrain gpt "
              "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 ");
  starts_with("NODE_RANK=1 MASTER_ADDR=n01", "several_hosts.sh",
              "phalanx launch --nnodes 2 --node-rank 1 --nproc-per-node 1 --master-addr n01 "
              "--master-port 29500 --rdzv-secret-file rdzv.secret --max-restarts 3 --log-dir logs "
              "-- pretrain gpt ");
}

// Slurm runs a copy of the script from somewhere else.
TEST_F(ClusterExamples, SlurmsScriptMakesASecretOfTheJobAndGoesBackIntoTheQueue) {
  std::filesystem::copy_file(kExamples / "cluster/slurm.sh", directory_ / "slurm_script");
  std::filesystem::create_directories(directory_ / "examples");
  std::filesystem::create_directory_symlink(kExamples / "cluster", directory_ / "examples/cluster");
  const auto submit = [&](const std::string& settings) {
    return run("PATH='" + (directory_ / "programs").string() +
                   "':\"$PATH\" PHALANX=phalanx SLURM_SUBMIT_DIR=\"$PWD\" SLURM_JOB_ID=10042 "
                   "SLURM_JOB_NODELIST='n[07-08]' SLURM_NTASKS=4 SLURM_CPUS_PER_TASK=8 " +
                   settings,
               "./slurm_script --seed 3");
  };
  ASSERT_EQ(submit(""), 0) << read("stderr");
  EXPECT_THAT(read("stdout"),
              testing::StartsWith("srun --kill-on-bad-exit=0 --wait=900 phalanx pretrain "));
  EXPECT_THAT(read("stdout"), HasSubstr("\nMASTER_ADDR=n07\nMASTER_PORT=20042\n"));
  EXPECT_THAT(read("stdout"), HasSubstr("\nPHALANX_RDZV_SECRET_FILE=" + directory_.string() +
                                        "/.rdzv_secret_10042_"));
  EXPECT_THAT(read("stdout"), testing::EndsWith("\nSRUN_CPUS_PER_TASK=8\n"));
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".rdzv")) << entry.path();
  }
  // Pre-empted, lost, hung, killed; all but the first no more often than REQUEUES.
  for (const int code : {85, 75, 124, 137}) {
    EXPECT_EQ(submit(fmt::format("SLURM_RESTART_COUNT=9 CODE={}", code)), code);
    EXPECT_THAT(read("stdout"), testing::EndsWith("scontrol requeue 10042\n")) << code;
    EXPECT_EQ(submit(fmt::format("SLURM_RESTART_COUNT=2 REQUEUES=2 CODE={}", code)), code);
    EXPECT_EQ(read("stdout").ends_with("scontrol requeue 10042\n"), code == 85) << code;
  }
  for (const int code : {0, 65, 78, 130}) {
    EXPECT_EQ(submit(fmt::format("CODE={}", code)), code);
    EXPECT_THAT(read("stdout"), testing::Not(HasSubstr("scontrol requeue"))) << code;
  }
}

TEST_F(Examples, TheScriptOfGpt3AsksForNothingThatCannotBeDone) {
  EXPECT_EQ(run_example("", "pretrain_gpt3_175b.sh", "pretrain"), 66);  // its data is missing
  EXPECT_THAT(read("stderr"), testing::Not(HasSubstr("not available")));
}

}  // namespace
}  // namespace phalanx
