// DualPipe and DualPipeV: two streams of passes meet on every rank, and in the steady phase a
// forward pass of one is computed together with a backward pass of the other, so that the messages
// of either hide behind the other's work. In DualPipe the streams are the two directions of a
// bidirectional placement, m / 2 microbatches each; DualPipeV is its half: the streams are the two
// chunks of a V. With h ranks to a half, a rank q ranks from its outer end, and n microbatches a
// stream, near and far being the streams that enter at that end and at the other:
//   1. F(near) x 2 (h - q - 1)
//   2. (F(near) F(far)) x (q + 1)
//   3. (b(far) w F(far)) x (h - q - 1)
//   4. (pair{F(near) B(far)} pair{F(far) B(near)}) x (n - 2 h + q + 1)
//   5. (B(far) pair{F(far) B(near)}) x (h - q - 1)
//   6. (B(far) B(near)) x (q + 1), the second half of them with their weight gradients put off
//   7. (w b(near)) x (h - q - 1)
//   8. w x (q + 1)
// w is the oldest weight gradient that was put off. On the innermost rank the first
// pair of step 4 is not computed together.

#include <array>
#include <deque>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/schedules/generators.h"

namespace phalanx {
namespace {

enum class WeightGradient : std::uint8_t { kFused, kPutOff };

class RankOrder {
 public:
  explicit RankOrder(int microbatches) {
    actions_.reserve(6 * static_cast<std::size_t>(microbatches));
  }

  void forward(int chunk, bool paired = false) {
    Action action = pass(ActionKind::kForward, chunk, forward_[static_cast<std::size_t>(chunk)]++);
    action.paired = paired;
    actions_.push_back(action);
  }
  void backward(int chunk, WeightGradient weight = WeightGradient::kFused) {
    const int microbatch = backward_[static_cast<std::size_t>(chunk)]++;
    if (weight == WeightGradient::kFused) {
      actions_.push_back(pass(ActionKind::kBackward, chunk, microbatch));
      return;
    }
    actions_.push_back(pass(ActionKind::kBackwardInput, chunk, microbatch));
    put_off_.push_back(pass(ActionKind::kBackwardWeight, chunk, microbatch));
  }
  void weight_gradient() {
    actions_.push_back(put_off_.front());
    put_off_.pop_front();
  }
  void pair(int forward_chunk, int backward_chunk) {
    forward(forward_chunk, true);
    backward(backward_chunk);
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  std::array<int, 2> forward_{};  // next microbatch, by chunk
  std::array<int, 2> backward_{};
  std::deque<Action> put_off_;
  std::vector<Action> actions_;
};

struct Half {
  int ranks;         // h
  int microbatches;  // n
};

void add_steady_pairs(RankOrder& order, const Half& half, int q, int near, int far) {
  for (int i = 0; i < half.microbatches - 2 * half.ranks + q + 1; ++i) {
    if (i == 0 && q == half.ranks - 1) {
      order.forward(near);
      order.backward(far);
    } else {
      order.pair(near, far);
    }
    order.pair(far, near);
  }
}

void add_last_backwards(RankOrder& order, int q, int near, int far) {
  const int passes = 2 * (q + 1);
  for (int k = 0; k < passes; ++k) {
    order.backward(k % 2 == 0 ? far : near,
                   2 * k < passes ? WeightGradient::kFused : WeightGradient::kPutOff);
  }
}

std::vector<Action> order_of(const Half& half, int q, int near) {
  const int far = 1 - near;
  const int inner = half.ranks - q - 1;
  RankOrder order(half.microbatches);
  for (int i = 0; i < 2 * inner; ++i) order.forward(near);
  for (int i = 0; i < q + 1; ++i) {
    order.forward(near);
    order.forward(far);
  }
  for (int i = 0; i < inner; ++i) {
    order.backward(far, WeightGradient::kPutOff);
    order.weight_gradient();
    order.forward(far);
  }
  add_steady_pairs(order, half, q, near, far);
  for (int i = 0; i < inner; ++i) {
    order.backward(far);
    order.pair(far, near);
  }
  add_last_backwards(order, q, near, far);
  for (int i = 0; i < inner; ++i) {
    order.weight_gradient();
    order.backward(near, WeightGradient::kPutOff);
  }
  for (int i = 0; i < q + 1; ++i) order.weight_gradient();
  return order.take();
}

}  // namespace

ActionLists dualpipe_passes(const ScheduleRequest& request, const Placement&) {
  const int ranks = request.ranks;
  const int microbatches = request.microbatches;
  if (ranks % 2 != 0 || microbatches % 2 != 0 || microbatches < 2 * ranks) {
    throw ConfigError(
        "dualpipe: needs an even number of ranks, and an even number of microbatches of at least "
        "twice the ranks; {} ranks and {} microbatches were asked for",
        ranks, microbatches);
  }
  const Half half{.ranks = ranks / 2, .microbatches = microbatches / 2};
  ActionLists lists;
  for (int r = 0; r < ranks; ++r) {
    const bool first_half = r < half.ranks;
    lists.push_back(order_of(half, first_half ? r : ranks - 1 - r, first_half ? 0 : 1));
  }
  return lists;
}

ActionLists dualpipe_v_passes(const ScheduleRequest& request, const Placement&) {
  if (request.microbatches < 2 * request.ranks) {
    throw ConfigError(
        "dualpipe-v: needs at least twice as many microbatches as ranks; {} ranks and {} "
        "microbatches were asked for",
        request.ranks, request.microbatches);
  }
  const Half half{.ranks = request.ranks, .microbatches = request.microbatches};
  ActionLists lists;
  for (int r = 0; r < request.ranks; ++r) lists.push_back(order_of(half, r, 0));
  return lists;
}

}  // namespace phalanx
