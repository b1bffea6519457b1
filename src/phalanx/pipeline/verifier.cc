#include "phalanx/pipeline/verifier.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// How far one (chunk, microbatch) has come.
struct Progress {
  bool forward = false;
  bool input_gradient = false;
  bool weight_gradient = false;
};

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program),
        progress_(static_cast<std::size_t>(program.chunks) *
                  static_cast<std::size_t>(program.microbatches)),
        next_weight_(static_cast<std::size_t>(program.chunks), 0),
        reduced_(static_cast<std::size_t>(program.chunks), false) {}

  void run() {
    for (const Action& action : program_.actions) check(action);
    for (int chunk = 0; chunk < program_.chunks; ++chunk) {
      for (int m = 0; m < program_.microbatches; ++m) {
        const Progress& p = at(chunk, m);
        PHALANX_CHECK(
            p.forward && (program_.forward_only || (p.input_gradient && p.weight_gradient)),
            "microbatch {} of chunk {} is not finished", m, chunk);
      }
    }
    PHALANX_CHECK(program_.forward_only || stepped_, "the program has no optimizer step");
  }

 private:
  Progress& at(int chunk, int microbatch) {
    return progress_[static_cast<std::size_t>(chunk) *
                         static_cast<std::size_t>(program_.microbatches) +
                     static_cast<std::size_t>(microbatch)];
  }

  void check(const Action& action) {
    PHALANX_CHECK(action.chunk >= 0 && action.chunk < program_.chunks && action.microbatch >= 0 &&
                      action.microbatch < program_.microbatches,
                  "{} is outside the program", to_string(action));
    PHALANX_CHECK(!stepped_, "{} after the optimizer step", to_string(action));
    Progress& p = at(action.chunk, action.microbatch);
    switch (action.kind) {
      case ActionKind::kForward:
        require(!p.forward, action, "runs twice");
        p.forward = true;
        return;
      case ActionKind::kBackwardInput:
        input_gradient(p, action);
        return;
      case ActionKind::kBackwardWeight:
        weight_gradient(p, action);
        return;
      case ActionKind::kBackward:
        input_gradient(p, action);
        weight_gradient(p, action);
        return;
      case ActionKind::kReduceGradients:
        require(next_weight_[chunk_of(action)] == program_.microbatches, action,
                "before the last weight gradient");
        require(!reduced_[chunk_of(action)], action, "runs twice");
        reduced_[chunk_of(action)] = true;
        return;
      case ActionKind::kOptimizerStep:
        require(std::all_of(reduced_.begin(), reduced_.end(), [](bool done) { return done; }),
                action, "before all gradients are reduced");
        stepped_ = true;
        return;
    }
  }

  void input_gradient(Progress& p, const Action& action) const {
    require(!program_.forward_only, action, "in a forward-only program");
    require(p.forward, action, "before its forward pass");
    require(!p.input_gradient, action, "runs twice");
    p.input_gradient = true;
  }

  void weight_gradient(Progress& p, const Action& action) {
    require(p.input_gradient, action, "before its input gradient");
    require(!p.weight_gradient, action, "runs twice");
    require(next_weight_[chunk_of(action)] == action.microbatch, action,
            "adds weight gradients out of microbatch order");
    ++next_weight_[chunk_of(action)];
    p.weight_gradient = true;
  }

  static std::size_t chunk_of(const Action& action) {
    return static_cast<std::size_t>(action.chunk);
  }
  static void require(bool holds, const Action& action, const char* fault) {
    PHALANX_CHECK(holds, "{} {}", to_string(action), fault);
  }

  const Program& program_;
  std::vector<Progress> progress_;
  std::vector<int> next_weight_;
  std::vector<bool> reduced_;
  bool stepped_ = false;
};

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace phalanx
