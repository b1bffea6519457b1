#pragma once
// What tests of whole runs share: a tiny model on an artificial text of 48 ids, a directory for
// each test, readers of what a run left there, and the ranks of a run without its loop.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "phalanx/base/file.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/diff.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/data/indexed_dataset_writer.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/train/pretrain.h"

namespace phalanx {

// How a run is divided among its ranks.
struct Layout {
  const char* name = "one";
  std::int64_t tensor = 1, data = 1;
  bool sequence = false;  // --sequence-parallel
  bool sharded = false;   // --use-distributed-optimizer
  bool overlaps = false;  // --overlap-grad-reduce; with shards also --overlap-param-gather
  std::int64_t pipeline = 1;
  std::string_view schedule = {};  // empty: the default one
  std::int64_t chunks = 0;         // of a pipeline rank; 0: as the schedule wants
  // --zero-stage (0: see `sharded`); the number of copies of shared states; for stage 3 the size up
  // to which parameters stay whole.
  std::int64_t zero = 0, copies = 1, stays_below = 0;

  friend void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }
};

// The configuration with this layout.
inline TrainConfig with_layout(TrainConfig c, const Layout& layout) {
  c.layout.world_size = layout.tensor * layout.pipeline * layout.data;
  c.layout.tensor_model_parallel_size = layout.tensor;
  c.layout.sequence_parallel = layout.sequence;
  c.layout.use_distributed_optimizer = layout.sharded;
  c.layout.overlap_grad_reduce = layout.overlaps;
  c.layout.zero_stage = layout.zero;
  c.layout.num_distributed_optimizer_instances = layout.copies;
  c.layout.zero_persistence_threshold =
      layout.zero == 3 ? layout.stays_below : LayoutConfig().zero_persistence_threshold;
  c.layout.overlap_param_gather = layout.overlaps && (layout.sharded || layout.zero > 0);
  c.layout.ddp_bucket_size = layout.overlaps ? 5000 : 0;
  c.layout.pipeline_model_parallel_size = layout.pipeline;
  c.layout.pipeline_schedule = layout.schedule;
  c.layout.num_virtual_stages_per_pipeline_rank = layout.chunks;
  return c;
}

// One rank with everything it needs, built as a run builds it.
struct PlannedRank {
  PlannedRank(const TrainConfig& config, const Model& model, Communicator& world)
      : ranks(parallel_grids(config.layout), world),
        programs(step_programs(config)),
        arenas(plan_memory(config, model, programs, world.rank(), {cpu::ProductPrecision::kFp32})
                   .bytes),
        backend(make_cpu_backend(static_cast<int>(config.layout.threads_per_rank),
                                 cpu::ProductPrecision::kFp32)),
        rank(config, model, programs, ranks, *backend, arenas) {}

  RankCommunicators ranks;
  StepPrograms programs;
  RankArenas arenas;
  std::unique_ptr<Backend> backend;
  Rank rank;
};

// All ranks of the resolved configuration, each on its thread.
inline void run_ranks(const TrainConfig& config, const Model& model,
                      const std::function<void(Rank&)>& body) {
  run_local_ranks(static_cast<int>(config.layout.world_size), {}, [&](Communicator& world) {
    PlannedRank planned(config, model, world);
    body(planned.rank);
    planned.rank.finish_gather();
  });
}

class RunTest : public testing::Test {
 protected:
  using Json = nlohmann::ordered_json;

