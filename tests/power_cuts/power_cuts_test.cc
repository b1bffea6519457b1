// The power fails at any moment of a run that saves, and the disk has any legal part of what was
// not synced: the last checkpoint that the run called saved is there with all its bits, and the
// next save leaves nothing over.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>

#include "phalanx/base/file.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/log.h"
#include "phalanx/base/test_support.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/checkpoint/digest.h"
#include "phalanx/checkpoint/tensor_source.h"
#include "phalanx/checkpoint/verified_marks.h"
#include "phalanx/data/indexed_dataset_writer.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/train/pretrain.h"
#include "recorder.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using power_cuts::DiskImage;
using power_cuts::DiskRecord;

constexpr std::int64_t kIterations = 5;

struct Scene {
  const char* name;
  std::string flags;
};

// GoogleTest calls it.
// NOLINTNEXTLINE(readability-identifier-naming)
void PrintTo(const Scene& scene, std::ostream* out) { *out << scene.flags; }

const Scene kScenes[] = {
    {"Data2", "--world-size 2"},
    {"Data2Parts", "--world-size 2 --ckpt-fully-parallel-save"},
    {"Stage1", "--world-size 2 --use-distributed-optimizer"},
    {"Stage1Parts", "--world-size 2 --zero-stage 1 --ckpt-fully-parallel-save --keep-last 1"},
    {"Stage2Parts", "--world-size 2 --zero-stage 2 --ckpt-fully-parallel-save"},
    {"Stage3Parts",
     "--world-size 2 --zero-stage 3 --zero-persistence-threshold 0 --ckpt-fully-parallel-save"},
    {"Tensor2Parts", "--world-size 2 --tensor-model-parallel-size 2 --ckpt-fully-parallel-save"},
    {"Pipeline2", "--world-size 2 --pipeline-model-parallel-size 2 --keep-last 1"},
    {"Pipeline2Parts",
     "--world-size 2 --pipeline-model-parallel-size 2 --ckpt-fully-parallel-save"},
    {"Stage1Async", "--world-size 2 --zero-stage 1 --async-save"},
    {"Pipeline2Async", "--world-size 2 --pipeline-model-parallel-size 2 --async-save"},
    {"Tensor2Data2Bf16Parts",
     "--world-size 4 --tensor-model-parallel-size 2 --zero-stage 1 --bf16 --matmul-precision fp32 "
     "--ckpt-fully-parallel-save"},
};

bool is_nightly() {
  const char* const nightly = std::getenv("PHALANX_NIGHTLY");
  return nightly != nullptr && std::string_view(nightly) == "1";
}

std::string digest_of(const CheckpointReader& reader) { return to_json(digest_checkpoint(reader)); }

// What a run has saved.
struct Saved {
  std::string digest;
  Manifest manifest;
};
// By key_of(), which is also the number that is marked once the checkpoint is committed.
using History = std::map<std::int64_t, Saved>;

std::int64_t key_of(const Manifest& manifest) { return 1000 * manifest.start + manifest.iteration; }

Saved saved_at(const fs::path& directory) {
  const CheckpointReader reader(directory);
  return {digest_of(reader), reader.manifest()};
}

// Notes what was saved, when the run says that it was.
class Witness final : public RunSink {
 public:
  Witness(fs::path save, History& history) : save_(std::move(save)), history_(history) {}
  std::string name() const override { return "witness"; }
  void note(const RunNote& note) override {
    if (note.kind != RunNote::Kind::kSaved) return;
    Saved saved = saved_at(directory_of_iteration(save_, note.iteration));
    power_cuts::mark(key_of(saved.manifest));
    history_[key_of(saved.manifest)] = std::move(saved);
  }

 private:
  fs::path save_;
  History& history_;
};

class PowerCuts : public testing::TestWithParam<Scene> {
 protected:
  PowerCuts() {
    set_log_level(LogLevel::kError);
    IndexedDatasetWriter writer(directory_ / "data", TokenType::kU16);
    for (int document = 0; document < 10; ++document) {
      std::vector<std::int32_t> tokens;
      for (int i = 0; i < 20; ++i) tokens.push_back((i * i + document) % 40);
      writer.add_sequence(tokens);
      writer.end_document();
    }
    writer.commit();
  }
  ~PowerCuts() override { set_log_level(LogLevel::kInfo); }

