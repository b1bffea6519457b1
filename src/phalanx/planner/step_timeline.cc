#include "phalanx/planner/step_timeline.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/rank/rank.h"
#include "phalanx/rehearsal/planning_rank.h"
#include "phalanx/rehearsal/rank_rehearsal.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

using nn::PassKind;

constexpr std::int64_t kMostPasses = 600;

// The rows, and the row of each unit, group of parameters and bucket.
class TimelineRows {
 public:
  TimelineRows(const Chunk& chunk, const StateLayout& states, std::vector<StepTimeline::Row>& rows)
      : states_(states), of_group_(static_cast<std::size_t>(states.groups().size()), -1) {
    const bool has_groups = states.cuts_gradients() || states.cuts_weights();
    const nn::ParamTable& table = states.table();
    std::set<ParamId> shared;
    for (const auto& role : table.roles()) shared.insert(role.id);
    for (const auto& unit : chunk.units()) {
      of_unit_[unit.get()] = static_cast<int>(rows.size());
      const auto own = static_cast<int>(rows.size());
      rows.push_back({unit->name(), true});
      for (const ParamId id : unit->parameters()) {
        if (!table.trains(id)) continue;
        int& row = of_group_[static_cast<std::size_t>(states.group(id))];
        if (!has_groups || row >= 0) continue;
        row = own;
        if (!shared.contains(id)) continue;
        row = static_cast<int>(rows.size());
        rows.push_back({short_name(table[id].name), false});
      }
    }
    for (std::size_t b = 0; b < states.buckets().size(); ++b) {
      const int row = of_group_[static_cast<std::size_t>(states.buckets()[b].group)];
      of_bucket_.push_back(row >= 0 ? row : static_cast<int>(rows.size()));
      if (row < 0) rows.push_back({fmt::format("bucket {}", b), false});
    }
  }

  int of_unit(const nn::Unit& unit) const { return of_unit_.at(&unit); }
  int of_group(int group) const { return of_group_[static_cast<std::size_t>(group)]; }
  int of_bucket(int bucket) const { return of_bucket_[static_cast<std::size_t>(bucket)]; }
  std::int64_t group_elements(int group) const {
    return states_.flat().regions[static_cast<std::size_t>(group)].count;
  }
  std::int64_t bucket_elements(int bucket) const {
    return states_.buckets()[static_cast<std::size_t>(bucket)].range.count;
  }

 private:
  // "word_embeddings" of "embedding.word_embeddings.weight".
  static std::string short_name(const std::string& name) {
    const std::size_t end = name.rfind('.');
    if (end == std::string::npos || end == 0) return name;
    const std::size_t begin = name.rfind('.', end - 1);
    return name.substr(begin == std::string::npos ? 0 : begin + 1,
                       end - (begin == std::string::npos ? 0 : begin + 1));
  }

  const StateLayout& states_;
  std::map<const nn::Unit*, int> of_unit_;
  std::vector<int> of_group_;
  std::vector<int> of_bucket_;
};

// Records the order of a rank's passes and moves.
class StepListener final : public StateObserver, public nn::UnitHooks {
 public:
  StepListener(const TimelineRows& rows, const Recorder& recorder, std::int64_t weight_bytes,
               std::int64_t gradient_bytes, StepTimeline& timeline)
      : rows_(rows),
        recorder_(recorder),
        weight_bytes_(weight_bytes),
        gradient_bytes_(gradient_bytes),
        timeline_(timeline) {}

  void before(const nn::Unit& unit, PassKind pass, int microbatch) override {
    // A fused backward pass is reported as two, one after the other.
    const bool is_second = is_open_ && pass == PassKind::kBackwardWeight;
    is_open_ = pass == PassKind::kBackwardInput;
    if (is_second) return;
    const double begin = now_;
    advance(1.0);
    timeline_.passes.push_back({rows_.of_unit(unit), pass, microbatch, begin, now_});
  }
  void after(const nn::Unit& /*unit*/, PassKind /*pass*/, int /*microbatch*/,
             const nn::UnitTensors& /*tensors*/) override {
    is_open_ = false;
  }

  void begins(StateMove move, int number) override {
    const bool is_group = move == StateMove::kWeightRead || move == StateMove::kWeights;
    const bool is_gradient = move == StateMove::kGradientSum || move == StateMove::kReplicaSum;
    under_way_[{move, number}] = timeline_.moves.size();
    timeline_.moves.push_back(
        {.move = move,
         .number = number,
         .row = is_group ? rows_.of_group(number) : rows_.of_bucket(number),
         .bytes = (is_group ? rows_.group_elements(number) : rows_.bucket_elements(number)) *
                  (is_gradient ? gradient_bytes_ : weight_bytes_),
         .begin = now_,
         .done = kOpen,
         .end = kOpen});
  }
  void is_done(StateMove move, int number) override {
    const auto found = under_way_.find({move, number});
    if (found == under_way_.end()) return;
    // No pass ran since it began.
    if (timeline_.moves[found->second].begin == now_) advance(0.5);
    StepTimeline::Move& done = timeline_.moves[found->second];
    done.done = now_;
    if (move == StateMove::kWeights) {
      whole_[number] = found->second;
    } else {
      done.end = now_;
    }
    under_way_.erase(found);
  }
  void frees_weights(int group) override {
    const auto found = whole_.find(group);
    if (found == whole_.end()) return;
    timeline_.moves[found->second].end = now_;
    whole_.erase(found);
  }
  void update_begins() override {
    note_transfers();
    timeline_.update_begin = now_;
  }
  void update_ends() override {
    advance(1.0);
    timeline_.update_end = now_;
  }

