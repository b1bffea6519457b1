#include "phalanx/planner/context_timeline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/rank/rank.h"
#include "phalanx/rehearsal/planning_rank.h"
#include "phalanx/rehearsal/rank_rehearsal.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

using nn::PassKind;
using ExchangedPart = ContextTimeline::Part;

constexpr std::int64_t kMostRanksOfExchange = 16;

// The events of a pass.
struct PassWindow {
  std::size_t first = 0, last = 0;
};

// The windows of both passes of the first layer over the first microbatch.
class LayerListener final : public StateObserver, public nn::UnitHooks {
 public:
  explicit LayerListener(const Recorder& recorder) : recorder_(recorder) {}

  void before(const nn::Unit& unit, PassKind pass, int microbatch) override {
    if (microbatch != 0 || !unit.name().starts_with("layer")) return;
    if (unit_ == nullptr) unit_ = &unit;
    if (PassWindow* window = window_of(unit, pass)) window->first = recorder_.events().size();
  }
  void after(const nn::Unit& unit, PassKind pass, int microbatch,
             const nn::UnitTensors& /*tensors*/) override {
    if (microbatch != 0) return;
    if (PassWindow* window = window_of(unit, pass)) window->last = recorder_.events().size();
  }
  void begins(StateMove /*move*/, int /*number*/) override {}
  void is_done(StateMove /*move*/, int /*number*/) override {}
  void frees_weights(int /*group*/) override {}
  void update_begins() override {}
  void update_ends() override {}

  std::string name() const { return unit_->name(); }
  const PassWindow& forward() const { return forward_; }
  const PassWindow& backward() const { return backward_; }

 private:
  PassWindow* window_of(const nn::Unit& unit, PassKind pass) {
    if (&unit != unit_) return nullptr;
    if (pass == PassKind::kForward) return &forward_;
    return pass == PassKind::kBackwardInput ? &backward_ : nullptr;
  }

  const Recorder& recorder_;
  const nn::Unit* unit_ = nullptr;
  PassWindow forward_, backward_;
};

bool is_attention(std::string_view op) {
  return op == "attention_forward" || op == "attention_backward";
}

bool is_point_to_point(std::string_view op) { return op == "send" || op == "receive"; }

// What a rank did in a pass. Blocks of keys are numbered in the order in which the rank has them.
class PartReader {
 public:
  PartReader(const Recorder& recorder, int world_rank)
      : recorder_(recorder), world_rank_(world_rank) {}

  ExchangedPart read(const PassWindow& window) {
    now_ = 0.0;
    for (std::size_t e = window.first; e < window.last; ++e) {
      const TraceEvent& event = recorder_.events()[e];
      if (const auto* op = std::get_if<OpRun>(&event)) {
        if (is_attention(op->cost.name)) attend();
      } else if (const auto* begun = std::get_if<MessageBegun>(&event)) {
        if (begun->group->name.starts_with("cp")) begin(*begun);
      } else if (const auto* awaited = std::get_if<Awaited>(&event)) {
        finish(awaited->work);
      }
    }
    part_.length = now_;
    return std::move(part_);
  }
  // By block: from whom it came, ranks of the ring.
  const std::vector<int>& came_from() const { return came_from_; }
  int ring_rank() const { return ring_rank_; }