  // A run below `root`.
  TrainConfig scene(const fs::path& root) const {
    TrainConfig c = with_flags(
        {}, fmt::format("--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8 "
                        "--max-position-embeddings 8 --micro-batch-size 2 --global-batch-size 4 "
                        "--split 100,0,0 --tokenizer-type NullTokenizer --vocab-size 40 "
                        "--make-vocab-size-divisible-by 8 --train-iters {} --lr 1e-2 --eval-iters "
                        "0 --threads-per-rank 1 --save-interval 1 --keep-last 2 {}",
                        kIterations, GetParam().flags));
    c.data.data_path = {(directory_ / "data").string()};
    c.run.save = (root / "save").string();
    c.run.load = c.run.save;
    return c;
  }

  // A run from its begin to its end.
  void record() {
    const fs::path root = directory_ / "recorded";
    fs::create_directory(root);
    power_cuts::start_recording(root);
    RunSinks sinks;
    sinks.add(std::make_unique<Witness>(root / "save", history_));
    EXPECT_EQ(pretrain(scene(root), nullptr, sinks), RunEnd::kFinished);
    ASSERT_EQ(history_.size(), static_cast<std::size_t>(kIterations));
    end_of_run_ = history_.rbegin()->second;
    // Then its last checkpoint is replaced.
    events_of_run_ = power_cuts::recorded_events();
    save_later(root / "save", 1, kIterations);
    record_ = power_cuts::stop_recording();
    // The record is what happened: without a cut it is the directory.
    EXPECT_EQ(whole_image(record_), image_of(root));
  }