  // Moves that are not done go on into the next step.
  void finish() {
    note_transfers();
    timeline_.length = now_;
    if (!under_way_.empty()) timeline_.length += 0.5;
    for (StepTimeline::Move& move : timeline_.moves) {
      move.goes_on = move.done == kOpen;
      if (move.done == kOpen) move.done = timeline_.length;
      if (move.end == kOpen) move.end = timeline_.length;
    }
    for (auto& transfers : timeline_.transfers) {
      if (transfers.begin == transfers.end) transfers.end = timeline_.length;
    }
  }

 private:
  static constexpr double kOpen = -1.0;

  void advance(double by) {
    note_transfers();
    now_ += by;
    for (std::size_t i = noted_; i < timeline_.transfers.size(); ++i) {
      timeline_.transfers[i].end = now_;
    }
    noted_ = timeline_.transfers.size();
  }
  void note_transfers() {
    for_each_event<TransferBegun>(std::span(recorder_.events()).subspan(seen_),
                                  [this](const TransferBegun& transfer) { add(transfer); });
    seen_ = recorder_.events().size();
  }
  // To the transfers of this moment, by file and op.
  void add(const TransferBegun& one) {
    const auto same = std::find_if(
        timeline_.transfers.begin() + static_cast<std::ptrdiff_t>(noted_),
        timeline_.transfers.end(),
        [&](const auto& other) { return other.file == one.place && other.op == one.op; });
    if (same != timeline_.transfers.end()) {
      ++same->count;
      same->bytes += one.bytes;
    } else {
      timeline_.transfers.push_back({.file = one.place,
                                     .op = std::string(one.op),
                                     .begin = now_,
                                     .end = now_,
                                     .count = 1,
                                     .bytes = one.bytes});
    }
  }

  const TimelineRows& rows_;
  const Recorder& recorder_;
  std::int64_t weight_bytes_, gradient_bytes_;  // of an element
  StepTimeline& timeline_;
  double now_ = 0.0;
  bool is_open_ = false;  // the pass of an input gradient has begun and not ended
  std::map<std::pair<StateMove, int>, std::size_t> under_way_;
  std::map<int, std::size_t> whole_;  // by group
  std::size_t seen_ = 0;              // the recorder's events whose transfers were added
  std::size_t noted_ = 0;             // the timeline's transfers of earlier moments
};

void check_for_picture(const TrainConfig& config, const Rank& rank) {
  std::int64_t passes = 0;
  const Chunk& chunk = rank.chunks().front();
  for (int u = 0; u < chunk.num_units(); ++u) passes += chunk.recomputed_until(u) >= 0 ? 3 : 2;
  passes *= num_microbatches(config.layout);
  if (passes <= kMostPasses) return;
  throw ConfigError(
      "--timeline: a step of {} passes of units is too long for a picture, which has {} at most: "
      "give a smaller --global-batch-size or --num-layers",
      passes, kMostPasses);
}

}  // namespace

std::int64_t StepTimeline::most_weight_bytes() const {
  std::int64_t most = 0;
  for (const Move& move : moves) {
    std::int64_t bytes = 0;
    for (const Move& other : moves) {
      const bool is_there = other.begin <= move.begin && move.begin < other.end;
      if (other.move == StateMove::kWeights && is_there) bytes += other.bytes;
    }
    most = std::max(most, bytes);
  }
  return most;
}

StepTimeline step_timeline(const RunPlan& plan) {
  const TrainConfig& config = plan.config;
  if (config.layout.pipeline_model_parallel_size > 1) {
    throw ConfigError(
        "--timeline is of ranks that have the whole model, not of --pipeline-model-parallel-size "
        "{}: phalanx schedule --svg draws a pipeline",
        config.layout.pipeline_model_parallel_size);
  }
  const StepPrograms programs = step_programs(config);
  PlanningRank planning(config, *plan.model, programs, 0, plan.kernels);
  Rank& rank = planning.rank();
  check_for_picture(config, rank);
  StepTimeline timeline;
  const TimelineRows rows(rank.chunks().front(), rank.parameters().states(), timeline.rows);
  Recorder recorder;
  StepListener listener(rows, recorder, size_of(rank.parameters().flat().dtype),
                        size_of(rank.gradients().dtype()), timeline);
  play_usual_step(rank, listener, listener, recorder);
  listener.finish();
  return timeline;
}

}  // namespace phalanx
