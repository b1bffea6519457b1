#include "phalanx/pipeline/saved_plan.h"

#include <gtest/gtest.h>

#include <memory>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/saved_plan_test_support.h"

namespace phalanx {
namespace {

// A stack of tensors that grows forward and shrinks backward is packed without a gap.
TEST(SavedPlan, AStackTakesNoMoreThanWhatLives) {
  const Tables tables = {
      {saved_tensor(1000, forward(0), weight(0)), saved_tensor(500, forward(1), weight(1)),
       saved_tensor(300, input(1), weight(1)), saved_tensor(300, input(0), weight(0))}};
  const SavedPlan plan(one_by_one(3), tables);
  EXPECT_EQ(plan.bytes(), 1024 + 512 + 512);
  EXPECT_EQ(plan.bytes_per_microbatch(0), 1500);
  EXPECT_EQ(plan.microbatches_in_flight(0), 1);
}

TEST(SavedPlan, MicrobatchesInFlight) {
  const Tables tables = {{saved_tensor(256, forward(0), weight(0))}};
  const auto plan = [&](const char* text) { return SavedPlan(program_of(text, 1, 4), tables); };
  const SavedPlan gpipe = plan("F0.0 F1.0 F2.0 F3.0 B0.0 B1.0 B2.0 B3.0 reduce.0 step");
  EXPECT_EQ(gpipe.microbatches_in_flight(0), 4);
  EXPECT_EQ(gpipe.bytes(), 4 * 256);
  const SavedPlan one_forward_one_backward =
      plan("F0.0 F1.0 B0.0 F2.0 B1.0 F3.0 B2.0 B3.0 reduce.0 step");
  EXPECT_EQ(one_forward_one_backward.microbatches_in_flight(0), 2);
  EXPECT_EQ(one_forward_one_backward.bytes(), 2 * 256);
  // Split: held until the weight gradient.
  EXPECT_EQ(plan("F0.0 b0.0 F1.0 b1.0 w0.0 F2.0 b2.0 w1.0 w2.0 F3.0 B3.0 reduce.0 step").bytes(),
            2 * 256);
}

// A tensor that is born and dies at the same point has a place, and holes are used again.
TEST(SavedPlan, HolesAreUsedAgain) {
  const Tables tables = {
      {saved_tensor(256, forward(0), forward(0)), saved_tensor(512, forward(0), forward(1)),
       saved_tensor(256, forward(1), weight(0)), saved_tensor(512, input(1), input(1))}};
  const SavedPlan plan(one_by_one(1), tables);
  EXPECT_EQ(plan.bytes(), 256 + 512);
  EXPECT_EQ(plan.offsets(0, 0)[2], plan.offsets(0, 0)[0]);
  EXPECT_EQ(plan.offsets(0, 0)[3], plan.offsets(0, 0)[1]);
}

// A stage in the middle. The tensors that it exchanges live from the begin of the receive to the
// end of the send.
TEST(SavedPlan, EndsLiveWithTheirMessages) {
  using enum ActionKind;
  const auto plan = [](std::vector<Action> actions, const Tables& tables) {
    return SavedPlan({.actions = std::move(actions), .chunks = 1, .microbatches = 2}, tables);
  };
  const auto act = [](ActionKind kind, int m) { return message(kind, Payload::kActivation, 0, m); };
  const auto grad = [](ActionKind kind, int m) { return message(kind, Payload::kGradient, 0, m); };

  const SavedPlan in_turn =
      plan({act(kReceive, 0), pass(kForward, 0, 0), act(kSend, 0), act(kAwaitSend, 0),
            grad(kReceive, 0), pass(kBackward, 0, 0), grad(kSend, 0), grad(kAwaitSend, 0),
            act(kReceive, 1), pass(kForward, 0, 1), act(kSend, 1), act(kAwaitSend, 1),
            grad(kReceive, 1), pass(kBackward, 0, 1), grad(kSend, 1), grad(kAwaitSend, 1)},
           {{saved_tensor(256, forward(-1), weight(0)), saved_tensor(512, forward(0), forward(1)),
             saved_tensor(1024, input(1), input(0)), saved_tensor(2048, input(0), input(-1))}});
  EXPECT_EQ(in_turn.bytes(), 256 + 1024 + 2048);
  EXPECT_EQ(in_turn.microbatches_in_flight(0), 1);
  EXPECT_EQ(in_turn.bytes_per_microbatch(0), 256);

  // Microbatch 1 is received early, the gradient of microbatch 0 is sent late: at the end it is
  // there with the input and both gradients of microbatch 1.
  const SavedPlan overlapped =
      plan({act(kReceive, 0), pass(kForward, 0, 0), act(kSend, 0), act(kReceive, 1),
            act(kAwaitSend, 0), grad(kReceive, 0), pass(kBackward, 0, 0), grad(kSend, 0),
            pass(kForward, 0, 1), act(kSend, 1), act(kAwaitSend, 1), grad(kReceive, 1),
            pass(kBackward, 0, 1), grad(kSend, 1), grad(kAwaitSend, 0), grad(kAwaitSend, 1)},
           {{saved_tensor(256, forward(-1), weight(0)), saved_tensor(256, forward(0), forward(1)),
             saved_tensor(256, input(1), input(0)), saved_tensor(256, input(0), input(-1))}});
  EXPECT_EQ(overlapped.bytes(), 4 * 256);
  EXPECT_EQ(overlapped.microbatches_in_flight(0), 1);
}

// A program without the messages of its chunk is a mistake.
TEST(SavedPlan, EndsNeedTheirMessages) {
  const Tables tables = {{saved_tensor(256, forward(-1), weight(0))}};
  EXPECT_THROW(SavedPlan(one_by_one(1), tables), InternalError);
}

// Stages between the first and the last differ only in their peers: their plan is made once, and
// kept as long as it is asked for.
TEST(SavedPlans, AreSharedByStagesThatDifferInTheirPeers) {
  using enum ActionKind;
  const auto act = [](ActionKind kind, int m) { return message(kind, Payload::kActivation, 0, m); };
  const Tables tables = {
      {saved_tensor(256, forward(-1), forward(0)), saved_tensor(512, forward(0), forward(1))}};
  const Program second{
      .actions = {act(kReceive, 0), pass(kForward, 0, 0), act(kSend, 0), act(kAwaitSend, 0)},
      .forward_only = true};
  Program third = second;
  for (Action& action : third.actions) {
    if (!is_message(action.kind)) continue;
    ++action.peer;
    ++action.source_stage;
  }
  SavedPlans plans;
  std::weak_ptr<const SavedPlan> made = plans.plan(second, tables);
  plans.forget_unused();
  EXPECT_EQ(plans.plan(third, tables), made.lock());
  Program trained = second;
  trained.forward_only = false;
  EXPECT_NE(plans.plan(trained, tables), made.lock());
  plans.forget_unused();
  EXPECT_FALSE(made.expired());
  plans.forget_unused();
  EXPECT_TRUE(made.expired());
}

TEST(SavedPlan, EvaluationFreesEveryMicrobatch) {
  const Tables tables = {
      {saved_tensor(256, forward(0), forward(1)), saved_tensor(256, forward(1), forward(1))}};
  Program program = program_of("F0.0 F1.0 F2.0 F3.0 F4.0", 1, 5);
  program.forward_only = true;
  const SavedPlan plan(program, tables);
  EXPECT_EQ(plan.bytes(), 512);
  EXPECT_EQ(plan.microbatches_in_flight(0), 1);
  EXPECT_EQ(plan.bytes_per_microbatch(0), 0);
}

}  // namespace
}  // namespace phalanx
