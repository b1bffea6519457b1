#include "phalanx/pipeline/saved_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "phalanx/offload/storage_test_support.h"
#include "phalanx/ops/ref/ref_backend.h"
#include "phalanx/pipeline/executor.h"
#include "phalanx/pipeline/test_support.h"

namespace phalanx {
namespace {

using nn::PassKind;
using testing::ElementsAre;
using testing_support::AlteringEngine;
using testing_support::Rig;
using testing_support::TestDirectory;

constexpr std::int64_t kWidth = 5000;  // 20,000 bytes: more than a block

// The numbers that passes of a microbatch save: stale tensors and those of others are noticed.
double value_of(int unit, int microbatch, double what) {
  return 1000.0 * microbatch + 10.0 * unit + what;
}

// A unit that saves two tensors and its input, and checks them in its backward pass.
class KeepingUnit final : public nn::Unit {
 public:
  KeepingUnit(int index, int units, const int& microbatch)
      : Unit(fmt::format("unit {}", index)), index_(index), microbatch_(microbatch) {
    if (index > 0) inputs_ = {{"stream", DType::kF32, kWidth}};
    if (index + 1 < units) outputs_ = {{"stream", DType::kF32, kWidth}};
    early_ = slots_.add_rows("early", DType::kF32, kWidth, nn::Born::kForward,
                             nn::LastReader::kInputGradient);
    late_ = slots_.add_rows("late", DType::kF32, kWidth, nn::Born::kForward,
                            nn::LastReader::kWeightGradient);
    own_ = slots_.add_rows("own", DType::kF32, kWidth, nn::Born::kInputGradient,
                           nn::LastReader::kWeightGradient);
  }
  void forward(nn::Pass& pass, Tensors inputs, Tensors outputs,
               const nn::Saved& saved) const override {
    expect_inputs(inputs);
    fill(pass, saved[early_], 1.0);
    fill(pass, saved[late_], 2.0);
    for (const Tensor& output : outputs) fill(pass, output, 10.0);
  }
  void backward_input(nn::Pass& pass, Tensors inputs, Tensors /*output_gradients*/,
                      Tensors /*input_gradients*/, const nn::Saved& saved) const override {
    expect_inputs(inputs);
    expect(saved[early_], 1.0);
    expect(saved[late_], 2.0);
    fill(pass, saved[own_], 3.0);
  }
  void backward_weight(nn::Pass& /*pass*/, Tensors inputs, const nn::Saved& saved,
                       const nn::Gradients& /*gradients*/) const override {
    expect_inputs(inputs);
    expect(saved[late_], 2.0);
    expect(saved[own_], 3.0);
  }
  bool recomputable() const override { return true; }
  void recompute(nn::Pass& pass, Tensors inputs, const nn::Saved& saved) const override {
    forward(pass, inputs, {}, saved);
  }

 private:
  void fill(nn::Pass& pass, const Tensor& tensor, double what) const {
    ops::fill(pass.ops, {.x = tensor, .value = value_of(index_, microbatch_, what)});
  }
  void expect(const Tensor& tensor, double what) const {
    if (microbatch_ < 0) return;
    for (const float value : tensor.span<float>()) {
      ASSERT_EQ(value, static_cast<float>(value_of(index_, microbatch_, what))) << name();
    }
  }
  // The output of the unit before.
  void expect_inputs(Tensors inputs) const {
    if (microbatch_ < 0) return;
    for (const Tensor& input : inputs) {
      for (const float value : input.span<float>()) {
        ASSERT_EQ(value, static_cast<float>(value_of(index_ - 1, microbatch_, 10.0))) << name();
      }
    }
  }

  int index_;
  const int& microbatch_;
  nn::SavedId early_, late_, own_;
};

class Services final : public StepServices {
 public:
  int current = -1;           // the microbatch whose pass runs; -1: nothing is compared
  bool is_rehearsal = false;  // in which not all passes run
  const nn::Batch& load(int microbatch) override { return loaded(microbatch); }
  const nn::Batch& loaded(int microbatch) override {
    current = is_rehearsal ? -1 : microbatch;
    return batch_;
  }
  std::span<const nn::LossTerm> losses(int /*microbatch*/) override { return {}; }
  void reduce_gradients(int /*chunk*/) override {}
  void optimizer_step(int /*version*/) override {}
  void gather_parameters() override {}

