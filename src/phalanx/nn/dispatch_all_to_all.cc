// Rows travel to the ranks of their experts, and results back. The tokens' side of a pass is the
// rows at home, sorted by (expert, pair); the messages of a round are runs of consecutive rows of
// one expert, which lie where they belong on both sides, so nothing is packed or sorted again.

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "phalanx/nn/dispatch.h"
#include "phalanx/nn/pair_order.h"
#include "phalanx/ops/balance.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

using Direction = PointToPoint::Direction;

class AllToAllDispatch final : public Dispatch {
 public:
  // `counts`: [ranks, experts] rows, absent where padding makes them known.
  AllToAllDispatch(Pass& pass, const Saved& saved, const PairOrder& order,
                   const ExpertSettings& settings, const ExpertParallel& layout,
                   const Tensor& counts)
      : pass_(pass), saved_(saved), order_(order), settings_(settings), layout_(layout) {
    if (counts) counts_.emplace(pass.ops.backend.read_later(pass.ops.queue, counts));
  }

  int rounds() override {
    // A plan of memory has no data: it goes through a later round, which is empty, if there may be
    // any.
    return is_planned() ? std::min<int>(2, static_cast<int>(sizes().most_rounds()))
                        : plan().rounds();
  }
  std::optional<std::int64_t> expected_rows(int round) override { return plan().rows(round); }
  Tensor offsets(int round) override {
    const std::vector<std::int32_t> offsets = plan().offsets(round);
    const Tensor tensor = pass_.scratch(DType::kI32, {static_cast<std::int64_t>(offsets.size())});
    pass_.ops.backend.upload(pass_.ops.queue, tensor, std::as_bytes(std::span(offsets)));
    return tensor;
  }
  void clear_rest(int round, const Tensor& at_expert) override {
    const std::int64_t rows = plan().rows(round);
    const std::int64_t rest = at_expert.shape[0] - rows;
    if (rest > 0) ops::fill(pass_.ops, {.x = at_expert.slice(0, rows, rest), .value = 0.0});
  }

  Tensor leaving_rows(const Tensor& tokens) override {
    const Tensor rows = pass_.scratch(tokens.dtype, {sizes().home, tokens.shape[1]});
    order_.gather(pass_, rows, tokens, saved_);
    return rows;
  }
  Tensor leaving_numbers(const Tensor& pairs) override {
    const Tensor numbers = pass_.scratch(pairs.dtype, {sizes().home});
    order_.gather_numbers(pass_, numbers, pairs, saved_);
    return numbers;
  }
  void fetch(int round, const Freight& rows, const Freight& numbers) override {
    const auto same = [](const Tensor& at_home, int /*tensor_rank*/) { return at_home; };
    exchange(round, rows, numbers, Direction::kSend, same);
  }

  // Results of each rank of an expert: [expert-tensor ranks, rows at home, ...].
  Tensor coming_rows(const Tensor& at_expert) override {
    return pass_.scratch(at_expert.dtype, {layout_.tensor_size, sizes().home, at_expert.shape[1]});
  }
  Tensor coming_numbers(const Tensor& at_expert) override {
    return pass_.scratch(at_expert.dtype, {layout_.tensor_size, sizes().home});
  }
  void give_back(int round, const Freight& rows, const Freight& numbers) override {
    const auto of_rank = [](const Tensor& at_home, int tensor_rank) {
      return at_home.select(0, tensor_rank);
    };
    exchange(round, rows, numbers, Direction::kReceive, of_rank);
  }
  void add_up_rows(const Tensor& y, const Tensor& coming) override {
    if (layout_.tensor_size == 1) {
      order_.add_up(pass_, y, coming.select(0, 0), saved_);
      return;
    }
    const WorkspaceScope scope(pass_.ops.workspace);
    const DType full = full_precision(coming.dtype);
    const Tensor sum = y.dtype == full ? y : pass_.scratch(full, y.shape);
    const Tensor part = pass_.scratch(full, y.shape);
    order_.add_up(pass_, sum, coming.select(0, 0), saved_);
    for (int rank = 1; rank < layout_.tensor_size; ++rank) {
      order_.add_up(pass_, part, coming.select(0, rank), saved_);
      ops::accumulate(pass_.ops, {.destination = sum, .source = part});
    }
    if (y.dtype != full) ops::copy(pass_.ops, {.destination = y, .source = sum});
  }
  void add_up_numbers(const Tensor& pairs, const Tensor& coming) override {
    for (int rank = 1; rank < layout_.tensor_size; ++rank) {
      ops::accumulate(pass_.ops,
                      {.destination = coming.select(0, 0), .source = coming.select(0, rank)});
    }
    order_.scatter_numbers(pass_, pairs, coming.select(0, 0), saved_);
  }

 private:
  std::int64_t tokens() const { return pass_.shape.stream_rows(); }
  bool is_planned() const { return pass_.ops.backend.space() == MemorySpace::kNone; }
  RowSizes sizes() const { return row_sizes(settings_, layout_, tokens()); }

