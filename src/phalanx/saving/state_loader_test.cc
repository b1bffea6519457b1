// Ranks load a checkpoint in shares: every rank of every layout gets what the files hold, each byte
// of which is read once in the world; and damage that one rank finds is heard of by all.

#include "phalanx/saving/state_loader.h"

#include <gmock/gmock.h>

#include <cstring>
#include <mutex>

#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/checkpoint/parts_test_support.h"
#include "phalanx/checkpoint/test_support.h"
#include "phalanx/rendezvous/local_mailbox.h"
#include "phalanx/saving/gathered_tensors.h"
#include "phalanx/saving/load_plan.h"
#include "phalanx/saving/pattern_test_support.h"
#include "phalanx/saving/run_checkpoint.h"

namespace phalanx {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::pattern;
using testing_support::resolved;

constexpr const char* kEpoch = "0123456789abcdef0123456789abcdef.1.1";

enum class Files : std::uint8_t { kWhole, kParts, kSmallBlocks };

// What a tensor of the checkpoint holds.
std::vector<std::byte> stored_pattern(const TensorSource::Info& info, bool is_rounded) {
  if (!is_rounded) return pattern(info.name, info.dtype, info.global_shape);
  const auto exact =
      pattern(std::string(kMainParamPrefix) + info.name, DType::kF32, info.global_shape);
  std::vector<std::byte> rounded(
      static_cast<std::size_t>(info.global_shape.count() * size_of(info.dtype)));
  convert_elements(DType::kF32, exact.data(), info.dtype, rounded.data(),
                   info.global_shape.count());
  return rounded;
}

bool is_rounded(const TensorSource::Info& info) { return info.dtype != DType::kF32; }

class StateLoaderTest : public RunTest {
 protected:
  // Every rank fills what it has with the pattern, and all save it.
  void save(const TrainConfig& config, Files files) const {
    LocalMailbox mailbox;
    run_ranks(config, *make_model(config, 49), [&](Rank& rank) {
      auto tensors =
          contributed_tensors(rank, {}, files == Files::kParts ? Writers::kAll : Writers::kFirst);
      for (const ContributedTensor& tensor : tensors) {
        const auto bytes = stored_pattern(tensor.info, is_rounded(tensor.info));
        for (const GlobalTensor& part : tensor.parts) {
          fill_from_box(part, whole_box(tensor.info.global_shape), tensor.info.dtype, bytes);
        }
      }
      const Manifest manifest = testing_support::example_manifest(1);
      const bool leads = rank.ranks().world->rank() == 0;
      if (files == Files::kParts) {
        const auto verdict = testing_support::save_in_parts(rank, {.mailbox = &mailbox},
                                                            path("save"), kEpoch, manifest);
        EXPECT_TRUE(verdict.is_saved) << verdict.reason;
      } else if (files == Files::kWhole) {
        GatheredTensors gathered(std::move(tensors), *rank.ranks().world, rank.context());
        if (!leads) return gathered.serve();
        save_checkpoint({.directory = path("save")}, manifest, gathered);
      } else if (leads) {
        save_small_blocks(tensors, manifest);
      }
    });
  }
  // Parts of other ranks' making: small blocks, and pieces that begin and end amid rows and blocks.
  void save_small_blocks(const std::vector<ContributedTensor>& tensors,
                         const Manifest& manifest) const {
    std::int64_t bytes = 0;
    for (const auto& tensor : tensors) {
      bytes += tensor.info.global_shape.count() * size_of(tensor.info.dtype) + kArenaAlignment;
    }
    Arena arena("whole tensors", bytes);
    std::vector<GlobalTensor> stored;
    std::vector<std::pair<GlobalTensor, std::string>> rounded;
    for (const auto& [info, parts, fetches] : tensors) {
      GlobalTensor whole = whole_tensor(info.name, arena.allocate(info.dtype, info.global_shape));
      const auto values = pattern(info.name, info.dtype, info.global_shape);
      std::memcpy(whole.local.data(), values.data(), values.size());
      if (is_rounded(info)) {
        rounded.emplace_back(std::move(whole), std::string(kMainParamPrefix) + info.name);
      } else {
        stored.push_back(std::move(whole));
      }
    }
    testing_support::TestParts parts(stored, testing_support::cut_for_ranks(stored, 3, 1801));
    parts.rounded = std::move(rounded);
    save_checkpoint({.directory = path("save")}, manifest, parts);
  }

