// `phalanx bench disk` and `bench device`, and benches of states that are shared or in files: what
// they say, and that nothing stays behind.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "phalanx/clock/machine.h"
#include "program_test.h"
#include "tests/paths.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class BenchTest : public ProgramTest {
 protected:
  static constexpr const char* kLittle = " --size 17 --seconds 0.2 ";
  bool is_there(const std::string& name) const {
    return std::filesystem::exists(directory_ / name);
  }
};

TEST_F(BenchTest, MeasuresEveryEngineAndLeavesNothing) {
  const Json bench = run_json(std::string("bench disk disk --json") + kLittle);
  EXPECT_EQ(bench.at("file_bytes"), 17 << 20);
  EXPECT_EQ(bench.at("block_bytes"), 1 << 20);
  EXPECT_EQ(bench.at("engines").back().at("engine"), "threads");
  EXPECT_THAT(bench.at("plan").get<std::string>(), HasSubstr("--disk-bandwidth "));
  for (const Json& engine : bench.at("engines")) {
    EXPECT_GT(engine.at("moved_bytes"), 0);
    EXPECT_GT(engine.at("read_bytes_per_s"), 0);
    EXPECT_GT(engine.at("write_bytes_per_s"), 0);
    EXPECT_GT(engine.at("by_turns_bytes_per_s"), 0);
  }
  EXPECT_FALSE(is_there("disk"));
}

TEST_F(BenchTest, TheTableSaysWhatAPlanIsToldAndHowBytesMoved) {
  std::filesystem::create_directories(directory_ / "disk");
  const ProgramOutput output =
      run(std::string("bench disk disk --buffered --engine threads --block-size 256") + kLittle);
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_THAT(output.out, AllOf(HasSubstr("disk: a file of 17.0 MiB"), HasSubstr("\nthreads "),
                                Not(HasSubstr("\nio_uring ")), HasSubstr("through the page cache"),
                                HasSubstr("phalanx plan ... --disk-bandwidth ")));
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "disk"));
}

TEST_F(BenchTest, RefusesWithOneLine) {
  write("file", "");
  expect_error("bench disk file", 73, "file: is not a directory");
  expect_error("bench disk no/where", 73, "no/where: the directory above it is not there");
  expect_error("bench disk . --block-size 5", 78, "--block-size 5: must be a multiple of 4");
  expect_error("bench disk . --size 16000000", 73, "are needed and");
  expect_error("bench disk", 64, "DIR");
  expect_error("bench", 64, "say disk");
  expect_error("bench device", 64, "-o device.yaml");
  expect_error("bench device -o file", 78, "--output file: is there already");
  expect_error("bench device -o file --overwrite --types f64", 78, "--types");
  expect_error("bench device -o no/device.yaml", 73, "there is no directory no");
  expect_error("bench cluster --device h100 -o c.yaml", 78,
               "between two ranks or more: give --nproc");
  expect_error("bench cluster --nproc 2 --device h100", 64, "-o cluster.yaml");
  expect_error("bench cluster --nproc 2 -o c.yaml", 64, "phalanx bench device -o device.yaml");
  expect_error("bench cluster --nproc 2 --device none -o c.yaml", 78, "device none is neither");
  expect_error("bench cluster --nproc 2 --device file -o c.yaml", 65, "no section `device:`");
  expect_error("bench cluster --nproc 2 --device h100 -o file", 78, "--output file: is there");
  expect_error("bench cluster --nproc 2 --device h100 -o no/c.yaml", 73, "no directory no");
  expect_error("bench cluster --nproc 2 --device h100 -o /proc/c.yaml", 73, "/proc/c.yaml");
  EXPECT_FALSE(is_there("c.yaml"));
  EXPECT_THAT(read("file"), IsEmpty());
}

