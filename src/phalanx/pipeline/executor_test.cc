#include "phalanx/pipeline/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "phalanx/base/error.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/model/test_support.h"
#include "phalanx/ops/ref/ref_backend.h"
#include "phalanx/pipeline/schedules/no_pipelining.h"
#include "phalanx/pipeline/test_support.h"

namespace phalanx {
namespace {

class Services final : public StepServices {
 public:
  explicit Services(std::vector<nn::Batch> batches, const nn::LossTerm& loss = {})
      : batches_(std::move(batches)), loss_(loss) {}
  const nn::Batch& load(int microbatch) override {
    log += fmt::format("load{} ", microbatch);
    return loaded(microbatch);
  }
  const nn::Batch& loaded(int microbatch) override {
    return batches_.at(static_cast<std::size_t>(microbatch));
  }
  std::span<const nn::LossTerm> losses(int /*microbatch*/) override { return {&loss_, 1}; }
  void reduce_gradients(int chunk) override { log += fmt::format("reduce{} ", chunk); }
  void optimizer_step(int /*version*/) override { log += "step "; }
  void gather_parameters() override { log += "gather "; }
  bool is_given_up(int microbatch) override { return microbatch >= given_up_from; }

  std::string log;
  int given_up_from = 1 << 20;

 private:
  std::vector<nn::Batch> batches_;
  nn::LossTerm loss_;
};

// Only counts calls.
class CountingUnit final : public nn::Unit {
 public:
  CountingUnit(std::string name, bool first, bool last, std::string& log)
      : Unit(std::move(name)), log_(log) {
    if (!first) inputs_ = {{"stream", DType::kF32, 3}};
    if (!last) outputs_ = {{"stream", DType::kF32, 3}};
    parameters_ = {0};
  }
  void forward(nn::Pass& pass, Tensors inputs, Tensors outputs,
               const nn::Saved& /*saved*/) const override {
    EXPECT_EQ(inputs.size(), inputs_.size());
    EXPECT_EQ(outputs.size(), outputs_.size());
    EXPECT_TRUE(pass.training);
    log_ += "F" + name() + " ";
  }
  void backward_input(nn::Pass& /*pass*/, Tensors inputs, Tensors output_gradients,
                      Tensors input_gradients, const nn::Saved& /*saved*/) const override {
    EXPECT_EQ(inputs.size(), input_gradients.size());
    EXPECT_EQ(output_gradients.size(), outputs_.size());
    log_ += "b" + name() + " ";
  }
  void backward_weight(nn::Pass& /*pass*/, Tensors /*inputs*/, const nn::Saved& /*saved*/,
                       const nn::Gradients& /*gradients*/) const override {
    log_ += "w" + name() + " ";
  }