 private:
  void attend() {
    part_.attention.push_back({.source = block_, .begin = now_, .end = now_ + 1.0});
    now_ += 1.0;
  }
  void begin(const MessageBegun& message) {
    // What is sent and received in one exchange is one move.
    const auto [place, is_new] = under_way_.try_emplace(message.work, part_.moves.size());
    const bool goes_round = is_point_to_point(message.op);
    if (is_new) {
      part_.moves.push_back({.op = goes_round ? "exchange" : message.op,
                             .has_gradients = message.op == "reduce_scatter",
                             .begin = now_,
                             .done = now_});
    }
    ContextTimeline::Move& move = part_.moves[place->second];
    move.bytes += message.bytes;
    if (!goes_round) return;
    const MessageKind kind = message_kind(message.key);
    move.has_gradients = kind == MessageKind::kGradient;
    ring_rank_ = static_cast<int>(std::ranges::find(message.group->ranks, world_rank_) -
                                  message.group->ranks.begin());
    if (message.op == "send") {
      move.to = message.peer;
    } else if (kind == MessageKind::kActivation) {
      came_from_.push_back(message.peer);
    }
  }
  void finish(std::uint64_t work) {
    const auto found = under_way_.find(work);
    if (found == under_way_.end()) return;
    ContextTimeline::Move& move = part_.moves[found->second];
    // No attention since it began.
    if (move.begin == now_) now_ += 0.5;
    move.done = now_;
    if (move.op == "exchange" && !move.has_gradients) ++block_;
    under_way_.erase(found);
  }

  const Recorder& recorder_;
  int world_rank_;
  ExchangedPart part_;
  double now_ = 0.0;
  int block_ = 0;
  int ring_rank_ = -1;
  std::vector<int> came_from_;
  std::map<std::uint64_t, std::size_t> under_way_;
};

// Whose each block is, by rank of the ring and number: a block that comes is the one that the
// sender had before.
class Owners {
 public:
  void add(int ring_rank, std::vector<int> came_from) {
    came_from_[ring_rank] = std::move(came_from);
  }
  int owner(int ring_rank, int block) const {
    for (; block > 0; --block) {
      ring_rank = came_from_.at(ring_rank).at(static_cast<std::size_t>(block - 1));
    }
    return ring_rank;
  }

 private:
  std::map<int, std::vector<int>> came_from_;
};

void name_sources(ExchangedPart& part, int ring_rank, const Owners& owners) {
  for (ContextTimeline::Attention& attention : part.attention) {
    attention.source = ring_rank < 0 ? -1 : owners.owner(ring_rank, attention.source);
  }
}

void check_for_exchange(const TrainConfig& config) {
  const LayoutConfig& layout = config.layout;
  if (layout.context_parallel_size == 1) {
    throw ConfigError(
        "--context-timeline is of ranks that share samples: give --context-parallel-size");
  }
  if (layout.context_parallel_size > kMostRanksOfExchange) {
    throw ConfigError(
        "--context-timeline: --context-parallel-size {} is too much for a picture, "
        "which has {} ranks at most",
        layout.context_parallel_size, kMostRanksOfExchange);
  }
  if (layout.pipeline_model_parallel_size > 1) {
    throw ConfigError(
        "--context-timeline is of ranks that have the whole model, not of "
        "--pipeline-model-parallel-size {}: leave that out, the exchange is the same",
        layout.pipeline_model_parallel_size);
  }
}

}  // namespace

ContextTimeline context_timeline(const RunPlan& plan) {
  const TrainConfig& config = plan.config;
  check_for_exchange(config);
  const StepPrograms programs = step_programs(config);
  ContextTimeline timeline;
  Owners owners;
  const RankGroups groups = plan.grids.dense.groups("cp");
  for (const int number : groups.front()) {
    Recorder recorder;
    PlanningRank planning(config, *plan.model, programs, number, plan.kernels);
    LayerListener listener(recorder);
    play_usual_step(planning.rank(), listener, listener, recorder);
    PartReader forward(recorder, number);
    PartReader backward(recorder, number);
    timeline.layer = listener.name();
    ContextTimeline::Row row{.rank = planning.communicators().coordinates.context,
                             .forward = forward.read(listener.forward()),
                             .backward = backward.read(listener.backward())};
    row.ring_rank = forward.ring_rank();
    owners.add(row.ring_rank, forward.came_from());
    PHALANX_CHECK(backward.came_from() == forward.came_from(),
                  "keys come in another order in the backward pass");
    timeline.rows.push_back(std::move(row));
  }
  for (ContextTimeline::Row& row : timeline.rows) {
    name_sources(row.forward, row.ring_rank, owners);
    name_sources(row.backward, row.ring_rank, owners);
  }
  return timeline;
}

}  // namespace phalanx
