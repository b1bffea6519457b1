// Every rank writes its own part of a checkpoint: the parts hold what whole tensors hold, under
// every layout, and a rank that cannot write ends that save alone.

#include "phalanx/saving/rank_save.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "phalanx/checkpoint/consolidate.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/disk/test_support.h"
#include "phalanx/rendezvous/local_mailbox.h"
#include "phalanx/saving/gathered_tensors.h"
#include "phalanx/saving/pattern_test_support.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::AlteringEngine;
using testing_support::pattern;
using testing_support::resolved;
using testing_support::save_in_parts;

// Each rank has two of four.
constexpr const char* kSharedExperts =
    "--bf16 --num-experts 4 --moe-ffn-hidden-size 24 --expert-model-parallel-size 2 "
    "--moe-token-dispatcher-type alltoall";
constexpr const char* kEpoch = "0123456789abcdef0123456789abcdef.1.1";

class RankSaveTest : public RunTest {
 protected:
  // Each rank fills what it has of every tensor, and writes it.
  void save(const TrainConfig& config, std::int64_t iteration, bool with_optimizer = true,
            const std::function<EngineMaker(int rank)>& engine_of = nullptr,
            const testing_support::LeaderHooks& hooks = {}) const {
    LocalMailbox mailbox;
    run_ranks(config, *make_model(config, 49), [&](Rank& rank) {
      for (const ContributedTensor& tensor : contributed_tensors(rank, {}, Writers::kAll)) {
        const auto& info = tensor.info;
        const auto bytes = pattern(info.name, info.dtype, info.global_shape);
        for (const GlobalTensor& part : tensor.parts) {
          fill_from_box(part, whole_box(info.global_shape), info.dtype, bytes);
        }
      }
      const int number = rank.ranks().world->rank();
      BackgroundSaving saving{.mailbox = &mailbox, .stalled_after = stalled_after_};
      if (engine_of) saving.make = engine_of(number);
      const SaveVerdict verdict =
          save_in_parts(rank, saving, path("save"), kEpoch,
                        testing_support::example_manifest(iteration), with_optimizer, hooks);
      EXPECT_EQ(verdict.is_saved, verdict.reason.empty());
      if (number == 0) failure_ = verdict.reason;
    });
  }
  void expect_pattern(const CheckpointReader& reader) const {
    for (const auto& entry : reader.manifest().tensors) {
      // A weight that is not stored is its main parameter, rounded.
      const auto* source = entry.rounded_from.empty() ? &entry : reader.find(entry.rounded_from);
      auto expected = pattern(source->name, source->dtype, source->shape);
      if (source != &entry) {
        std::vector<std::byte> rounded(
            static_cast<std::size_t>(entry.shape.count() * size_of(entry.dtype)));
        convert_elements(source->dtype, expected.data(), entry.dtype, rounded.data(),
                         entry.shape.count());
        expected = std::move(rounded);
      }
      EXPECT_TRUE(testing_support::bytes_of(reader, entry) == expected) << entry.name;
    }
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path("save"))) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  mutable std::string failure_;
  std::chrono::milliseconds stalled_after_ = std::chrono::minutes(1);
};

TEST_F(RankSaveTest, AreTheRunInEveryLayout) {
  for (const bool bf16 : {false, true}) {
    for (const Layout& layout :
         {Layout{}, Layout{.tensor = 4}, Layout{.data = 3}, Layout{.data = 3, .sharded = true},
          Layout{.pipeline = 2}, Layout{.data = 2, .zero = 2}, Layout{.data = 2, .zero = 3},
          Layout{.data = 2, .zero = 3, .stays_below = 96},
          Layout{.tensor = 2, .data = 2, .pipeline = 2, .zero = 1},
          Layout{.data = 4, .zero = 3, .copies = 2}}) {
      SCOPED_TRACE(fmt::format("t {} p {} d {} zero {} copies {} bf16 {}", layout.tensor,
                               layout.pipeline, layout.data, layout.zero, layout.copies, bf16));
      const TrainConfig config = resolved(layout, bf16);
      save(config, 1);
      const CheckpointReader reader = CheckpointReader::open(path("save"));
      expect_pattern(reader);
      EXPECT_EQ(std::ssize(reader.manifest().parts), config.layout.world_size);
      EXPECT_EQ(std::ranges::any_of(reader.manifest().tensors,
                                    [](const auto& entry) { return !entry.rounded_from.empty(); }),
                bf16);
      // The states, once.
      std::int64_t stored = 0, written = 0;
      for (const auto& entry : reader.manifest().tensors) {
        if (entry.rounded_from.empty()) stored += entry.shape.count() * size_of(entry.dtype);
      }
      for (const auto& part : reader.manifest().parts) written += part.bytes;
      EXPECT_EQ(written, stored);
    }
  }
  // Without the optimizer's states weights are stored.
  save(resolved({.data = 2}, true), 1, false);
  const CheckpointReader weights = CheckpointReader::open(path("save"));
  expect_pattern(weights);
  EXPECT_FALSE(weights.has_optimizer());
}

