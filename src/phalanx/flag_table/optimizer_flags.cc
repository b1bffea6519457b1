#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

using enum ResumeClass;

constexpr TrainFlag kOptimizerRows[] = {
    works<&OptimizerConfig::lr>(
        kLearningRate, "--lr", "Largest learning rate",
        {.required_to_train = true, .range = at_least(0), .resume = kSchedule}),
    works<&OptimizerConfig::min_lr>(kLearningRate, "--min-lr", "Smallest learning rate",
                                    {.range = at_least(0), .resume = kSchedule}),
    works<&OptimizerConfig::lr_decay_style>(
        kLearningRate, "--lr-decay-style", "How the learning rate falls",
        {.choices = "constant linear cosine inverse-square-root WSD", .resume = kSchedule}),
    works<&OptimizerConfig::lr_decay_iters>(kLearningRate, "--lr-decay-iters",
                                            "Iterations of the decay (0: the whole run)",
                                            {.range = from_to(0, kMostExact), .resume = kSchedule}),
    works<&OptimizerConfig::lr_decay_samples>(
        kLearningRate, "--lr-decay-samples", "Samples of the decay",
        {.range = from_to(0, kMostExact), .resume = kSchedule}),
    works<&OptimizerConfig::lr_warmup_fraction>(
        kLearningRate, "--lr-warmup-fraction", "Share of the decay to warm up for",
        {.old_names = "--warmup", .range = share_below_one(), .resume = kSchedule}),
    works<&OptimizerConfig::lr_warmup_iters>(
        kLearningRate, "--lr-warmup-iters", "Iterations to warm up for",
        {.range = from_to(0, kMostExact), .resume = kSchedule}),
    works<&OptimizerConfig::lr_warmup_samples>(
        kLearningRate, "--lr-warmup-samples", "Samples to warm up for",
        {.range = from_to(0, kMostExact), .resume = kSchedule}),
    works<&OptimizerConfig::lr_warmup_init>(kLearningRate, "--lr-warmup-init",
                                            "Learning rate at the start of the warm-up",
                                            {.range = at_least(0), .resume = kSchedule}),
    works<&OptimizerConfig::lr_wsd_decay_style>(
        kLearningRate, "--lr-wsd-decay-style",
        "How the learning rate falls at the end of --lr-decay-style WSD",
        {.choices = "exponential linear cosine minus_sqrt", .resume = kSchedule}),
    works<&OptimizerConfig::lr_wsd_decay_iters>(
        kLearningRate, "--lr-wsd-decay-iters",
        "Iterations at the end of --lr-decay-style WSD in which it falls",
        {.range = from_to(1, kMostExact), .resume = kSchedule}),
    works<&OptimizerConfig::lr_wsd_decay_samples>(
        kLearningRate, "--lr-wsd-decay-samples",
        "Samples at the end of --lr-decay-style WSD in which it falls",
        {.range = from_to(1, kMostExact), .resume = kSchedule}),
    works<&OptimizerConfig::decoupled_lr>(
        kLearningRate, "--decoupled-lr",
        "Largest learning rate of the word table and the output layer",
        {.range = at_least(0), .resume = kSchedule}),
    works<&OptimizerConfig::decoupled_min_lr>(
        kLearningRate, "--decoupled-min-lr", "Smallest learning rate of those; without it --min-lr",
        {.range = at_least(0), .needs = "--decoupled-lr", .resume = kSchedule}),
    works<&OptimizerConfig::override_opt_param_scheduler>(
        kLearningRate, "--override-opt_param-scheduler", "On resume, use the flags' schedules",
        {.old_names = "--override-lr-scheduler",
         .excludes = "--use-checkpoint-opt_param-scheduler"}),
    works<&OptimizerConfig::use_checkpoint_opt_param_scheduler>(
        kLearningRate, "--use-checkpoint-opt_param-scheduler",
        "On resume, use the checkpoint's schedules",
        {.old_names = "--use-checkpoint-lr-scheduler"}),

    works<&OptimizerConfig::weight_decay>(
        kRegularisation, "--weight-decay",
        "Weight decay: Adam's is decoupled, SGD's in the gradient",
        {.range = at_least(0), .resume = kSchedule}),
    works<&OptimizerConfig::start_weight_decay>(kRegularisation, "--start-weight-decay",
                                                "First value of a growing weight decay",
                                                {.range = at_least(0), .resume = kSchedule}),
    works<&OptimizerConfig::end_weight_decay>(kRegularisation, "--end-weight-decay",
                                              "Last value of a growing weight decay",
                                              {.range = at_least(0), .resume = kSchedule}),
    works<&OptimizerConfig::weight_decay_incr_style>(
        kRegularisation, "--weight-decay-incr-style", "How the weight decay grows",
        {.choices = "constant linear cosine", .resume = kSchedule}),
    works<&OptimizerConfig::clip_grad>(kRegularisation, "--clip-grad",
                                       "Clip gradients by global norm (0: off)",
                                       {.range = at_least(0), .resume = kWarned}),
    works<&OptimizerConfig::optimizer>(kRegularisation, "--optimizer", "How weights are updated",
                                       {.choices = "adam sgd", .resume = kState}),
    works<&OptimizerConfig::sgd_momentum>(kRegularisation, "--sgd-momentum",
                                          "SGD's momentum (0: none, and nothing is kept for it)",
                                          {.range = share_below_one(), .resume = kWarned}),
    works<&OptimizerConfig::adam_beta1>(kRegularisation, "--adam-beta1", "Adam's first decay rate",
                                        {.range = share_below_one(), .resume = kWarned}),
    works<&OptimizerConfig::adam_beta2>(kRegularisation, "--adam-beta2", "Adam's second decay rate",
                                        {.range = share_below_one(), .resume = kWarned}),
    works<&OptimizerConfig::adam_eps>(kRegularisation, "--adam-eps", "Adam's epsilon",
                                      {.range = above(0), .resume = kWarned}),

    {.section = kTraining,
     .spec = {.name = "--calculate-per-token-loss",
              .help = "Megatron's name of --loss-average token",
              .stands_for = "--loss-average token"}},

    works<&OptimizerConfig::loss_scale>(kPrecision, "--loss-scale",
                                        "Constant loss scale; without it --fp16 scales itself",
                                        {.range = above(0), .resume = kWarned}),
    works<&OptimizerConfig::initial_loss_scale>(
        kPrecision, "--initial-loss-scale", "Where dynamic scaling starts",
        {.range = above(0), .needs = "--fp16", .excludes = "--loss-scale"}),
    works<&OptimizerConfig::min_loss_scale>(
        kPrecision, "--min-loss-scale", "Dynamic scaling does not go below",
        {.range = above(0), .needs = "--fp16", .excludes = "--loss-scale", .resume = kWarned}),
    works<&OptimizerConfig::loss_scale_window>(kPrecision, "--loss-scale-window",
                                               "Steps without overflow that double the scale",
                                               {.range = from_to(1, kMostExact),
                                                .needs = "--fp16",
                                                .excludes = "--loss-scale",
                                                .resume = kWarned}),
    works<&OptimizerConfig::hysteresis>(kPrecision, "--hysteresis",
                                        "Overflows that halve the scale",
                                        {.range = from_to(1, kMostExact),
                                         .needs = "--fp16",
                                         .excludes = "--loss-scale",
                                         .resume = kWarned}),

    works<&OptimizerConfig::log_num_zeros_in_grad>(
        kLogging, "--log-num-zeros-in-grad", "The number of gradients that are 0 in the log line"),

    works<&OptimizerConfig::loss_average>(
        kOwn, "--loss-average", "Over the tokens of a global batch, or Megatron's mean of means",
        {.choices = "token microbatch", .resume = kFixed}),
    works<&OptimizerConfig::trainable>(
        kOwn, "--trainable",
        "Train only parameters in whose name one of these regular expressions is found; all others "
        "keep their weights, without gradients and optimizer states",
        {.value_name = "REGEX", .resume = kWarned}),
    works<&OptimizerConfig::freeze>(
        kOwn, "--freeze",
        "Do not train parameters in whose name one of these regular expressions is found",
        {.value_name = "REGEX", .resume = kWarned}),
};

}  // namespace

std::span<const TrainFlag> optimizer_flags() { return kOptimizerRows; }

}  // namespace phalanx