  // The first call waits for the counts.
  const RowPlan& plan() {
    if (!plan_) {
      plan_.emplace(layout_, settings_.experts, counts(), sizes().round);
    }
    return *plan_;
  }
  std::vector<std::int64_t> counts() {
    if (!counts_ || is_planned()) {
      return balanced_counts(settings_, layout_, tokens());
    }
    const std::span<const std::byte> bytes = counts_->wait();
    std::vector<std::int32_t> read(bytes.size() / sizeof(std::int32_t));
    std::memcpy(read.data(), bytes.data(), bytes.size());
    return {read.begin(), read.end()};
  }

  // Both sides of every run; `at_home_of` gives the tokens' side for a rank of the expert.
  // `from_home` is what the tokens' side does.
  template <typename AtHomeOf>
  void exchange(int round, const Freight& rows, const Freight& numbers, Direction from_home,
                const AtHomeOf& at_home_of) {
    Communicator& all = pass_.expert_region.all();
    const Direction at_expert_does =
        from_home == Direction::kSend ? Direction::kReceive : Direction::kSend;
    std::vector<PointToPoint> messages;
    const std::array<const Freight*, 2> freights = {&rows, &numbers};
    const auto add = [&](Direction direction, const TravelRun& run, int what,
                         const Tensor& tensor) {
      const auto key = static_cast<std::uint32_t>(2 * run.expert + what);
      messages.push_back(
          {.direction = direction,
           .peer = run.peer,
           .key = message_key(MessageKind::kOther, key, static_cast<std::uint32_t>(round)),
           .tensor = tensor});
    };
    for (const TravelRun& run : plan().leaving(round)) {
      for (int what = 0; what < 2; ++what) {
        const Freight& freight = *freights[static_cast<std::size_t>(what)];
        if (!freight.at_expert) continue;
        const Tensor at_home = at_home_of(freight.at_home, run.peer % layout_.tensor_size)
                                   .slice(0, run.at_home, run.count);
        if (run.peer != all.rank()) {
          add(from_home, run, what, at_home);
          continue;
        }
        const Tensor at_expert = freight.at_expert.slice(0, run.at_expert, run.count);
        const bool sends = from_home == Direction::kSend;
        ops::copy(pass_.ops, {.destination = sends ? at_expert : at_home,
                              .source = sends ? at_home : at_expert});
      }
    }
    for (const TravelRun& run : plan().arriving(round)) {
      if (run.peer == all.rank()) continue;
      for (int what = 0; what < 2; ++what) {
        const Freight& freight = *freights[static_cast<std::size_t>(what)];
        if (!freight.at_expert) continue;
        add(at_expert_does, run, what, freight.at_expert.slice(0, run.at_expert, run.count));
      }
    }
    pass_.finish(all.exchange(pass_.ops, messages));
  }

  Pass& pass_;
  const Saved saved_;
  const PairOrder& order_;
  const ExpertSettings& settings_;
  const ExpertParallel& layout_;
  std::optional<ReadBack> counts_;
  std::optional<RowPlan> plan_;
};

class AllToAllDispatcher final : public Dispatcher {
 public:
  AllToAllDispatcher(SavedSlots& slots, const TransformerConfig& config, LastReader last)
      : Dispatcher(config),
        order_(slots, config.experts, {.last = last, .experts = config.experts.experts}) {
    if (settings_.pad_to_capacity) return;
    const std::int64_t ranks = std::int64_t{layout_.size} * layout_.tensor_size;
    counts_ = slots.add({.name = "rows of experts",
                         .dtype = DType::kI32,
                         .born = Born::kForward,
                         .last_reader = last,
                         .shape =
                             [ranks, experts = settings_.experts](const BatchShape&) {
                               return Shape{ranks, experts};
                             },
                         .is_kept = true});
  }

  std::unique_ptr<Dispatch> begin(Pass& pass, const Routing& routing, const Saved& saved,
                                  bool recomputes) const override {
    order_.sort(pass, routing.experts, saved);
    if (counts_ >= 0 && !recomputes) {
      Communicator& all = pass.expert_region.all();
      const Tensor own = saved[counts_].select(0, all.rank());
      ops::expert_counts(pass.ops, {.counts = own, .experts = routing.experts});
      pass.finish(all.all_gather(pass.ops, saved[counts_], own));
    }
    return resume(pass, saved);
  }
  std::unique_ptr<Dispatch> resume(Pass& pass, const Saved& saved) const override {
    return std::make_unique<AllToAllDispatch>(pass, saved, order_, settings_, layout_,
                                              counts_ < 0 ? Tensor{} : saved[counts_]);
  }

 private:
  PairOrder order_;
  SavedId counts_ = -1;
};

}  // namespace

std::unique_ptr<const Dispatcher> make_all_to_all_dispatcher(SavedSlots& slots,
                                                             const TransformerConfig& config,
                                                             LastReader last) {
  return std::make_unique<AllToAllDispatcher>(slots, config, last);
}

}  // namespace phalanx::nn