TEST_F(BenchTest, AnInterruptRemovesTheFile) {
  // As soon as the file is there: it takes a disk longer to write it.
  const ProgramOutput output =
      run_between("", "bench disk disk --size 1024 --seconds 600",
                  "& program=$!\n"
                  "while kill -0 $program && [ ! -e disk/phalanx-bench-*/rank-0000/bandwidth.state "
                  "]; do :; done\n"
                  "kill -INT $program; wait $program");
  EXPECT_EQ(output.status, 130) << output.err;
  EXPECT_THAT(output.err, AllOf(HasSubstr("SIGINT: stopping"), HasSubstr("nothing was left")));
  EXPECT_THAT(output.out, IsEmpty());
  EXPECT_FALSE(is_there("disk"));
}

TEST_F(BenchTest, ADeviceIsMeasuredAndDescribed) {
  const Json bench =
      run_json("bench device -o device.yaml --quick --types f32 --threads 1 --ranks 2 --json");
  const Machine machine = machine_of((directory_ / "device.yaml").string());
  const DeviceDescription& device = machine.device;
  EXPECT_EQ(device.cores.value, 1);
  EXPECT_EQ(device.peak(ProductType::kF32), bench.at("numbers").at("peak_f32"));
  EXPECT_FALSE(device.product(ProductType::kBF16).peak.has_value());
  EXPECT_EQ(device.e_bw.origin, Origin::kMeasured);
  EXPECT_THAT(device.e_bw.source, AllOf(HasSubstr("phalanx bench device on "),
                                        HasSubstr("2 ranks of 1 threads at once")));
  EXPECT_TRUE(device.op_rates.contains("rms_norm_forward_f32"));
  EXPECT_EQ(bench.at("products").size(), 15U);
  EXPECT_LE(bench.at("disturbed_ops"), bench.at("timed_ops"));
  for (const Json& product : bench.at("products")) {
    EXPECT_GT(product.at("seconds"), 0);
    EXPECT_GT(product.at("predicted"), 0);
  }
}

// The emulated device computes as one does; its times mean nothing.
TEST_F(BenchTest, ACudaDeviceIsMeasuredAtTheShapesOfAModel) {
  const std::string model =
      "plan gpt --num-layers 1 --hidden-size 64 --num-attention-heads 2 --seq-length 16 "
      "--max-position-embeddings 16 --micro-batch-size 1 --global-batch-size 1 --vocab-size 64 ";
  const ProgramOutput planned = run(model + "--write-shapes shapes.json");
  ASSERT_EQ(planned.status, 0) << planned.err;
  expect_error(model + "--write-shapes shapes.json --svg shapes.json", 64, "give two files");
  const Json bench = run_json(
      "bench device -o device.yaml --device cuda-emulated --types f32 --shapes shapes.json --json");
  const Json shapes = Json::parse(read("shapes.json"));
  // QKV, output, two of the MLP, the head: three passes each.
  EXPECT_EQ(shapes.at("products").size(), 15U);
  EXPECT_EQ(bench.at("products").size(), 12U + 15U);
  const DeviceDescription device = machine_of((directory_ / "device.yaml").string()).device;
  EXPECT_THAT(device.e_bw.source, HasSubstr("phalanx bench device on "));
  const auto is_qkv = [](const MeasuredProduct& measured) {
    return measured.product.m == 16 && measured.product.n == 192 && measured.product.k == 64;
  };
  EXPECT_TRUE(std::ranges::any_of(device.measured_products, is_qkv));
  const auto is_planned = [](const MeasuredAttention& measured) {
    return measured.pass.head_size == 32 && measured.pass.keys == 16;
  };
  EXPECT_EQ(std::ranges::count_if(device.measured_attention, is_planned), 2);
  write("wrong.json", "{}");
  expect_error("bench device -o other.yaml --shapes wrong.json", 65, "wrong.json: it has no list");
  expect_error("bench device -o other.yaml --device cuda-emulated --ranks 2", 64, "--ranks 2");
  EXPECT_FALSE(is_there("other.yaml"));
}

TEST_F(BenchTest, AnInterruptedDeviceIsNotDescribed) {
  const ProgramOutput output =
      run_between("", "bench device -o device.yaml --threads 1",
                  "& program=$!\n"
                  "while kill -0 $program && ! grep -q 'at full load' stderr; do :; done\n"
                  "kill -INT $program; wait $program");
  EXPECT_EQ(output.status, 130) << output.err;
  EXPECT_THAT(output.err, HasSubstr("nothing was written"));
  EXPECT_FALSE(is_there("device.yaml"));
}