  // Every rank has what the files hold, also of what several ranks have; padding is zeros.
  static void expect_loaded(Rank& rank) {
    const ParameterStore& parameters = rank.parameters();
    const auto expect = [&](const ParamSpec& spec, const GlobalTensor& part,
                            std::string_view prefix, bool has_main) {
      const TensorSource::Info info{.name = std::string(prefix) + spec.name,
                                    .dtype = part.local.dtype,
                                    .global_shape = spec.global_shape};
      const auto bytes = stored_pattern(info, has_main && is_rounded(info));
      Arena arena("expected", part.local.bytes() + kArenaAlignment);
      GlobalTensor expected = part;
      expected.local = arena.allocate(part.local.dtype, part.local.shape);
      std::memset(expected.local.data(), 0, static_cast<std::size_t>(expected.local.bytes()));
      fill_from_box(expected, whole_box(spec.global_shape), part.local.dtype, bytes);
      EXPECT_EQ(std::memcmp(part.local.data(), expected.local.data(),
                            static_cast<std::size_t>(part.local.bytes())),
                0)
          << info.name << " of rank " << rank.ranks().world->rank();
    };
    for (ParamId id = 0; id < rank.table().size(); ++id) {
      if (!parameters.weight(id)) continue;
      expect(rank.table()[id], global_tensor(rank.table()[id], parameters.weight(id)), "", true);
    }
    for (const Segment& segment : parameters.states().segments()) {
      const ParamSpec& spec = rank.table()[segment.id];
      const auto expect_part = [&](const Tensor& local, std::string_view prefix) {
        expect(spec, shard_tensor(spec, local, segment.begin, prefix), prefix, true);
      };
      expect_part(parameters.weight(segment), "");
      if (parameters.has_main_parameters()) {
        expect_part(parameters.main(segment), kMainParamPrefix);
      }
      for (const auto name : rank.optimizer().state_names()) {
        expect_part(rank.optimizer().state(name).in_memory(segment), state_prefix(name));
      }
    }
  }

  LoadFacts load(const TrainConfig& config, bool in_shares = true) const {
    const CheckpointReader reader = CheckpointReader::open(path("save"), Verify::kCopies);
    LoadFacts facts;
    std::mutex mutex;
    run_ranks(config, *make_model(config, 49), [&](Rank& rank) {
      rank.initialise_gradients();
      rank.parameters().clear(rank.context());
      rank.initialise_optimizer();
      const LoadFacts mine = load_states(reader, rank, {.in_shares = in_shares});
      if (mine.fault.empty()) expect_loaded(rank);
      const std::lock_guard lock(mutex);
      if (rank.ranks().world->rank() > 0) {
        EXPECT_EQ(mine.fault, facts.fault.empty() ? mine.fault : facts.fault);
      }
      facts = mine;
    });
    return facts;
  }