 private:
  std::string& log_;
};

Chunk counting_chunk(const std::string& names, std::string& log) {
  std::vector<std::unique_ptr<nn::Unit>> units;
  for (std::size_t i = 0; i < names.size(); ++i) {
    units.push_back(std::make_unique<CountingUnit>(std::string(1, names[i]), i == 0,
                                                   i + 1 == names.size(), log));
  }
  return Chunk(std::move(units));
}

class Executors : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_ref_backend();
  Arena workspace_{"workspace", 1 << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
  nn::UnitHooks hooks_;
};

TEST_F(Executors, RunsTheProgramInItsOrder) {
  Services services(std::vector<nn::Batch>(2));
  const Chunk first = counting_chunk("xy", services.log);
  const Chunk second = counting_chunk("z", services.log);
  const nn::BatchShape shape{.sequence = 2, .micro_batch = 1};
  Executor executor(
      program_of("F0.0 F0.1 b0.1 F1.0 B0.0 w0.1 F1.1 B1.1 reduce.1 B1.0 reduce.0 step", 2, 2),
      {{&first, {}, {}}, {&second, {}, {}}}, shape);
  Arena saved("saved", executor.saved_plan().bytes());
  executor.run(context_, saved, {.shapes = shape, .region = {}, .training = true, .loss = {}},
               services, hooks_);
  EXPECT_EQ(services.log,
            "load0 Fx Fy Fz bz load1 Fx Fy by wy bx wx wz Fz bz wz reduce1 "
            "by wy bx wx reduce0 step ");
}

// An evaluation that is given up completes the microbatches that have begun, and begins no other; a
// training step is never cut short.
TEST_F(Executors, AnEvaluationIsGivenUpFromAMicrobatchOn) {
  for (const bool forward_only : {true, false}) {
    Services services(std::vector<nn::Batch>(3));
    services.given_up_from = 1;
    const Chunk first = counting_chunk("x", services.log);
    const Chunk second = counting_chunk("y", services.log);
    const nn::BatchShape shape{.sequence = 2, .micro_batch = 1};
    Program program = program_of("F0.0 F1.0 F2.0 F0.1 F1.1 F2.1", 2, 3);
    program.forward_only = forward_only;
    Executor executor(std::move(program), {{&first, {}, {}}, {&second, {}, {}}}, shape);
    Arena saved("saved", executor.saved_plan().bytes());
    executor.run(context_, saved, {.shapes = shape, .region = {}, .training = true, .loss = {}},
                 services, hooks_);
    EXPECT_EQ(services.log, forward_only ? "load0 Fx Fy " : "load0 Fx load1 Fx load2 Fx Fy Fy Fy ");
  }
}

// Records which weights its passes read.
class ReadingUnit final : public nn::Unit {
 public:
  explicit ReadingUnit(std::vector<double>& read) : Unit("reader"), read_(read) {
    parameters_ = {0};
  }
  void forward(nn::Pass& pass, Tensors /*inputs*/, Tensors /*outputs*/,
               const nn::Saved& /*saved*/) const override {
    note(pass);
  }
  void backward_input(nn::Pass& pass, Tensors /*inputs*/, Tensors /*output_gradients*/,
                      Tensors /*input_gradients*/, const nn::Saved& /*saved*/) const override {
    note(pass);
  }
  void backward_weight(nn::Pass& /*pass*/, Tensors /*inputs*/, const nn::Saved& /*saved*/,
                       const nn::Gradients& /*gradients*/) const override {}

 private:
  void note(const nn::Pass& pass) const { read_.push_back(nn::values_of(pass.weights[0])[0]); }
  std::vector<double>& read_;
};

// Three microbatches, each an update; the second reads what the first has not changed.
Program stale_program() {
  Program program =
      program_of("F0.0 F1.0 B0.0 reduce.0 step F2.0 B1.0 reduce.0 step B2.0 reduce.0 step", 1, 3);
  for (const std::size_t reads_version_1 : {5U, 9U}) program.actions[reads_version_1].version = 1;
  return program;
}

// Weight version v is the number v; the newest weights are -1.
class StaleServices final : public StepServices {
 public:
  explicit StaleServices(ops::Operands& operands) {
    for (int v = 0; v < 3; ++v) versions_.push_back(operands.filled(DType::kF64, {1}, v));
  }
  const nn::Batch& load(int /*microbatch*/) override { return batch_; }
  const nn::Batch& loaded(int /*microbatch*/) override { return batch_; }
  std::span<const nn::LossTerm> losses(int /*microbatch*/) override { return {}; }
  nn::Weights stale_weights(int version) override {
    return {std::span(versions_).subspan(static_cast<std::size_t>(version), 1)};
  }
  void reduce_gradients(int /*chunk*/) override {}
  void optimizer_step(int version) override { steps.push_back(version); }
  void gather_parameters() override {}

  std::vector<int> steps;

