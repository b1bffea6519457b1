// The part of resolve() that is about weight decay, loss scales, the run's length and the learning
// rate.

#include <cmath>

#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/schedule_flags.h"

namespace phalanx {
namespace {

// A limit, so that sums of counts of samples fit into 64 bits.
void require_countable(std::string_view flag, std::int64_t times, std::int64_t batch) {
  if (static_cast<double>(times) * static_cast<double>(batch) < std::exp2(61)) return;
  throw ConfigError("{} {} x a global batch of {} are more samples than 64 bits count", flag, times,
                    batch);
}

void check_stable_decay(const OptimizerConfig& o) {
  if (o.lr_decay_style == name_of(DecayStyle::kWarmupStableDecay)) return;
  const OptimizerConfig plain;
  const auto refuse = [&](std::string_view flag) {
    throw ConfigError("{} goes with --lr-decay-style WSD, not with {}", flag, o.lr_decay_style);
  };
  if (o.lr_wsd_decay_style != plain.lr_wsd_decay_style) refuse("--lr-wsd-decay-style");
  if (o.lr_wsd_decay_iters != 0) refuse("--lr-wsd-decay-iters");
  if (o.lr_wsd_decay_samples != 0) refuse("--lr-wsd-decay-samples");
}

void check_decoupled_rate(const OptimizerConfig& o) {
  if (!o.decoupled_lr) return;
  if (o.decoupled_min_lr && *o.decoupled_min_lr > *o.decoupled_lr) {
    throw ConfigError("--decoupled-min-lr {} is above --decoupled-lr {}", *o.decoupled_min_lr,
                      *o.decoupled_lr);
  }
  if (!o.decoupled_min_lr && o.min_lr > *o.decoupled_lr) {
    throw ConfigError("--min-lr {} is above --decoupled-lr {}: give --decoupled-min-lr", o.min_lr,
                      *o.decoupled_lr);
  }
  if (o.lr_warmup_init > *o.decoupled_lr) {
    throw ConfigError("--lr-warmup-init {} is above --decoupled-lr {}", o.lr_warmup_init,
                      *o.decoupled_lr);
  }
}

}  // namespace

void resolve_weight_decay(OptimizerConfig& o) {
  const WeightDecayStyle style = *weight_decay_style_from_name(o.weight_decay_incr_style);
  if (style == WeightDecayStyle::kConstant) {
    const auto differs = [&](const std::optional<double>& given) {
      return given && *given != o.weight_decay;
    };
    if (differs(o.start_weight_decay) || differs(o.end_weight_decay)) {
      throw ConfigError(
          "--start-weight-decay and --end-weight-decay need --weight-decay-incr-style linear or "
          "cosine");
    }
    o.start_weight_decay = o.weight_decay;
    o.end_weight_decay = o.weight_decay;
  }
  if (!o.start_weight_decay || !o.end_weight_decay) {
    throw ConfigError(
        "--weight-decay-incr-style {} needs both --start-weight-decay and --end-weight-decay",
        o.weight_decay_incr_style);
  }
  if (*o.end_weight_decay < *o.start_weight_decay) {
    throw ConfigError("weight decay from {} to {}: it must not fall", *o.start_weight_decay,
                      *o.end_weight_decay);
  }
}

void check_optimizer(const OptimizerConfig& o) {
  const OptimizerConfig plain;
  const auto refuse = [&](std::string_view flag, double value) {
    throw ConfigError("{} {} does nothing with --optimizer {}: leave it out", flag, value,
                      o.optimizer);
  };
  if (o.optimizer != "sgd" && o.sgd_momentum != plain.sgd_momentum) {
    refuse("--sgd-momentum", o.sgd_momentum);
  }
  if (o.optimizer == "adam") return;
  if (o.adam_beta1 != plain.adam_beta1) refuse("--adam-beta1", o.adam_beta1);
  if (o.adam_beta2 != plain.adam_beta2) refuse("--adam-beta2", o.adam_beta2);
  if (o.adam_eps != plain.adam_eps) refuse("--adam-eps", o.adam_eps);
}

void check_loss_scale(const OptimizerConfig& o) {
  if (o.initial_loss_scale < o.min_loss_scale) {
    throw ConfigError("--initial-loss-scale {} is below --min-loss-scale {}", o.initial_loss_scale,
                      o.min_loss_scale);
  }
}

void check_length(const TrainConfig& c, bool for_training) {
  const RunConfig& r = c.run;
  const OptimizerConfig& o = c.optimizer;
  const BatchSchedule batches = batch_schedule(c);
  const std::int64_t batch = batches.largest();
  const bool by_iterations = r.train_iters > 0;
  const bool by_samples = r.train_samples > 0;
  if ((by_iterations && by_samples) || (for_training && !by_iterations && !by_samples)) {
    throw ConfigError("give one of --train-iters and --train-samples");
  }
  if (by_iterations &&
      (o.lr_decay_samples != 0 || o.lr_warmup_samples != 0 || o.lr_wsd_decay_samples != 0)) {
    throw ConfigError(
        "--lr-decay-samples, --lr-warmup-samples and --lr-wsd-decay-samples go with "
        "--train-samples; with --train-iters use --lr-decay-iters, --lr-warmup-iters and "
        "--lr-wsd-decay-iters");
  }
  if (by_samples &&
      (o.lr_decay_iters != 0 || o.lr_warmup_iters != 0 || o.lr_wsd_decay_iters != 0)) {
    throw ConfigError(
        "--lr-decay-iters, --lr-warmup-iters and --lr-wsd-decay-iters go with --train-iters; with "
        "--train-samples use --lr-decay-samples, --lr-warmup-samples and --lr-wsd-decay-samples");
  }
  if (by_samples && r.train_samples < batches.at(0)) {
    throw ConfigError("--train-samples {} is less than one global batch of {}", r.train_samples,
                      batches.at(0));
  }
  require_countable("--train-iters", r.train_iters, batch);
  require_countable("--lr-decay-iters", o.lr_decay_iters, batch);
  require_countable("--lr-warmup-iters", o.lr_warmup_iters, batch);
  require_countable("--lr-wsd-decay-iters", o.lr_wsd_decay_iters, batch);
  const std::int64_t iterations = by_samples ? r.train_samples / batches.smallest() : r.train_iters;
  const std::int64_t evaluations = r.eval_interval > 0 ? iterations / r.eval_interval + 1 : 1;
  require_countable("--eval-iters", r.eval_iters, batch);
  require_countable("--eval-iters of all evaluations,", evaluations, r.eval_iters * batch);
}

void check_learning_rate(const TrainConfig& c) {
  const OptimizerConfig& o = c.optimizer;
  check_stable_decay(o);
  if (o.lr_warmup_fraction && (o.lr_warmup_iters != 0 || o.lr_warmup_samples != 0)) {
    throw ConfigError(
        "--lr-warmup-fraction excludes --lr-warmup-iters and --lr-warmup-samples: give one");
  }
  if (!o.lr) return;  // in a plan
  if (o.min_lr > *o.lr) throw ConfigError("--min-lr {} is above --lr {}", o.min_lr, *o.lr);
  if (o.lr_warmup_init > *o.lr) {
    throw ConfigError("--lr-warmup-init {} is above --lr {}", o.lr_warmup_init, *o.lr);
  }
  check_decoupled_rate(o);
  if (c.run.train_iters == 0 && c.run.train_samples == 0) return;
  const ParameterSchedule schedule = parameter_schedule(c);
  if (schedule.decay_samples <= 0 ||
      schedule.warmup_samples >= static_cast<double>(schedule.decay_samples)) {
    throw ConfigError("the warm-up ({} samples) must end before the decay does ({} samples)",
                      schedule.warmup_samples, schedule.decay_samples);
  }
  if (schedule.decay_style != DecayStyle::kWarmupStableDecay) return;
  const std::string_view flag =
      c.run.train_samples > 0 ? "--lr-wsd-decay-samples" : "--lr-wsd-decay-iters";
  if (schedule.stable_decay_samples == 0) {
    throw ConfigError("--lr-decay-style WSD needs {}: how long the learning rate falls at the end",
                      flag);
  }
  if (schedule.stable_decay_samples > schedule.decay_samples) {
    throw ConfigError("{}: its {} samples are more than the {} of the whole decay", flag,
                      schedule.stable_decay_samples, schedule.decay_samples);
  }
}

}  // namespace phalanx