  std::int64_t stored_bytes() const {
    const CheckpointReader reader = CheckpointReader::open(path("save"), Verify::kNo);
    std::int64_t bytes = 0;
    for (const auto& entry : reader.manifest().tensors) {
      if (entry.rounded_from.empty()) bytes += entry.shape.count() * size_of(entry.dtype);
    }
    return bytes;
  }
};

TEST_F(StateLoaderTest, EveryByteIsReadOnceUnderEveryLayout) {
  const std::vector<Layout> layouts = {Layout{},
                                       Layout{.tensor = 4},
                                       Layout{.data = 3},
                                       Layout{.data = 3, .sharded = true},
                                       Layout{.tensor = 2, .pipeline = 2},
                                       Layout{.data = 2, .zero = 2},
                                       Layout{.data = 2, .zero = 3, .stays_below = 96},
                                       Layout{.tensor = 2, .data = 2, .pipeline = 2, .zero = 1},
                                       Layout{.data = 4, .zero = 3, .copies = 2}};
  for (const bool bf16 : {false, true}) {
    for (const Files files : {Files::kWhole, Files::kParts, Files::kSmallBlocks}) {
      for (std::size_t l = 0; l < layouts.size(); ++l) {
        // The layout of the save is another one each time, and once the same.
        const Layout& then = layouts[files == Files::kParts ? l : (l + 4) % layouts.size()];
        const Layout& now = layouts[l];
        SCOPED_TRACE(fmt::format("files {} bf16 {}: t {} p {} d {} zero {} copies {}",
                                 static_cast<int>(files), bf16, now.tensor, now.pipeline, now.data,
                                 now.zero, now.copies));
        save(resolved(then, bf16), files);
        const LoadFacts facts = load(resolved(now, bf16));
        EXPECT_EQ(facts.fault, "");
        EXPECT_EQ(facts.bytes_read, stored_bytes());
        if (files == Files::kParts) {
          // In the layout of the save each rank reads what it wrote, and sends copies alone.
          save(resolved(layouts[(l + 1) % layouts.size()], bf16), files);
          EXPECT_EQ(load(resolved(now, bf16)).bytes_read, stored_bytes());
        }
      }
    }
  }
}

// Without shares each rank reads what it needs: the same bits, more often.
TEST_F(StateLoaderTest, RanksReadForThemselvesWhereToldSo) {
  for (const Files files : {Files::kWhole, Files::kSmallBlocks}) {
    save(resolved({.data = 2}, true), files);
    const LoadFacts facts = load(resolved({.tensor = 2, .data = 2}, true), false);
    EXPECT_EQ(facts.fault, "");
    EXPECT_EQ(facts.bytes_sent, 0);
    EXPECT_GT(facts.bytes_read, stored_bytes());
  }
}

TEST_F(StateLoaderTest, InTheLayoutOfTheSaveOnlyCopiesAreSent) {
  save(resolved({.data = 3, .sharded = true}, false), Files::kParts);
  EXPECT_EQ(load(resolved({.data = 3, .sharded = true}, false)).bytes_sent, 0);
}

// Damage anywhere: every rank hears what it is and which rank has found it.
TEST_F(StateLoaderTest, AllRanksHearOfDamage) {
  const TrainConfig config = resolved({.tensor = 2, .data = 2, .zero = 1}, true);
  save(config, Files::kParts);
  const auto directory = CheckpointReader::open(path("save"), Verify::kNo).directory();
  for (const int part : {0, 3}) {
    const auto file = directory / part_data_name(part);
    testing_support::flip_bit(file, 100, 3);
    EXPECT_THAT(load(config).fault, AllOf(HasSubstr(file.string()), HasSubstr("block 0 is damaged"),
                                          HasSubstr(fmt::format("(found by rank {})", part))));
    testing_support::flip_bit(file, 100, 3);
  }
  save(config, Files::kWhole);
  testing_support::flip_bit(
      CheckpointReader::open(path("save"), Verify::kNo).directory() / kOptimizerFileName, 30000, 3);
  EXPECT_THAT(load(config).fault, AllOf(HasSubstr(std::string(kOptimizerFileName)),
                                        HasSubstr("is damaged: its digest is")));
}

// A run whose newest checkpoint is damaged goes on from the one before, as if that were the newest.
TEST_F(StateLoaderTest, ARunTakesTheCheckpointBefore) {
  for (const bool in_parts : {false, true}) {
    TrainConfig c = with_layout(config("run"), {.data = 2, .sharded = true});
    c.run.ckpt_fully_parallel_save = in_parts;
    c.run.save_interval = 2;
    c.run.exit_interval = 4;
    train(c);
    const auto newest = CheckpointReader::open(path("run")).directory();
    const auto file = newest / (in_parts ? part_data_name(1) : std::string(kModelFileName));
    testing_support::flip_bit(file, 20000, 0);
    c.run.load = c.run.save;
    c.run.exit_interval = 0;
    testing::internal::CaptureStderr();
    train(c);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr(file.string()), HasSubstr("is damaged"),
                      HasSubstr("taking " + (newest.parent_path() / "iter_0000002").string())));
    c = with_layout(config("straight"), {.data = 2, .sharded = true});
    c.run.save_interval = 2;
    train(c);
    EXPECT_TRUE(equal("straight", "run"));
    // The damaged one is moved aside, and nothing else.
    EXPECT_TRUE(std::filesystem::exists(path("run/abandoned-1/iter_0000004")));
    // Without another one it is an error that names both.
    for (const auto& saved : saved_checkpoints(path("run"))) {
      testing_support::flip_bit(
          saved.directory / (in_parts ? part_data_name(1) : std::string(kModelFileName)), 20000, 0);
    }
    c = with_layout(config("run"), {.data = 2, .sharded = true});
    c.run.load = c.run.save;
    EXPECT_THAT(error_of<DataError>([&] { pretrain(c); }),
                AllOf(HasSubstr("is damaged"), HasSubstr("no older checkpoint in")));
  }
}