TEST_F(BenchTest, AClusterIsMeasuredBetweenThreadsAndBetweenProcesses) {
  std::filesystem::create_directories(directory_ / "there");
  write("device.yaml", yaml_of(shipped_device("h100")));
  const Json bench =
      run_json("bench cluster --nproc 3 --device device.yaml -o there/cluster.yaml --quick --json");
  const Machine machine = machine_of((directory_ / "there" / "cluster.yaml").string());
  const ClusterDescription& cluster = machine.cluster;
  EXPECT_EQ(cluster.device, "../device.yaml");
  EXPECT_EQ(cluster.devices_per_node.value, 3);
  EXPECT_EQ(cluster.measured_ranks.size(), 2U);
  EXPECT_EQ(cluster.link.value, bench.at("numbers").at("link"));
  EXPECT_EQ(cluster.link.origin, Origin::kMeasured);
  EXPECT_THAT(cluster.link.source, HasSubstr("phalanx bench cluster on "));
  EXPECT_EQ(bench.at("defaults"), Json({"card_rate", "ib_alpha", "ib_e", "p2p_e"}));
  EXPECT_EQ(cluster.card_rate.origin, Origin::kDefault);
  for (const Json& point : bench.at("collectives")) EXPECT_GT(point.at("predicted"), 0);

  const ProgramOutput processes =
      run("launch --nproc-per-node 2 bench cluster --device h100 -o two.yaml --quick --json");
  EXPECT_EQ(processes.status, 0) << processes.err;
  EXPECT_THAT(machine_of((directory_ / "two.yaml").string()).cluster.link.source,
              HasSubstr("1 host of 2 processes"));
}

TEST_F(BenchTest, AnInterruptedClusterIsNotDescribed) {
  const ProgramOutput output =
      run_between("", "bench cluster --nproc 2 --device h100 -o cluster.yaml",
                  "& program=$!\n"
                  "while kill -0 $program && ! grep -q 'messages between' stderr; do :; done\n"
                  "kill -INT $program; wait $program");
  EXPECT_EQ(output.status, 130) << output.err;
  EXPECT_THAT(output.err, HasSubstr("nothing was written"));
  EXPECT_FALSE(is_there("cluster.yaml"));
}

#ifdef PHALANX_BENCH

class BenchPrograms : public BenchTest {
 protected:
  // Of the least that is a run.
  std::string said_by(const std::string& words) const {
    const std::string command = fmt::format(
        "cd '{}' && '{}'/{} --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 8 "
        "--vocab-size 64 --rounds 1 --steps 1 >said 2>err",
        directory_.string(), build_path("bench").string(), words);
    EXPECT_EQ(std::system(command.c_str()), 0) << read("err");
    return read("said");
  }
};

TEST_F(BenchPrograms, StagesHaveARowEach) {
  const std::string said = said_by("bench_zero --global-batch-size 4 --micro-batch-size 1");
  EXPECT_THAT(said, AllOf(HasSubstr("2 ranks, 1 layers"), HasSubstr("\n| 0: data parallel | "),
                          HasSubstr("\n| 1: "), HasSubstr("\n| 2: "), HasSubstr("\n| 3: "),
                          HasSubstr("\n| 3, kept ")));
}

TEST_F(BenchPrograms, FilesAreComparedWithTheDiskAndWithMemory) {
  const std::string said =
      said_by("bench_files disk --bf16 --few 4 --global-batch-size 2 --disk-mib 1 --threads 1");
  EXPECT_THAT(said, AllOf(HasSubstr("the disk: "), HasSubstr("\nan update: "),
                          HasSubstr("\n| 4 tokens | "), HasSubstr("\n| 16 tokens | ")));
  EXPECT_FALSE(is_there("disk"));
}

#endif

}  // namespace
}  // namespace phalanx
