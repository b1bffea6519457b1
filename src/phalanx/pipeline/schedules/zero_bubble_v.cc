// ZB-V: zero bubble with two chunks on every rank, stages down the ranks and up again, and on every
// rank as many activations as on 1F1B's first. Chunk 1 of a rank is fed by its chunk 0 through all
// ranks below; each (chunk, pass) takes microbatches in order. Rank r of p:
//   1. F.0 x (2 (p - r) - 1)
//   2. (F.1 F.0) x r
//   3. (F.1 b.1 w.1) x (p - r)
//   4. while there are forward passes: F.0 (if any) b.0 w.0 F.1 b.1 w.1
//   5. (b.0 b.1) x r
//   6. (b.0 w.0) x (p - r)
//   7. what is left of w.1, then of w.0
// The rule needs 2 p - 1 microbatches. With fewer it is applied as if there were so many, and the
// passes of missing ones are left out.

#include <algorithm>
#include <array>

#include "phalanx/pipeline/schedules/generators.h"

namespace phalanx {
namespace {

class RankOrder {
 public:
  RankOrder(int microbatches, int rule_microbatches)
      : microbatches_(microbatches), rule_microbatches_(rule_microbatches) {
    actions_.reserve(6 * static_cast<std::size_t>(microbatches));
  }

  bool has_left(ActionKind kind, int chunk) const {
    return done_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(chunk)] <
           rule_microbatches_;
  }
  void add(ActionKind kind, int chunk) {
    int& next = done_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(chunk)];
    if (next < microbatches_) actions_.push_back(pass(kind, chunk, next));
    ++next;
  }
  void forward(int chunk) { add(ActionKind::kForward, chunk); }
  void input_gradient(int chunk) { add(ActionKind::kBackwardInput, chunk); }
  void weight_gradient(int chunk) { add(ActionKind::kBackwardWeight, chunk); }
  void backward(int chunk) {
    input_gradient(chunk);
    weight_gradient(chunk);
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  int microbatches_;
  int rule_microbatches_;
  std::array<std::array<int, 2>, 4> done_{};  // by kind and chunk
  std::vector<Action> actions_;
};

std::vector<Action> order_of(int rank, int ranks, int microbatches) {
  const int below = ranks - rank;
  RankOrder order(microbatches, std::max(2 * ranks - 1, microbatches));
  for (int i = 0; i < 2 * below - 1; ++i) order.forward(0);
  for (int i = 0; i < rank; ++i) {
    order.forward(1);
    order.forward(0);
  }
  for (int i = 0; i < below; ++i) {
    order.forward(1);
    order.backward(1);
  }
  while (order.has_left(ActionKind::kForward, 1)) {
    if (order.has_left(ActionKind::kForward, 0)) order.forward(0);
    order.backward(0);
    order.forward(1);
    order.backward(1);
  }
  for (int i = 0; i < rank; ++i) {
    order.input_gradient(0);
    order.input_gradient(1);
  }
  for (int i = 0; i < below; ++i) order.backward(0);
  for (const int chunk : {1, 0}) {
    while (order.has_left(ActionKind::kBackwardWeight, chunk)) order.weight_gradient(chunk);
  }
  return order.take();
}

}  // namespace

ActionLists zero_bubble_v_passes(const ScheduleRequest& request, const Placement&) {
  ActionLists ranks;
  for (int r = 0; r < request.ranks; ++r) {
    ranks.push_back(order_of(r, request.ranks, request.microbatches));
  }
  return ranks;
}

}  // namespace phalanx