// Copies of the states share the work, also where training cuts nothing.
TEST_F(RankSaveTest, CopiesWriteAShareEach) {
  save(resolved({.data = 3}, false), 1);
  const CheckpointReader reader = CheckpointReader::open(path("save"));
  std::int64_t most = 0, all = 0;
  for (const auto& part : reader.manifest().parts) {
    most = std::max(most, part.bytes);
    all += part.bytes;
  }
  EXPECT_LT(most, all / 2);
}

TEST_F(RankSaveTest, ARankThatCannotWriteEndsThatSaveAlone) {
  const TrainConfig config = resolved({.tensor = 2, .data = 2, .zero = 1}, false);
  save(config, 1);
  for (const int failing : {0, 2}) {
    failure_.clear();
    save(config, 2, true, [&](int rank) -> EngineMaker {
      if (rank != failing) return make_engine;
      return [](const StorageOptions& options, std::span<std::byte> buffers) {
        auto engine = std::make_unique<AlteringEngine>(make_engine(options, buffers));
        engine->on_completion = [](BlockCompletion& done) { done.result = -ENOSPC; };
        return engine;
      };
    });
    EXPECT_THAT(failure_, AllOf(HasSubstr(fmt::format("part-{:05d}.bin", failing)),
                                HasSubstr("No space left on device")));
    EXPECT_THAT(failure_, HasSubstr(fmt::format("rank {}: ", failing)));
    // Nothing of it is left.
    EXPECT_THAT(iterations("save"), ElementsAre(1));
    EXPECT_EQ(names().size(), 2U);  // and the tracker
  }
  save(config, 3);
  EXPECT_THAT(iterations("save"), ElementsAre(1, 3));
  expect_pattern(CheckpointReader::open(path("save")));
}

// A save that fails before anything is written: the others do not wait for ever.
TEST_F(RankSaveTest, ASaveThatDoesNotBeginEndsOnAllRanks) {
  fs::create_directories(path("save") + "/iter_0000002");
  save(resolved({.data = 2}, false), 2);
  EXPECT_THAT(failure_, HasSubstr("is there and not a checkpoint of Phalanx"));
}

// A file system that takes long to remove a checkpoint says nothing of the new one.
TEST_F(RankSaveTest, OneIsSavedBeforeOlderOnesAreRemoved) {
  const TrainConfig config = resolved({.data = 2}, false);
  save(config, 1);
  const fs::path second = fs::path(path("save")) / iteration_directory_name(2);
  std::atomic<bool> hangs{true};
  bool is_told = false;
  save(config, 2, true, nullptr,
       {.retention = {.keep_last = 1},
        .holds_directory =
            [&] {
              while (hangs && fs::exists(second)) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
              }
              return true;
            },
        .after_verdict =
            [&](LeadingSave& leading) {
              is_told = true;
              EXPECT_THAT(iterations("save"), ElementsAre(1, 2));
              hangs = false;
              leading.finish();
              EXPECT_THAT(iterations("save"), ElementsAre(2));
            }});
  EXPECT_TRUE(is_told);
  EXPECT_EQ(failure_, "");
}

// Runs: what they save in parts is what they save whole, and they go on from it to the bit.
TEST_F(RankSaveTest, RunsGoOnFromParts) {
  struct Case {
    Layout layout;
    const char* flags;
    bool in_files;
  };
  for (const auto& [layout, flags, in_files] :
       {Case{{.data = 2, .zero = 3}, "--bf16", true},
        Case{{.tensor = 2, .pipeline = 2}, "--fp16 --initial-loss-scale 1024", false},
        Case{{.data = 2, .zero = 1}, kSharedExperts, false}}) {
    for (const char* save : {"whole", "straight", "parts"}) fs::remove_all(path(save));
    TrainConfig c = with_flags(with_layout(config("whole"), layout), flags);
    if (in_files) c.layout.offload_optimizer_to = path("disk");
    train(c);
    c.run.save = path("straight");
    c.run.ckpt_fully_parallel_save = true;
    expect_resume_is_bitwise(c);
    EXPECT_FALSE(CheckpointReader::open(path("straight")).manifest().parts.empty());
    EXPECT_TRUE(CheckpointReader::open(path("whole")).manifest().parts.empty());
    const auto found = difference("whole", "straight");
    EXPECT_TRUE(found.tensors_equal()) << to_text(found);
    // The files of whole tensors, too.
    consolidate(CheckpointReader::open(path("straight")), path("straight"));
    for (const auto name : {kModelFileName, kOptimizerFileName}) {
      EXPECT_EQ(read_file(CheckpointReader::open(path("straight")).directory() / name),
                read_file(CheckpointReader::open(path("whole")).directory() / name));
    }
  }
}

}  // namespace
}  // namespace phalanx
