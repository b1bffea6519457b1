#include "phalanx/rank/router_states.h"

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/ops/balance.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx {

RouterStates::RouterStates(const RankModel& model, const nn::ExpertSettings& settings,
                           const ParameterStore& parameters, const StepNumbers& numbers,
                           const RankCommunicators& ranks, Arena& workspace)
    : table_(model.table),
      whole_(model.whole->table),
      parameters_(parameters),
      ranks_(ranks),
      counts_(numbers.router_counts()),
      biases_(numbers.expert_biases()),
      given_(rows_of(counts_)),
      kept_biases_(rows_of(biases_)) {
  if (!settings.has_loss(nn::RouterLoss::Kind::kGlobalBalance) || table_.routers().empty()) return;
  const auto routers = std::ssize(table_.routers());
  all_best_ = workspace.allocate(DType::kI32, {routers, settings.experts});
  for (std::int64_t r = 0; r < routers; ++r) best_.push_back(all_best_.select(0, r));
}

std::vector<Tensor> RouterStates::rows_of(const Tensor& all) const {
  std::vector<Tensor> rows;
  if (!all) return rows;
  for (const nn::RouterState& router : table_.routers()) {
    const auto of_model = std::ranges::find(whole_.routers(), router.name, &nn::RouterState::name);
    PHALANX_CHECK(of_model != whole_.routers().end(), "{} is not in the model", router.name);
    rows.push_back(all.select(0, of_model - whole_.routers().begin()));
  }
  return rows;
}

void RouterStates::begin(Context& context) const {
  if (counts_) ops::fill(context, {.x = counts_, .value = 0.0});
  if (all_best_) ops::fill(context, {.x = all_best_, .value = 0.0});
}

void RouterStates::end(Context& context, TileFence* fence) const {
  if (!counts_) return;
  // Each rank has counted the rows of its part of the sequence and of its samples.
  sum_over(context, ranks_.tensor.get(), counts_);
  sum_over(context, ranks_.data.get(), counts_);
  if (biases_) {
    ops::fill(context, {.x = biases_, .value = 0.0});
    for (std::size_t r = 0; r < table_.routers().size(); ++r) {
      const nn::RouterState& router = table_.routers()[r];
      const Tensor& bias = parameters_.weight(router.bias);
      ops::copy(context, {.destination = kept_biases_[r], .source = bias});
      if (fence != nullptr) {
        const auto& frozen = parameters_.states().frozen();
        fence->before_update(context, std::ranges::find(frozen, router.bias, &Segment::id)->tile,
                             {});
      }
      ops::expert_bias_update(context,
                              {.bias = bias, .counts = given_[r], .rate = router.bias_rate});
    }
    sum_over(context, ranks_.pipeline.get(), biases_);
  }
  // Each stage has the rows of its layers, and zeros in those of others.
  sum_over(context, ranks_.pipeline.get(), counts_);
}

void RouterStates::restore_biases(Context& context) const {
  for (std::size_t r = 0; r < kept_biases_.size(); ++r) {
    ops::copy(context, {.destination = parameters_.weight(table_.routers()[r].bias),
                        .source = kept_biases_[r]});
  }
}

std::vector<RouterLoad> RouterStates::loads(std::span<const double> counts,
                                            std::span<const double> biases, double tokens) const {
  std::vector<RouterLoad> loads;
  std::size_t begin = 0;
  for (const nn::RouterState& router : whole_.routers()) {
    const auto experts = static_cast<std::size_t>(router.experts);
    const auto own = counts.subspan(begin, experts);
    RouterLoad load{.name = router.name};
    double sum = 0.0;
    for (const double count : own) sum += count;
    if (sum > 0.0) {
      load.most_to_mean = std::ranges::max(own) * static_cast<double>(experts) / sum;
    }
    load.dropped = 1.0 - sum / (tokens * static_cast<double>(router.chosen));
    if (!biases.empty()) {
      const auto [least, most] = std::ranges::minmax(biases.subspan(begin, experts));
      load.bias = RouterLoad::Range{.least = least, .most = most};
    }
    begin += experts;
    loads.push_back(std::move(load));
  }
  return loads;
}

}  // namespace phalanx