 private:
  std::vector<Tensor> versions_;
  nn::Batch batch_;
};

TEST_F(Executors, ReadsTheWeightVersionsOfTheProgram) {
  Arena memory("operands", 1 << 16);
  ops::Operands operands(memory, DType::kF64, context_);
  const std::vector<Tensor> newest = {operands.filled(DType::kF64, {1}, -1.0)};
  std::vector<double> read;
  std::vector<std::unique_ptr<nn::Unit>> units;
  units.push_back(std::make_unique<ReadingUnit>(read));
  const Chunk chunk(std::move(units));
  const nn::BatchShape shape{.sequence = 2, .micro_batch = 1};
  Executor executor(stale_program(), {{&chunk, {newest}, {}}}, shape);
  Arena saved("saved", executor.saved_plan().bytes());
  const StepSettings settings{.shapes = shape, .region = {}, .training = true, .loss = {}};
  StaleServices services(operands);
  for (int run = 0; run < 2; ++run) {  // the versions of each begin at 0
    read.clear();
    executor.run(context_, saved, settings, services, hooks_);
    EXPECT_EQ(read, (std::vector<double>{-1, -1, -1, -1, 0, 1}));
  }
  EXPECT_EQ(services.steps, (std::vector<int>{1, 2, 3, 1, 2, 3}));

  Services forgetful(std::vector<nn::Batch>(3));
  EXPECT_THROW(executor.run(context_, saved, settings, forgetful, hooks_), InternalError);
}

constexpr int kMicrobatches = 3;

struct StepOutcome {
  std::vector<std::vector<double>> gradients;
  double loss = 0.0;
  std::int64_t saved_bytes = 0;
};

// Asks for tensors that live from one moment of a microbatch to another, and checks that nobody
// else writes them meanwhile. Outside their lives they hold NaN.
class Lender final : public nn::PassStates {
 public:
  explicit Lender(int units) : units_(units) {
    for (int u = 0; u < units; ++u) {
      lives_.push_back({u, u});
      lives_.push_back({u, backward(u)});
      lives_.push_back({std::max(0, u - 1), u});
      lives_.push_back({backward(u), backward(std::max(0, u - 1))});
    }
  }

  std::vector<SavedTensor> lent_tensors(int chunk, const nn::PassOrder& order) const override {
    EXPECT_EQ(chunk, 0);
    EXPECT_FALSE(order.forward_only);
    std::vector<SavedTensor> blocks;
    for (const Life& life : lives_) {
      blocks.push_back({.name = "lent",
                        .dtype = DType::kF64,
                        .shape = {37},
                        .born = point(life.born, nn::PassKind::kBackwardInput),
                        .last = point(life.last, nn::PassKind::kBackwardWeight)});
    }
    return blocks;
  }
  void enter(int /*chunk*/, const nn::PassOrder& order, bool forward, Tensors blocks) override {
    EXPECT_EQ(blocks.size(), lives_.size());
    log += forward ? "F" : "B";
    backward_follows = order.backward_follows;
    blocks_.assign(blocks.begin(), blocks.end());
  }
  void before(const nn::Unit& /*unit*/, nn::PassKind pass, int microbatch) override {
    if (pass == nn::PassKind::kForward || pass == nn::PassKind::kBackwardInput) {
      begin(pass == nn::PassKind::kForward ? forward_++ % units_ : units_ + backward_++ % units_,
            microbatch);
    }
  }
  void after(const nn::Unit& /*unit*/, nn::PassKind pass, int microbatch,
             const nn::UnitTensors& /*tensors*/) override {
    if (pass != nn::PassKind::kBackwardInput) end(microbatch);
  }

  std::string log;
  bool backward_follows = false;

 private:
  struct Life {
    int born = 0, last = 0;  // moments: forward passes, then backward passes
  };
  int backward(int unit) const { return 2 * units_ - 1 - unit; }
  PassPoint point(int moment, nn::PassKind in_backward) const {
    if (moment < units_) return {nn::PassKind::kForward, moment};
    return {in_backward, backward(moment)};
  }
  static double value(std::size_t block, int microbatch) {
    return 100.0 * microbatch + static_cast<double>(block);
  }
  void begin(int moment, int microbatch) {
    now_ = moment;
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      if (lives_[i].born == now_) fill(i, value(i, microbatch));
    }
    expect_untouched(microbatch);
  }
  void end(int microbatch) {
    expect_untouched(microbatch);
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      if (lives_[i].last == now_) fill(i, std::nan(""));
    }
  }
  void fill(std::size_t block, double number) {
    std::ranges::fill(blocks_[block].span<double>(), number);
  }
  void expect_untouched(int microbatch) {
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      if (now_ < lives_[i].born || lives_[i].last < now_) continue;
      for (const double x : blocks_[i].span<double>()) {
        ASSERT_EQ(x, value(i, microbatch)) << "block " << i << " at moment " << now_;
      }
    }
  }

  int units_;
  std::vector<Life> lives_;
  std::vector<Tensor> blocks_;  // of the microbatch whose pass runs
  int forward_ = 0, backward_ = 0, now_ = 0;
};