// ---- the plan

struct PlanCase {
  std::vector<Manifest::Entry> entries;
  std::vector<StoredUnit> units;
  std::vector<std::vector<NeededBox>> needs;
};

// A matrix of f32 in blocks of `block` bytes, of one rank's making; ranks that need columns or
// rows.
PlanCase plan_case(std::int64_t rows, std::int64_t columns, std::int64_t block, int ranks,
                   bool by_column) {
  PlanCase c;
  c.entries.push_back({.name = "w", .dtype = DType::kF32, .shape = {rows, columns}, .file = {}});
  const std::int64_t rows_of_block = block / (columns * 4);
  for (std::int64_t row = 0; row < rows; row += rows_of_block) {
    const std::int64_t count = std::min(rows_of_block, rows - row);
    c.units.push_back({{.number = row / rows_of_block,
                        .bytes = count * columns * 4,
                        .pieces = {{&c.entries[0], {row, 0, count, columns}, 0}}}});
  }
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t width = columns / ranks, height = rows / ranks;
    c.needs.push_back({{0, by_column ? MatrixBox{0, r * width, rows, width}
                                     : MatrixBox{r * height, 0, height, columns}}});
  }
  return c;
}

TEST(LoadPlan, BlocksOfRealSizeAreReadOnceAndSharedOut) {
  // 200 MB in blocks of 8 MiB, as a save of one rank makes them; then 6 ranks.
  for (const bool by_column : {false, true}) {
    const PlanCase c = plan_case(12288, 4080, std::int64_t{8} << 20, 6, by_column);
    std::int64_t read = 0, received = 0;
    for (int rank = 0; rank < 6; ++rank) {
      const LoadPlan plan = load_plan(
          c.units, [](const auto&) { return 0; }, c.needs, rank);
      std::int64_t own = 0;
      for (const auto& one : plan.reads) own += one.chunk->bytes;
      EXPECT_LE(own, std::int64_t{5} * (8 << 20));  // of 24 blocks
      read += own;
      for (const auto& round : plan.receipts) {
        for (const auto& receipt : round) received += receipt.bytes;
      }
      // Beside the states a rank has a block, what it sends of it and a message.
      EXPECT_LE(plan.largest_chunk, 8 << 20);
      EXPECT_LE(plan.largest_sent, 8 << 20);
      EXPECT_LE(plan.largest_received, 8 << 20);
    }
    const std::int64_t stored = c.entries[0].shape.count() * 4;
    EXPECT_EQ(read, stored);
    EXPECT_LT(received, stored);
    if (!by_column) {
      EXPECT_LT(received, stored / 8);
    }
  }
}

}  // namespace
}  // namespace phalanx
