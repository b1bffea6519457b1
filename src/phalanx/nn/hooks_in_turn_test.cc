#include "phalanx/nn/hooks_in_turn.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::nn {
namespace {

class NamedHooks final : public UnitHooks {
 public:
  NamedHooks(std::string name, std::string& log) : name_(std::move(name)), log_(log) {}
  void before(const Unit& unit, PassKind /*pass*/, int microbatch) override {
    log_ += name_ + "<" + unit.name() + std::to_string(microbatch) + " ";
  }
  void after(const Unit& unit, PassKind /*pass*/, int microbatch,
             const UnitTensors& /*tensors*/) override {
    log_ += name_ + ">" + unit.name() + std::to_string(microbatch) + " ";
  }
  void grad_ready(ParamId id, int microbatch) override {
    log_ += name_ + "!" + std::to_string(id) + std::to_string(microbatch) + " ";
  }

 private:
  std::string name_;
  std::string& log_;
};

class IdleUnit final : public Unit {
 public:
  IdleUnit() : Unit("u") {}
  void forward(Pass& /*pass*/, Tensors /*inputs*/, Tensors /*outputs*/,
               const Saved& /*saved*/) const override {}
  void backward_input(Pass& /*pass*/, Tensors /*inputs*/, Tensors /*output_gradients*/,
                      Tensors /*input_gradients*/, const Saved& /*saved*/) const override {}
  void backward_weight(Pass& /*pass*/, Tensors /*inputs*/, const Saved& /*saved*/,
                       const Gradients& /*gradients*/) const override {}
};

// The first hook prepares what the others read, and removes it after they have read it.
TEST(HooksInTurn, TheFirstBeginsAndEnds) {
  std::string log;
  NamedHooks a("a", log), b("b", log), c("c", log);
  HooksInTurn all({&a, &b, &c});
  const IdleUnit unit;
  all.before(unit, PassKind::kForward, 4);
  EXPECT_EQ(log, "a<u4 b<u4 c<u4 ");
  log.clear();
  const auto backend = make_ref_backend();
  Arena workspace("workspace", 1 << 10);
  Context context{.backend = *backend, .workspace = workspace};
  const Weights weights;
  const Batch batch;
  const Pass pass{.ops = context,
                  .weights = weights,
                  .batch = batch,
                  .shapes = {},
                  .region = {},
                  .loss_settings = {},
                  .losses = {}};
  all.after(unit, PassKind::kForward, 4, {pass, {}, {}, {}, {}, {}});
  EXPECT_EQ(log, "c>u4 b>u4 a>u4 ");
  log.clear();
  all.grad_ready(7, 4);
  EXPECT_EQ(log, "c!74 b!74 a!74 ");
}

}  // namespace
}  // namespace phalanx::nn