  static DiskImage image_of(const fs::path& root) {
    DiskImage image;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      const std::string name = entry.path().lexically_relative(root).string();
      if (entry.is_directory()) {
        image[name + "/"] = "";
      } else {
        image[name] = read_file(entry.path());
      }
    }
    return image;
  }

  fs::path make_root(const DiskImage& image) const {
    fs::path root = directory_ / "cut";
    fs::create_directory(root);
    power_cuts::put_image(image, root);
    return root;
  }

  // The newest checkpoint has the bits that the run saved, and is not older than the run said.
  void expect_loads(const fs::path& save, std::int64_t committed) {
    const auto [saved, broken, replaced] = save_contents(save);
    EXPECT_TRUE(broken.empty());
    ASSERT_TRUE(committed < 0 || !saved.empty()) << "iteration " << committed << " is lost";
    // The tracker is a hint, and never of what is not there.
    EXPECT_LE(read_tracker(save).value_or(0), saved.empty() ? 0 : saved.back().iteration);
    if (saved.empty()) return;
    const CheckpointReader reader(saved.back().directory);
    const std::int64_t key = key_of(reader.manifest());
    EXPECT_GE(key, committed);
    const Saved& expected = history_.at(key);
    EXPECT_EQ(digest_of(reader), expected.digest);
    EXPECT_EQ(reader.manifest(), expected.manifest);
  }

  // What a save may leave.
  void expect_tidy(const fs::path& save) const {
    const auto [saved, broken, replaced] = save_contents(save);
    EXPECT_LE(std::ssize(saved), scene({}).run.keep_last);
    EXPECT_TRUE(broken.empty());
    EXPECT_TRUE(replaced.empty());
    for (const auto& entry : fs::recursive_directory_iterator(save)) {
      const std::string name = entry.path().filename().string();
      // Temporary files of these go when they are written again, at the next start.
      if (name.starts_with(".job") || name.starts_with(kVerifiedName)) continue;
      EXPECT_EQ(name.find(".tmp"), std::string::npos) << entry.path();
      EXPECT_EQ(name.find(".old"), std::string::npos) << entry.path();
    }
    EXPECT_EQ(read_tracker(save), saved.back().iteration);
  }

  // A save in a later start than the run's.
  void save_later(const fs::path& save, std::int64_t starts, std::int64_t iteration) {
    Manifest manifest = end_of_run_.manifest;
    manifest.start += starts;
    manifest.iteration = iteration;
    manifest.input_files.clear();
    manifest.arguments.clear();
    LocalTensorSource nothing({});
    const fs::path made = save_checkpoint(
        {.directory = save, .retention = {.keep_last = static_cast<int>(scene({}).run.keep_last)}},
        manifest, nothing);
    if (power_cuts::is_recording()) power_cuts::mark(key_of(manifest));
    history_[key_of(manifest)] = saved_at(made);
  }

  // Of the scene alone.
  static unsigned seed() { return static_cast<unsigned>(xxh3(std::string_view(GetParam().name))); }

  void cut_a_run() {
    const int cuts = is_nightly() ? 800 : 40;
    const int trains_on = is_nightly() ? 40 : 2;
    for (int number = 0; number < cuts && !HasFailure(); ++number) {
      std::mt19937 random(seed() + static_cast<unsigned>(number));
      const std::size_t events = number < trains_on ? events_of_run_ : record_.events.size();
      std::size_t end = random() % (events + 1);
      // The most is open just before it is synced.
      const auto is_sync = [&](std::size_t i) {
        return record_.events[i].kind == power_cuts::Event::Kind::kSync;
      };
      while (number % 2 == 0 && end < events && !is_sync(end)) ++end;
      SCOPED_TRACE(fmt::format("cut {} before event {}", number, end));
      const fs::path root = make_root(power_cuts::cut(record_, end, random));
      expect_loads(root / "save", record_.mark_before(end));
      if (HasFailure()) return;
      if (number < trains_on) {
        // The run goes on and ends with the bits of the one that was not cut.
        RunSinks sinks;
        EXPECT_EQ(pretrain(scene(root), nullptr, sinks), RunEnd::kFinished);
        EXPECT_EQ(digest_of(CheckpointReader::open(root / "save")), end_of_run_.digest);
      }
      save_later(root / "save", 3, kIterations + 1);
      expect_tidy(root / "save");
      fs::remove_all(root);
    }
  }

  // Mostly after a new name, which is not on the disk yet.
  std::size_t moment_of_kill(std::mt19937& random) const {
    std::vector<std::size_t> renames;
    for (std::size_t i = 0; i < record_.events.size(); ++i) {
      const auto kind = record_.events[i].kind;
      if (kind == power_cuts::Event::Kind::kRename || kind == power_cuts::Event::Kind::kExchange) {
        // Of a checkpoint, not of a file in it.
        if (record_.events[i].name.starts_with("iter_")) renames.push_back(i + 1);
      }
    }
    if (random() % 4 == 0) return random() % (record_.events.size() + 1);
    return renames[random() % renames.size()];
  }

  // Names that a killed run gave are not on the disk yet when the next one cleans up behind it.
  void cut_a_run_after_a_killed_one() {
    const int kills = is_nightly() ? 40 : 2;
    constexpr int kCuts = 5;
    for (int number = 0; number < kills * kCuts && !HasFailure(); ++number) {
      std::mt19937 random(seed() + static_cast<unsigned>(100'000 + number / kCuts));
      const DiskRecord killed = first_of(record_, moment_of_kill(random));
      const fs::path root = make_root(whole_image(killed));
      power_cuts::start_recording(root, killed);
      save_later(root / "save", 2, kIterations + 1);
      const DiskRecord record = power_cuts::stop_recording();
      fs::remove_all(root);

      random.seed(seed() + static_cast<unsigned>(200'000 + number));
      // Cleaning up comes first.
      std::size_t events = record.events.size() - killed.events.size();
      if (number % 2 == 0) events /= 3;
      const std::size_t end = killed.events.size() + random() % (events + 1);
      SCOPED_TRACE(fmt::format("{}: killed before event {}, cut before event {} of {}", number,
                               killed.events.size(), end, record.events.size()));
      const fs::path again = make_root(power_cuts::cut(record, end, random));
      expect_loads(again / "save", record.mark_before(end));
      if (HasFailure()) return;
      save_later(again / "save", 3, kIterations + 1);
      expect_tidy(again / "save");
      fs::remove_all(again);
    }
  }

  const TemporaryDirectory temporary_{"cuts"};
  const fs::path directory_ = temporary_.path();
  History history_;
  Saved end_of_run_;
  std::size_t events_of_run_ = 0;  // the first of the record
  DiskRecord record_;
};

TEST_P(PowerCuts, LeaveTheLastCheckpoint) {
  record();
  if (!HasFailure()) cut_a_run();
  if (!HasFailure()) cut_a_run_after_a_killed_one();
}

INSTANTIATE_TEST_SUITE_P(Layouts, PowerCuts, testing::ValuesIn(kScenes),
                         [](const auto& scene) { return std::string(scene.param.name); });

}  // namespace
}  // namespace phalanx
