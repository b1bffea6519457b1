#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"

namespace phalanx {
namespace {

using enum ResumeClass;

constexpr TrainFlag kRunRows[] = {
    works<&RunConfig::train_iters>(kTraining, "--train-iters", "Iterations to train for",
                                   {.range = from_to(0, kMostExact), .resume = kWarned}),
    works<&RunConfig::train_samples>(kTraining, "--train-samples",
                                     "Samples to train for, instead of --train-iters",
                                     {.range = from_to(0, kMostExact), .resume = kWarned}),
    works<&RunConfig::exit_interval>(kTraining, "--exit-interval",
                                     "Save and exit at a multiple of this iteration",
                                     {.range = from_to(0, kMostExact)}),
    works<&RunConfig::exit_duration_in_mins>(kTraining, "--exit-duration-in-mins",
                                             "Save and exit after this time",
                                             {.range = at_least(0)}),
    works<&RunConfig::exit_signal>(
        kTraining, "--exit-signal",
        "A signal that lets a run finish its step, save and leave, as SIGTERM, SIGINT and SIGHUP "
        "always do",
        {.value_name = "NAME", .choices = "SIGTERM SIGINT SIGUSR1 SIGUSR2 SIGHUP SIGALRM SIGXCPU"}),
    works<&RunConfig::iterations_to_skip>(
        kTraining, "--iterations-to-skip",
        "Iterations, by their number in the log, whose samples are consumed and nothing more",
        {.resume = kWarned}),
    works<&RunConfig::no_check_for_nan_in_loss_and_grad>(
        kTraining, "--no-check-for-nan-in-loss-and-grad",
        "A step whose gradient is not finite is left out and counted, where without a loss scale "
        "it would end the run",
        {.yaml_keys = "!check_for_nan_in_loss_and_grad"}),
    works<&RunConfig::check_weight_hash_across_dp_replicas_interval>(
        kTraining, "--check-weight-hash-across-dp-replicas-interval",
        "Iterations between comparisons of all data-parallel ranks' weights, and of weights that "
        "pipeline ranks share; a difference ends the run (0: never)",
        {.range = from_to(0, kMostExact)}),
    // NumPy's generators, which order the data, take 32 bits.
    works<&RunConfig::seed>(kTraining, "--seed", "Seed of initialisation, dropout and data order",
                            {.range = from_to(1, 4294967295.0), .resume = kFixed}),

    works<&RunConfig::distributed_timeout_minutes>(
        kRanks, "--distributed-timeout-minutes",
        "How long a rank waits for the others before the run ends", {.range = above(0)}),
    works<&RunConfig::hang_timeout_s>(
        kRanks, "--hang-timeout-s",
        "How long a rank that is a process may make no progress, no message, kernel or block of a "
        "file, before the run ends (0: for ever; not given: 60 s, or 20 times the slowest unit of "
        "the model by the plan)",
        {.range = at_least(0)}),
    works<&RunConfig::silence_timeout_s>(
        kRanks, "--silence-timeout-s",
        "How long nothing may be heard of a rank that is a process before the run ends (not given: "
        "10 s within a host, 60 s between hosts)",
        {.range = above(0)}),
    works<&RunConfig::rdzv_secret_file>(
        kRanks, "--rdzv-secret-file",
        "The secret that ranks of several hosts prove to each other, a file that its owner alone "
        "may read (environment: PHALANX_RDZV_SECRET_FILE)",
        {.value_name = "FILE"}),
    works<&RunConfig::rdzv_insecure>(kRanks, "--rdzv-insecure",
                                     "Ranks of several hosts join without a secret: whoever "
                                     "reaches the port may (environment: PHALANX_RDZV_INSECURE=1)",
                                     {.excludes = "--rdzv-secret-file"}),
    works<&RunConfig::rdzv_bind_any>(
        kRanks, "--rdzv-bind-any",
        "The rendezvous listens on all interfaces, not on MASTER_ADDR's alone"),

    works<&RunConfig::save>(kCheckpoints, "--save", "Directory for checkpoints and metrics.jsonl",
                            {.value_name = "DIR"}),
    works<&RunConfig::save_interval>(kCheckpoints, "--save-interval",
                                     "Iterations between checkpoints",
                                     {.range = from_to(1, kMostExact), .needs = "--save"}),
    works<&RunConfig::load>(kCheckpoints, "--load", "Directory to resume from",
                            {.value_name = "DIR"}),
    works<&RunConfig::pretrained_checkpoint>(kCheckpoints, "--pretrained-checkpoint",
                                             "Where --load has no checkpoint: start a new run from "
                                             "the weights in this directory, at iteration 0",
                                             {.value_name = "DIR", .excludes = "--finetune"}),
    works<&RunConfig::ckpt_step>(kCheckpoints, "--ckpt-step",
                                 "Iteration to load instead of the latest (0: the latest)",
                                 {.range = from_to(0, kMostExact), .needs = "--load"}),
    works<&RunConfig::no_save_optim>(kCheckpoints, "--no-save-optim", "Save weights only",
                                     {.needs = "--save"}),
    works<&RunConfig::ckpt_fully_parallel_save>(
        kCheckpoints, "--ckpt-fully-parallel-save",
        "Every rank writes its own part of a checkpoint, all at the same time (checkpoint "
        "consolidate makes whole tensors of them)",
        {.needs = "--save"}),
    works<&RunConfig::async_save>(
        kCheckpoints, "--async-save",
        "Every rank writes its own part of a checkpoint while training goes on; an update that "
        "comes before its states are written copies them first, or waits",
        {.needs = "--save"}),
    works<&RunConfig::snapshot_fraction>(
        kCheckpoints, "--snapshot-fraction",
        "Memory for these copies, as a share of the bytes that a rank saves (0: updates wait; "
        "default: what the host's memory allows)",
        {.range = {.least = 0.0, .most = 1.0}, .needs = "--async-save"}),
    works<&RunConfig::save_skip_if_busy>(
        kCheckpoints, "--save-skip-if-busy",
        "A save that comes before the last one has ended is left out, instead of waiting for it",
        {.needs = "--async-save"}),
    works<&RunConfig::no_ckpt_fully_parallel_load>(
        kCheckpoints, "--no-ckpt-fully-parallel-load",
        "Each rank reads all that it needs of a checkpoint, instead of a share that it sends to "
        "the others"),
    works<&RunConfig::no_load_optim>(kCheckpoints, "--no-load-optim", "Load weights only",
                                     {.needs = "--load"}),
    works<&RunConfig::finetune>(kCheckpoints, "--finetune",
                                "Start a new run from the weights: iteration 0, no optimizer state",
                                {.needs = "--load"}),
    works<&RunConfig::use_checkpoint_args>(
        kCheckpoints, "--use-checkpoint-args",
        "The checkpoint's model flags apply where none are given",
        {.needs = "--load --pretrained-checkpoint"}),
    works<&RunConfig::exit_on_missing_checkpoint>(
        kCheckpoints, "--exit-on-missing-checkpoint",
        "Fail where --load has no checkpoint, instead of starting from random",
        {.needs = "--load"}),
    works<&RunConfig::memory_snapshot_interval>(
        kCheckpoints, "--memory-snapshot-interval",
        "Iterations between snapshots in memory of phalanx launch, from which a run goes on after "
        "a rank was killed (0: none); two for each rank",
        {.range = from_to(0, kMostExact), .needs = "--save"}),
    works<&RunConfig::keep_last>(kCheckpoints, "--keep-last",
                                 "Checkpoints to keep; more stay as long as no newer one was read "
                                 "back from the disk, whole",
                                 {.range = from_to(1, kMostExact), .needs = "--save"}),
    works<&RunConfig::keep_every>(
        kCheckpoints, "--keep-every",
        "Keep checkpoints of iterations that are multiples of this, too (0: none)",
        {.aliases = "--save-retain-interval", .range = from_to(0, kMostExact), .needs = "--save"}),
    works<&RunConfig::no_verify_saves>(
        kCheckpoints, "--no-verify-saves",
        "Checkpoints are not read back after they are saved; --keep-last counts them unseen",
        {.needs = "--save"}),
    works<&RunConfig::save_copy>(
        kCheckpoints, "--save-copy",
        "A second directory, on another disk, that every --save-copy-interval iterations and at "
        "the end of the run gets a checkpoint too; a failure there is a warning",
        {.value_name = "DIR", .needs = "--save"}),
    works<&RunConfig::save_copy_interval>(
        kCheckpoints, "--save-copy-interval", "Iterations between checkpoints in --save-copy",
        {.range = from_to(1, kMostExact), .needs = "--save-copy"}),
    works<&RunConfig::non_persistent_save_interval>(
        kCheckpoints, "--non-persistent-save-interval",
        "Iterations between checkpoints that do not last: the newest stays alone, and a run that "
        "resumes takes it where it is newer than those of --load",
        {.range = from_to(1, kMostExact), .needs = "--save"}),
    works<&RunConfig::non_persistent_ckpt_type>(
        kCheckpoints, "--non-persistent-ckpt-type",
        "Where checkpoints that do not last lie: global, a directory that all hosts see",
        {.choices = "global local in_memory"}),
    works<&RunConfig::non_persistent_global_ckpt_dir>(
        kCheckpoints, "--non-persistent-global-ckpt-dir",
        "The directory of checkpoints that do not last (not given: non_persistent in --save)",
        {.value_name = "DIR", .needs = "--non-persistent-ckpt-type"}),
    works<&RunConfig::overwrite>(kCheckpoints, "--overwrite",
                                 "Move another run, or later checkpoints, in --save to abandoned-N",
                                 {.needs = "--save"}),
    works<&RunConfig::allow_changed>(
        kCheckpoints, "--allow-changed",
        "Flags that may differ from the checkpoint's although that changes the run: A,B",
        {.value_name = "FLAG", .needs = "--load", .accumulates = true}),

    works<&RunConfig::eval_iters>(kValidation, "--eval-iters",
                                  "Iterations of an evaluation (0: none)",
                                  {.range = from_to(0, kMostExact)}),
    works<&RunConfig::eval_interval>(kValidation, "--eval-interval",
                                     "Iterations between evaluations (0: at the end)",
                                     {.range = from_to(0, kMostExact)}),
    works<&RunConfig::skip_train>(
        kValidation, "--skip-train",
        "No training: only the evaluations that follow the last iteration"),

    works<&RunConfig::log_interval>(kLogging, "--log-interval", "Iterations between log lines",
                                    {.range = from_to(1, kMostExact)}),
    works<&RunConfig::log_throughput>(kLogging, "--log-throughput",
                                      "TFLOP/s of each rank in the log line"),
    works<&OptimizerConfig::log_params_norm>(kLogging, "--log-params-norm",
                                             "The norm of all weights in the log line"),
    works<&RunConfig::log_memory_interval>(kLogging, "--log-memory-interval",
                                           "Iterations between lines of the memory that ranks hold "
                                           "(0: one line, after the first log line)",
                                           {.range = from_to(0, kMostExact)}),
    works<&RunConfig::timing_log_level>(kLogging, "--timing-log-level",
                                        "Timers behind a log line: 0 none, 1 the parts of an "
                                        "iteration, 2 also those of its passes and messages",
                                        {.range = from_to(0, 2)}),
    works<&RunConfig::timing_log_option>(
        kLogging, "--timing-log-option",
        "Of a timer show the largest over ranks, the least and the largest, or every rank's",
        {.choices = "max minmax all"}),
    works<&RunConfig::tensorboard_dir>(kLogging, "--tensorboard-dir",
                                       "Directory for the event files that TensorBoard shows",
                                       {.value_name = "DIR"}),
    works<&RunConfig::tensorboard_log_interval>(kLogging, "--tensorboard-log-interval",
                                                "Iterations between events in --tensorboard-dir",
                                                {.range = from_to(1, kMostExact)}),
    works<&RunConfig::tensorboard_queue_size>(
        kLogging, "--tensorboard-queue-size",
        "Events that are kept, for two minutes at most, before they are written",
        {.range = from_to(1, kMostInt32)}),
    works<&RunConfig::log_timers_to_tensorboard>(
        kLogging, "--log-timers-to-tensorboard",
        "Iteration times, and the timers of --timing-log-level, in TensorBoard",
        {.needs = "--tensorboard-dir"}),
    works<&RunConfig::log_batch_size_to_tensorboard>(kLogging, "--log-batch-size-to-tensorboard",
                                                     "The global batch size in TensorBoard",
                                                     {.needs = "--tensorboard-dir"}),
    works<&RunConfig::log_memory_to_tensorboard>(
        kLogging, "--log-memory-to-tensorboard",
        "Memory in TensorBoard: of the arenas, and resident", {.needs = "--tensorboard-dir"}),
    works<&RunConfig::log_world_size_to_tensorboard>(kLogging, "--log-world-size-to-tensorboard",
                                                     "The number of ranks in TensorBoard",
                                                     {.needs = "--tensorboard-dir"}),
    works<&RunConfig::log_validation_ppl_to_tensorboard>(
        kLogging, "--log-validation-ppl-to-tensorboard",
        "Perplexities of evaluations in TensorBoard", {.needs = "--tensorboard-dir"}),
    works<&RunConfig::no_log_learning_rate_to_tensorboard>(
        kLogging, "--no-log-learning-rate-to-tensorboard", "No learning rate in TensorBoard",
        {.aliases = "--no-log-learnig-rate-to-tensorboard",
         .yaml_keys = "!log_learning_rate_to_tensorboard"}),
    works<&RunConfig::no_log_loss_scale_to_tensorboard>(
        kLogging, "--no-log-loss-scale-to-tensorboard", "No loss scale in TensorBoard",
        {.yaml_keys = "!log_loss_scale_to_tensorboard"}),
    works<&RunConfig::trace>(kLogging, "--trace",
                             "The timeline of the last iteration: FILE.json for Perfetto, beside "
                             "it FILE.svg and FILE.txt",
                             {.value_name = "FILE.json"}),
    works<&RunConfig::cluster>(
        kLogging, "--cluster",
        "How long a step takes on this machine is predicted, and shown beside what a run measures: "
        "a100-40, a100-80, h100, h200, b200 or another shipped one, or a file with its description",
        {.value_name = "NAME|FILE"}),
    works<&RunConfig::write_device_file>(
        kLogging, "--write-device-file",
        "After eleven iterations: the device's description, all of its times scaled by one factor, "
        "so that the prediction is what the steps behind the first took",
        {.value_name = "FILE", .needs = "--cluster"}),

    works<&RunConfig::allow_overcommit>(
        kOwn, "--allow-overcommit",
        "Begin although the memory plan is above what this machine has available"),
};

}  // namespace

std::span<const TrainFlag> run_flags() { return kRunRows; }

}  // namespace phalanx