  RunTest() { write_dataset("data", -1); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  // 30 documents: a ramp with noise, so that there is something to learn. If `spoilt_document` is
  // not negative, that document has a token outside the vocabulary.
  void write_dataset(const std::string& name, int spoilt_document) const {
    IndexedDatasetWriter writer(path(name), TokenType::kU16);
    std::uint32_t state = 1;
    for (int document = 0; document < 30; ++document) {
      std::vector<std::int32_t> tokens;
      for (int i = 0; i < 40 + document; ++i) {
        state = state * 1664525U + 1013904223U;
        tokens.push_back(static_cast<std::int32_t>((state >> 28) < 12 ? (i + document) % 47
                                                                      : (state >> 8) % 47));
      }
      if (document == spoilt_document) tokens[20] = 60000;
      tokens.push_back(48);
      writer.add_sequence(tokens);
      writer.end_document();
    }
    writer.commit();
  }

  // One thread per rank: ranks share the machine with whatever else runs there.
  TrainConfig config(const std::string& save) const {
    TrainConfig c = with_flags(
        {},
        "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --max-position-embeddings 24 "
        "--seq-length 24 --make-vocab-size-divisible-by 32 --micro-batch-size 2 "
        "--global-batch-size 4 --train-iters 6 --lr 1e-2 --min-lr 1e-3 --lr-decay-style cosine "
        "--lr-warmup-iters 2 --split 90,5,5 --tokenizer-type NullTokenizer --vocab-size 48 "
        "--eval-interval 2 --eval-iters 1 --log-interval 1000 --threads-per-rank 1");
    c.data.data_path = {path("data")};
    if (!save.empty()) {
      c.run.save = path(save);
      c.run.save_interval = 1000;
      c.run.overwrite = true;  // a test may have had a run there
    }
    return c;
  }

  CheckpointDifference difference(const std::string& a, const std::string& b) const {
    return diff_checkpoints(CheckpointReader::open(path(a)), CheckpointReader::open(path(b)));
  }
  bool equal(const std::string& a, const std::string& b) const {
    return difference(a, b).tensors_equal();
  }

  // The lines of a run's metrics, in order.
  std::vector<Json> metrics(const std::string& save) const {
    std::vector<Json> lines;
    const std::string text = metrics_text(save);
    for (std::size_t begin = 0; begin < text.size();) {
      const auto end = text.find('\n', begin);
      lines.push_back(Json::parse(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return lines;
  }
  std::vector<Json> training_metrics(const std::string& save) const {
    std::vector<Json> lines = metrics(save);
    std::erase_if(lines, [](const Json& line) { return line.contains("eval"); });
    return lines;
  }
  // The values of one key over the training lines; a loss that is not finite is null.
  std::vector<Json> metric(const std::string& save, const std::string& key) const {
    std::vector<Json> values;
    for (const Json& line : training_metrics(save)) values.push_back(line.at(key));
    return values;
  }
  std::vector<double> numbers(const std::string& save, const std::string& key) const {
    std::vector<double> values;
    for (const Json& value : metric(save, key)) {
      values.push_back(value.is_null() ? std::nan("") : value.get<double>());
    }
    return values;
  }
  std::vector<double> losses(const std::string& save) const { return numbers(save, "lm_loss"); }

  // The text of a run's metrics; empty if it has none.
  std::string metrics_text(const std::string& save) const {
    const auto file = directory_ / save / "metrics.jsonl";
    return std::filesystem::exists(file) ? read_file(file) : std::string();
  }
  // The iterations that have a checkpoint.
  std::vector<std::int64_t> iterations(const std::string& save) const {
    std::vector<std::int64_t> found;
    for (const auto& saved : saved_checkpoints(path(save))) found.push_back(saved.iteration);
    return found;
  }

  static void train(const TrainConfig& c) { EXPECT_EQ(pretrain(c), RunEnd::kFinished); }
  // The ConfigError's message, or "no error".
  static std::string refusal(const TrainConfig& c) {
    return error_of<ConfigError>([&] { pretrain(c); });
  }
  // Trains three iterations as `c` says and saves; then resumes in another layout.
  static void train_and_change(TrainConfig c, const Layout& then) {
    c.run.load = c.run.save;
    c.run.exit_interval = 3;
    train(c);
    c = with_layout(c, then);
    c.run.exit_interval = 0;
    train(c);
  }

  // Sends a run SIGTERM as soon as its metrics have this text.
  static RunEnd stop_after(const TrainConfig& c, const std::string& text) {
    const auto file = std::filesystem::path(c.run.save) / "metrics.jsonl";
    std::atomic<int> signal{0};
    const std::jthread user([&](const std::stop_token& token) {
      while (!token.stop_requested()) {
        if (std::filesystem::exists(file) && read_file(file).find(text) != std::string::npos) {
          signal = SIGTERM;
          return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    return pretrain(c, [&signal] { return signal.load(); });
  }

  void expect_near(const std::string& found, const std::string& expected, const std::string& key,
                   double relative) const {
    const auto a = numbers(found, key);
    const auto b = numbers(expected, key);
    ASSERT_EQ(a.size(), b.size()) << found;
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], b[i], relative * std::abs(b[i]))
          << key << " of " << found << ", iteration " << i + 1;
    }
  }

  // A run that is interrupted after `at` iterations and resumed gives the same bits as one that is
  // not.
  void expect_resume_is_bitwise(const TrainConfig& straight, std::int64_t at = 3) {
    TrainConfig parts = straight;
    EXPECT_EQ(pretrain(straight), RunEnd::kFinished);
    parts.run.save = path("parts");
    parts.run.load = path("parts");
    parts.run.exit_interval = at;
    EXPECT_EQ(pretrain(parts), RunEnd::kFinished);
    EXPECT_EQ(CheckpointReader::open(path("parts")).manifest().iteration, at);
    parts.run.exit_interval = 0;
    EXPECT_EQ(pretrain(parts), RunEnd::kFinished);
    const std::string whole = std::filesystem::path(straight.run.save).filename().string();
    const auto found = difference(whole, "parts");
    EXPECT_TRUE(found.tensors_equal()) << to_text(found);
    for (const char* key :
         {"iteration", "lm_loss", "learning_rate", "grad_norm", "loss_scale", "skipped"}) {
      EXPECT_EQ(metric(whole, key), metric("parts", key)) << key;
    }
  }

  const TemporaryDirectory temporary_{"run"};
  const std::filesystem::path directory_ = temporary_.path();
};

}  // namespace phalanx
