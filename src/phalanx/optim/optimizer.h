#pragma once
// One update of a rank's parameters, or with a distributed optimizer of its shard: norm, clipping
// and the update rule, without asking the host. Afterwards the host can read the gradient norm,
// whether the step was skipped, and how many gradients were zero.
//
// The norm is that of the whole model, with each parameter counted once (StateLayout::counts).
// Fixed blocks are summed in fp64, each by the rank that has it; the sums are combined by
// parameter, then in the parameter order of the whole model. So the norm has the bits of one rank
// in any pipeline.

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "phalanx/base/step_timers.h"
#include "phalanx/data_parallel/gradient_store.h"
#include "phalanx/data_parallel/parameter_store.h"
#include "phalanx/data_parallel/tile_fence.h"
#include "phalanx/optim/optimizer_rule.h"
#include "phalanx/optim/update_ranges.h"

namespace phalanx {

struct OptimizerSettings {
  OptimizerRule rule = {};
  double clip_grad = 1.0;  // 0: no clipping
  bool count_zeros = false;
};

// The ranks that have the other parts of the model, by reduction domain; null if there are none.
struct OptimizerGroups {
  PerDomain<Communicator*> data = {};  // the shards of a distributed optimizer
  // All ranks with a part of one copy of the domain's parameters. Dense: tensor-parallel parts and
  // pipeline stages, the tensor-parallel rank fastest. Experts: expert-tensor parts, experts and
  // stages.
  PerDomain<Communicator*> model = {};
  // Stages of the pipeline update at different times: the groups of `model` are within the stage,
  // and norm and zeros are those of the stage.
  bool is_stage_alone = false;
};

// What one step needs beyond the gradients.
struct StepInputs {
  double lr = 0.0;
  std::optional<double> decoupled_lr = {};  // of the input and the output layer; absent: lr
  double weight_decay = 0.0;
  std::int64_t step = 1;  // successful steps so far + 1
  Tensor tokens;  // [1] f64, unmasked tokens of the global batch; absent: gradients are averages
                  // already
  double expected_tokens = 1.0;  // global batch * sequence
  Tensor loss_scale;             // [1]
  Tensor checked = {};           // f64, optional: no update where one of these is not finite
};

// Where a step leaves what the host may read, [1] each.
struct OptimizerResults {
  Tensor norm, skip;  // in the rule's precision
  Tensor zeros;       // f64; needed with count_zeros alone
};

class Optimizer {
 public:
  // The rule's states are allocated from `states`, one-element tensors from `scalars`, but for
  // `results` where these are given.
  Optimizer(const ParameterStore& parameters, const GradientStore& gradients,
            const OptimizerSettings& settings, const OptimizerGroups& groups, Arena& states,
            Arena& scalars, const StateFiles& files = {}, const OptimizerResults& results = {});

  // From now on steps count their time there; null: nowhere.
  void time_with(StepTimers* timers) { timers_ = timers; }

  // From now on updates ask the fence before they change a tile; null: nobody.
  void fence_with(TileFence* fence) { fence_ = fence; }

  // Uploads what never changes: once, before the first step.
  void prepare(Context& context) const { ranges_.upload(context); }
  // Prepares, and zeros the rule's states.
  void initialise(Context& context) const;
  void step(Context& context, const StepInputs& inputs) const;
  // The sums of squares of the main parameters, by parameter of the whole model, each parameter
  // once. Valid until the next step.
  const Tensor& parameter_squares(Context& context) const;

  // The names of the rule's states, and one state of a segment of the shard.
  std::span<const std::string_view> state_names() const {
    return phalanx::state_names(settings_.rule);
  }
  // InternalError if it lies in a file.
  Tensor state(std::string_view name, const Segment& segment) const;
  const StateColumn& state(std::string_view name) const;
  const Tensor& norm() const { return results_.norm; }  // [1], of the averaged, unscaled gradient
  const Tensor& skip() const { return results_.skip; }  // [1], 1 where the norm was not finite
  // [1] f64, with count_zeros: padding included.
  const Tensor& zeros() const { return results_.zeros; }

 private:
  enum class Statistic : std::uint8_t { kSquares, kZeros, kParameterSquares };
  // The three parts of a step.
  void count_zeros(Context& context) const;
  void measure(Context& context, const StepInputs& inputs) const;  // norm, factor, skip
  void update(Context& context) const;
  void upload_numbers(Context& context, const StepInputs& inputs) const;
  // The statistic of every parameter of the whole model, in by_parameter_.
  void sum_by_parameter(Context& context, Statistic statistic) const;
  // The totals of this rank's blocks in `totals`, summed over a group of ranks with other parts.
  void sum_parts(Context& context, const Tensor& totals, std::span<const ReductionDomain> domains,
                 Communicator* group) const;
  // The statistic of the blocks of this rank's parameters, in block_sums_.
  void sum_by_block(Context& context, Statistic statistic) const;
  std::vector<TileAccess> accesses() const;
  // Calls body(range, tensors) for all of the shard, with tensors as in visit_tiles(): tile by tile
  // if states lie in files or `by_tile`.
  using RangeBody = std::function<void(const UpdateRange&, Tensors)>;
  void visit_ranges(Context& context, std::span<const TileAccess> accesses, bool by_tile,
                    const RangeBody& body) const;
  // A range's elements, given the tensors of ParameterStore::accesses(), and of its gradient.
  Tensor weight(const UpdateRange& range, Tensors tensors) const;
  Tensor main(const UpdateRange& range, Tensors tensors) const;
  Tensor gradient(const UpdateRange& range, const Tensor& tensor) const;
  void update(Context& context, const UpdateRange& range, Tensors tensors) const;
  void ask_fence(Context& context, const UpdateRange& tile, Tensors tensors) const;

  const StateLayout& states() const { return parameters_->states(); }

  const ParameterStore* parameters_;
  const GradientStore* gradients_;
  OptimizerSettings settings_;
  OptimizerGroups groups_;
  StepTimers* timers_ = nullptr;
  TileFence* fence_ = nullptr;
  UpdateRanges ranges_;
  std::vector<StateColumn> states_;  // in the order of state_names()
  Tensor block_sums_, by_parameter_, factor_;
  Tensor of_experts_;  // as by_parameter_, where experts have another group of `model`
  OptimizerResults results_;
  // What changes from step to step, [kNumbers] f64, and its parts: the rule's numbers, the expected
  // tokens, and lr and decay by SettingGroup.
  static constexpr std::size_t kNumbers = kRuleNumbers + 1 + 2 * SettingGroup::kCount;
  Tensor numbers_, rule_numbers_, expected_tokens_, settings_of_groups_;
};

}  // namespace phalanx
