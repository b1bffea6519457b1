#include "phalanx/settings/schedule_flags.h"

#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

// The lengths of the schedules.
struct ScheduleSamples {
  std::int64_t run = 0;
  std::int64_t decay = 0;
  std::int64_t stable_decay = 0;
  double warmup = 0.0;  // a share of the decay is no whole number
};

ScheduleSamples given_samples(const TrainConfig& c) {
  const OptimizerConfig& o = c.optimizer;
  const std::int64_t run = c.run.train_samples;
  const std::int64_t decay = o.lr_decay_samples > 0 ? o.lr_decay_samples : run;
  return {.run = run,
          .decay = decay,
          .stable_decay = o.lr_wsd_decay_samples,
          .warmup = o.lr_warmup_fraction ? *o.lr_warmup_fraction * static_cast<double>(decay)
                                         : static_cast<double>(o.lr_warmup_samples)};
}

ScheduleSamples samples_of_iterations(const TrainConfig& c, const BatchSchedule& batches,
                                      std::int64_t consumed) {
  const OptimizerConfig& o = c.optimizer;
  const auto samples = [&](std::int64_t iterations) {
    return batches.samples_of(iterations, consumed);
  };
  const std::int64_t iterations = o.lr_decay_iters > 0 ? o.lr_decay_iters : c.run.train_iters;
  ScheduleSamples result{.run = samples(c.run.train_iters), .decay = samples(iterations)};
  // What is longer than the decay is so in samples, too, for the rules to refuse.
  const std::int64_t stable = iterations - o.lr_wsd_decay_iters;
  result.stable_decay =
      stable >= 0 ? result.decay - samples(stable) : result.decay - stable * batches.last();
  if (!o.lr_warmup_fraction) {
    result.warmup = static_cast<double>(samples(o.lr_warmup_iters));
  } else if (batches.pieces().size() == 1) {
    result.warmup = *o.lr_warmup_fraction * static_cast<double>(result.decay);
  } else {
    // A share of the iterations, the last of them in part.
    const double warmup = *o.lr_warmup_fraction * static_cast<double>(iterations);
    const auto whole = static_cast<std::int64_t>(warmup);
    const std::int64_t before = samples(whole);
    result.warmup =
        static_cast<double>(before) +
        (warmup - static_cast<double>(whole)) * static_cast<double>(samples(whole + 1) - before);
  }
  return result;
}

}  // namespace

ParameterSchedule parameter_schedule(const TrainConfig& c, std::int64_t consumed_samples) {
  const OptimizerConfig& o = c.optimizer;
  const ScheduleSamples samples =
      c.run.train_samples > 0 ? given_samples(c)
                              : samples_of_iterations(c, batch_schedule(c), consumed_samples);
  ParameterSchedule schedule{
      .max_lr = *o.lr,
      .min_lr = o.min_lr,
      .decoupled = {},
      .warmup_init_lr = o.lr_warmup_init,
      .warmup_samples = samples.warmup,
      .decay_samples = samples.decay,
      .decay_style = *decay_style_from_name(o.lr_decay_style),
      .stable_decay_samples = samples.stable_decay,
      .stable_decay_style = *stable_decay_style_from_name(o.lr_wsd_decay_style),
      .start_weight_decay = *o.start_weight_decay,
      .end_weight_decay = *o.end_weight_decay,
      .weight_decay_samples = samples.run,
      .weight_decay_style = *weight_decay_style_from_name(o.weight_decay_incr_style)};
  if (o.decoupled_lr) {
    schedule.decoupled = {.max_lr = *o.decoupled_lr,
                          .min_lr = o.decoupled_min_lr.value_or(o.min_lr)};
  }
  return schedule;
}

}  // namespace phalanx