 private:
  nn::Batch batch_;
};

class SavedFilesTest : public testing::Test {
 protected:
  static constexpr nn::BatchShape kShape{.sequence = 1, .micro_batch = 1};

  Chunk chunk_of(int units, const RecomputePlan& recompute = {}) {
    std::vector<std::unique_ptr<nn::Unit>> list;
    for (int u = 0; u < units; ++u) {
      list.push_back(std::make_unique<KeepingUnit>(u, units, services_.current));
    }
    return Chunk(std::move(list), recompute);
  }

  std::unique_ptr<Backend> backend_ = make_ref_backend();
  Arena workspace_{"workspace", 1 << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
  Services services_;
};

std::vector<int> numbers(const std::vector<OffloadedTensor>& offloaded,
                         int OffloadedTensor::*member) {
  std::set<int> distinct;
  for (const OffloadedTensor& tensor : offloaded) distinct.insert(tensor.*member);
  return {distinct.begin(), distinct.end()};
}

TEST_F(SavedFilesTest, TensorsThatAreNotNeededForSomeUnitsGoToFiles) {
  const Chunk chunk = chunk_of(6);
  const auto offloaded_of = [&](const nn::PassOrder& order, std::int64_t smallest = 1) {
    std::vector<SavedTensor> tensors = chunk.saved_tensors(kShape, order.forward_only);
    return split_lives(tensors, 6, order, smallest);
  };
  // If other passes come in between: all but the last unit's.
  EXPECT_THAT(numbers(offloaded_of({}), &OffloadedTensor::written_after),
              ElementsAre(0, 1, 2, 3, 4));
  // Unit 3's tensors would be read back two units later.
  EXPECT_THAT(numbers(offloaded_of({.backward_follows = true}), &OffloadedTensor::written_after),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(offloaded_of({.forward_only = true}), ElementsAre());
  EXPECT_THAT(offloaded_of({}, 4 * kWidth + 1), ElementsAre());
  EXPECT_EQ(offloaded_of({}, 4 * kWidth).size(), 14U);  // the first has no input
}

TEST_F(SavedFilesTest, EachLifeIsAUnitLongerThanItsPasses) {
  const Chunk chunk = chunk_of(6);
  std::vector<SavedTensor> tensors = chunk.saved_tensors(kShape, false);
  const std::vector<SavedTensor> whole = tensors;
  const auto offloaded = split_lives(tensors, 6, {}, 1);
  ASSERT_EQ(tensors.size(), whole.size() + offloaded.size());
  for (const OffloadedTensor& tensor : offloaded) {
    const SavedTensor& first = tensors[tensor.first];
    const SavedTensor& second = tensors[tensor.second];
    EXPECT_EQ(tensor.read_before, tensor.written_after);
    EXPECT_EQ(first.born.unit, whole[tensor.first].born.unit);
    EXPECT_EQ(first.last.pass, PassKind::kForward);
    EXPECT_EQ(first.last.unit, tensor.written_after + 1);
    EXPECT_EQ(second.born.pass, PassKind::kBackwardInput);
    EXPECT_EQ(second.born.unit, tensor.read_before + 1);
    EXPECT_EQ(second.last.pass, whole[tensor.first].last.pass);
    EXPECT_EQ(second.last.unit, whole[tensor.first].last.unit);
    EXPECT_EQ(second.bytes(), first.bytes());
  }
}

// Of a recomputed group only the input is in a file, until the backward pass of the unit after it.
TEST_F(SavedFilesTest, AGroupsInputComesBeforeItsRecomputation) {
  const Chunk chunk = chunk_of(8, {RecomputePlan::Method::kUniform, 3});
  std::vector<SavedTensor> tensors = chunk.saved_tensors(kShape, false);
  const auto offloaded = split_lives(tensors, 8, {}, 1);
  // Groups 0-2, 3-5, 6-7: the first has no input, the last one stays.
  ASSERT_EQ(offloaded.size(), 1U);
  EXPECT_EQ(offloaded[0].written_after, 3);
  EXPECT_EQ(offloaded[0].read_before, 5);
  EXPECT_EQ(tensors[offloaded[0].second].born.unit, 6);
}

TEST(FileSlots, AreTheFirstThatAreFree) {
  const Program program =
      program_of("F0.0 F1.0 B0.0 F2.0 F3.0 b2.0 F4.0 w2.0 B1.0 B3.0 B4.0 reduce.0 step", 1, 5);
  EXPECT_THAT(file_slots(program), ElementsAre(ElementsAre(0, 1, 0, 2, 0)));
}

struct Case {
  std::string name;
  std::string program;
  RecomputePlan recompute = {};
  friend std::ostream& operator<<(std::ostream& out, const Case& it) { return out << it.program; }
};

class SavedFilesRun : public SavedFilesTest, public testing::WithParamInterface<Case> {};

// On a disk that is slow to begin transfers and to report their ends.
TEST_P(SavedFilesRun, PassesReadWhatTheirForwardPassSaved) {
  constexpr int kUnits = 7;
  const TestDirectory directory;
  Rig rig(directory.path(), testing_support::small_options(),
          [](const StorageOptions& options, std::span<std::byte> memory) {
            auto engine = std::make_unique<AlteringEngine>(make_engine(options, memory));
            const auto late = [](auto& /*block*/) {
              std::this_thread::sleep_for(std::chrono::microseconds(300));
            };
            engine->on_submit = late;
            engine->on_completion = late;
            return engine;
          });
  const Program program = program_of(GetParam().program, 1, 4);
  const Chunk chunk = chunk_of(kUnits, GetParam().recompute);
  SavedFiles files(rig.storage());
  Executor executor(program, {{&chunk, {}, {}}}, kShape, nullptr, nullptr, &files);
  files.open();
  EXPECT_LT(executor.saved_plan().bytes(),
            Executor(program, {{&chunk, {}, {}}}, kShape).saved_plan().bytes());
  const StepSettings settings{.shapes = kShape, .region = {}, .training = true, .loss = {}};
  Arena saved("saved", executor.saved_plan().bytes());
  Recorder recorder;
  context_.recorder = &recorder;
  executor.run(context_, saved, settings, services_, files);
  TransferTotals moved;
  moved.add(recorder.transfers());
  EXPECT_FALSE(moved.by_key().empty());
  for (int step = 0; step < 2; ++step) {
    executor.run(context_, saved, settings, services_, files);
    ASSERT_FALSE(HasFailure());
  }
  services_.is_rehearsal = true;
  EXPECT_EQ(executor.rehearse(context_, saved, settings, services_, files).transfers, moved);
}

INSTANTIATE_TEST_SUITE_P(
    All, SavedFilesRun,
    testing::Values(
        Case{"InTurn", "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 reduce.0 step"},
        Case{"AllForward", "F0.0 F1.0 F2.0 F3.0 B0.0 B1.0 B2.0 B3.0 reduce.0 step"},
        Case{"LastFirst", "F0.0 F1.0 F2.0 F3.0 B3.0 B2.0 B1.0 B0.0 reduce.0 step"},
        Case{"TwoInFlight", "F0.0 F1.0 B0.0 F2.0 B1.0 F3.0 B2.0 B3.0 reduce.0 step"},
        Case{"Split", "F0.0 F1.0 b0.0 F2.0 b1.0 w0.0 F3.0 w1.0 b2.0 b3.0 w2.0 w3.0 reduce.0 step"},
        Case{"Recomputed",
             "F0.0 F1.0 B0.0 F2.0 B1.0 F3.0 B2.0 B3.0 reduce.0 step",
             {RecomputePlan::Method::kUniform, 2}},
        Case{"PartlyRecomputed",
             "F0.0 F1.0 B0.0 F2.0 B1.0 F3.0 B2.0 B3.0 reduce.0 step",
             {RecomputePlan::Method::kBlock, 3}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace phalanx