// The gradients of one step of a tiny GPT under a program, in memory full of garbage.
StepOutcome outcome_of(const std::string& text, Context& context,
                       const RecomputePlan& recompute = {}, Lender* lender = nullptr) {
  Arena memory("operands", 8 << 20);
  ops::Operands operands(memory, DType::kF64, context);
  GptConfig config = test_gpt_config(true);
  config.transformer.num_layers = 3;
  config.recompute = recompute;
  GptFixture gpt(operands, config);
  std::vector<nn::Batch> batches;
  for (int m = 0; m < kMicrobatches; ++m) {
    batches.push_back(
        gpt_test_batch(nn::test_batch(operands, gpt.all.shape, gpt.config.vocabulary)));
    for (auto& sample : batches.back().rows[0].sample.span<std::int64_t>()) sample += 2 * m;
  }
  Services services(batches, gpt.all.losses);
  ChunkTables tables{&gpt.chunk, gpt.all.weights, gpt.all.gradients};
  if (lender != nullptr) tables.states.push_back(lender);
  Executor executor(program_of(text, 1, kMicrobatches), {tables}, gpt.all.shape);
  Arena saved("saved", executor.saved_plan().bytes());
  std::memset(saved.base(), 0xff, static_cast<std::size_t>(saved.capacity()));
  nn::UnitHooks no_hooks;
  executor.run(
      context, saved,
      {.shapes = gpt.all.shape, .region = {}, .training = true, .loss = gpt.all.loss_settings},
      services, lender != nullptr ? static_cast<nn::UnitHooks&>(*lender) : no_hooks);
  gpt.all.join(context);
  StepOutcome outcome;
  for (const auto& gradient : gpt.all.gradient_tensors) {
    outcome.gradients.push_back(nn::values_of(gradient));
  }
  outcome.loss = nn::values_of(gpt.all.losses.sum)[0];
  outcome.saved_bytes = saved.high_water();
  EXPECT_EQ(saved.high_water(), executor.saved_plan().bytes()) << text;
  return outcome;
}

TEST_F(Executors, EveryScheduleGivesTheSameBits) {
  const auto expected = outcome_of("F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 reduce.0 step", context_);
  EXPECT_TRUE(std::isfinite(expected.loss));
  for (const char* text : {
           "F0.0 b0.0 w0.0 F1.0 b1.0 w1.0 F2.0 b2.0 w2.0 reduce.0 step",
           "F0.0 F1.0 F2.0 B0.0 B1.0 B2.0 reduce.0 step",
           "F0.0 F1.0 b0.0 w0.0 F2.0 b1.0 b2.0 w1.0 w2.0 reduce.0 step",
           "F0.0 F1.0 F2.0 b2.0 b1.0 b0.0 w0.0 w1.0 w2.0 reduce.0 step",
       }) {
    const auto outcome = outcome_of(text, context_);
    EXPECT_EQ(outcome.loss, expected.loss) << text;
    EXPECT_EQ(outcome.gradients, expected.gradients) << text;
    EXPECT_GE(outcome.saved_bytes, expected.saved_bytes) << text;
  }
}

// Tensors that are lent in a microbatch's saved memory do not overlap others while they live.
TEST_F(Executors, LentBlocksLieBesideWhatIsSaved) {
  using Method = RecomputePlan::Method;
  constexpr int kUnits = 5;  // embedding, three layers, head
  for (const RecomputePlan& plan :
       {RecomputePlan{}, RecomputePlan{.method = Method::kUniform, .num_layers = 2}}) {
    const char* const in_turn = "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 reduce.0 step";
    const auto expected = outcome_of(in_turn, context_, plan);
    for (const auto& [text, passes, follows] :
         {std::tuple{in_turn, "FBFBFB", true},
          std::tuple{"F0.0 F1.0 F2.0 B0.0 B1.0 B2.0 reduce.0 step", "FFFBBB", false},
          std::tuple{"F0.0 F1.0 B0.0 F2.0 B1.0 B2.0 reduce.0 step", "FFBFBB", false}}) {
      Lender lender(kUnits);
      const auto outcome = outcome_of(text, context_, plan, &lender);
      EXPECT_EQ(lender.log, passes);
      EXPECT_EQ(lender.backward_follows, follows) << text;
      EXPECT_EQ(outcome.loss, expected.loss) << text;
      EXPECT_EQ(outcome.gradients, expected.gradients) << text;
      EXPECT_GT(outcome.saved_bytes, expected.saved_bytes) << text;
    }
  }
}

// Recomputed tensors live twice, each time where the plan has room.
TEST_F(Executors, RecomputationGivesTheSameBitsInLessMemory) {
  using Method = RecomputePlan::Method;
  const char* const gpipe = "F0.0 F1.0 F2.0 B0.0 B1.0 B2.0 reduce.0 step";
  for (const char* text : {"F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 reduce.0 step", gpipe,
                           "F0.0 F1.0 b0.0 w0.0 F2.0 b1.0 b2.0 w1.0 w2.0 reduce.0 step"}) {
    const auto expected = outcome_of(text, context_);
    for (const RecomputePlan& plan : {RecomputePlan{.method = Method::kUniform, .num_layers = 1},
                                      RecomputePlan{.method = Method::kUniform, .num_layers = 2},
                                      RecomputePlan{.method = Method::kBlock, .num_layers = 2}}) {
      const auto outcome = outcome_of(text, context_, plan);
      EXPECT_EQ(outcome.loss, expected.loss) << text;
      EXPECT_EQ(outcome.gradients, expected.gradients) << text;
      if (text == gpipe) {
        EXPECT_LT(outcome.saved_bytes, expected.saved_bytes);
      }
    }
  }
}

// A rehearsal runs each distinct action once, and counts what the whole program would.
void expect_rehearsal_counts_the_program(const GptConfig& config, Communicator* group) {
  const auto backend = make_ref_backend();
  Arena memory("operands", 8 << 20);
  Arena workspace("workspace", 1 << 20);
  Recorder recorder;
  Context context{.backend = *backend, .workspace = workspace, .queue = {}, .recorder = &recorder};
  ops::Operands operands(memory, DType::kF64, context);
  GptFixture gpt(operands, config, group);
  const std::vector<nn::Batch> batches(4, gpt.all.batch);
  Executor executor(no_pipelining(4), {{&gpt.chunk, gpt.all.weights, gpt.all.gradients}},
                    gpt.all.shape);
  Arena saved("saved", executor.saved_plan().bytes());
  const StepSettings settings{.shapes = gpt.all.shape,
                              .region = gpt.all.region,
                              .training = true,
                              .loss = gpt.all.loss_settings};
  nn::UnitHooks hooks;
  recorder.clear();
  Services services(batches, gpt.all.losses);
  executor.run(context, saved, settings, services, hooks);
  const std::int64_t flops = recorder.flops();
  MessageTotals messages;
  messages.add(recorder.messages());
  Services rehearsed(batches, gpt.all.losses);
  const auto rehearsal = executor.rehearse(context, saved, settings, rehearsed, hooks);
  EXPECT_EQ(rehearsal.flops, flops);
  EXPECT_EQ(rehearsal.messages, messages);
  EXPECT_GT(flops, 0);
  EXPECT_EQ(messages.by_key().empty(), group == nullptr);
  EXPECT_EQ(rehearsed.log, "load0 reduce0 step gather ");
}

TEST_F(Executors, RehearsalCountsTheWholeProgram) {
  expect_rehearsal_counts_the_program(test_gpt_config(false), nullptr);
}

TEST_F(Executors, RehearsalCountsMessages) {
  run_local_ranks(2, {}, [](Communicator& world) {
    GptConfig config = test_gpt_config(true);
    config.transformer.tensor = {.rank = world.rank(), .size = 2, .sequence = true};
    config.recompute = {.method = RecomputePlan::Method::kUniform, .num_layers = 1};
    expect_rehearsal_counts_the_program(config, &world);
  });
}

}  // namespace
}  // namespace phalanx
