#include "phalanx/flag_table/sections.h"
#include "phalanx/flag_table/unbound.h"

namespace phalanx {
namespace {

using enum FlagType;

constexpr std::string_view kNoCollector =
    "there is no garbage collector, so none runs in the middle of a step";
constexpr Refusal kOtherFormats = {
    "checkpoints are safetensors files with a manifest; the formats of PyTorch are neither written "
    "nor read; leave the flag out",
    kSamePlan};
constexpr Refusal kNoLocal = {
    "checkpoints lie where every host sees them; give --non-persistent-ckpt-type global",
    kSamePlan};
constexpr Refusal kBatchesOfTraining = {
    "evaluations take the batches of training; leave the flag out"};
constexpr std::string_view kFreeOfLayout =
    "checkpoints are free of the layout: any number of ranks loads them";
constexpr std::string_view kStateless =
    "random numbers are functions of the seed and the place where they are used, so no generator "
    "has a state";
constexpr std::string_view kOwnThreads =
    "with --async-save each rank has a thread for it, and without it nothing depends on this";
constexpr std::string_view kOneLayoutOfFiles = "every layout loads every checkpoint";
constexpr std::string_view kWandb = "nothing is sent to Weights & Biases";
constexpr std::string_view kMetrics =
    "metrics are in metrics.jsonl of --save and, with --tensorboard-dir, in files that TensorBoard "
    "shows and wandb sync uploads";
constexpr std::string_view kProfile = "the profilers of PyTorch and CUDA see no Python here";
constexpr std::string_view kTimeline =
    "--trace FILE.json writes the timeline of the last iteration, and perf sees all ranks";
constexpr std::string_view kReports = "nothing is reported to anyone";
constexpr std::string_view kSlowRanks = "it looks for slow ranks, and trains nothing";
constexpr std::string_view kTimesOfRanks =
    "--timing-log-level 1 with --timing-log-option all logs the times of every rank";
constexpr std::string_view kWatched =
    "ranks that are gone or stand still are always found, and what they waited for is told";

constexpr TrainFlag kUnboundRunRows[] = {
    satisfied(kOwn, "--allow-different-threads", kSwitch,
              "a run goes on with any number of threads, which decide no bits"),
    satisfied(kTraining, "--exit-signal-handler", kSwitch,
              "SIGTERM, SIGINT, SIGHUP and --exit-signal always let a run finish its step, save "
              "and leave"),
    satisfied(kTraining, "--exit-signal-handler-for-dataloader", kSwitch,
              "data is read by the run itself, so no other process needs a signal"),
    satisfied(kTraining, "--manual-gc", kSwitch, kNoCollector),
    satisfied(kTraining, "--manual-gc-interval", kInteger, kNoCollector),
    with_yaml_keys("!manual_gc_eval",
                   satisfied(kTraining, "--no-manual-gc-eval", kSwitch, kNoCollector)),
    refused(kTraining, "--adlr-autoresume", kSwitch,
            {"it loads a module of one site's cluster; --exit-duration-in-mins saves in time, and "
             "with --load a job that is started again goes on",
             kSamePlan}),
    only_default("1000", kTraining, "--adlr-autoresume-interval", kInteger,
                 {"nothing depends on it without --adlr-autoresume",
                  {"no module of a site is asked whether to stop; leave the flag out", kSamePlan}}),

    refused(kValidation, "--start-eval-at-iter", kInteger,
            {"evaluations begin with the first --eval-interval; leave the flag out", kSamePlan}),
    refused(kValidation, "--eval-global-batch-size", kInteger, kBatchesOfTraining),
    refused(kValidation, "--eval-micro-batch-size", kInteger, kBatchesOfTraining),

    satisfied(kCheckpoints, "--no-save-rng", kSwitch, kStateless),
    satisfied(kCheckpoints, "--no-load-rng", kSwitch, kStateless),
    refused(kCheckpoints, "--use-mp-args-from-checkpoint-args", kSwitch,
            {"checkpoints are free of the layout; give the sizes that this run is to have"}),
    satisfied_by("torch_dist fsdp_dtensor", kCheckpoints, "--ckpt-format", kText, kFreeOfLayout,
                 kOtherFormats),
    satisfied_by("torch_dist", kCheckpoints, "--dist-ckpt-format", kText, kFreeOfLayout,
                 kOtherFormats),
    satisfied(kCheckpoints, "--use-dist-ckpt", kSwitch, kFreeOfLayout),
    satisfied(kCheckpoints, "--dist-ckpt-optim-fully-reshardable", kSwitch, kFreeOfLayout),
    satisfied(kCheckpoints, "--auto-detect-ckpt-format", kSwitch,
              "every manifest names the form of its checkpoint"),
    refused(kCheckpoints, "--ckpt-convert-format", kText, kOtherFormats),
    refused(kCheckpoints, "--ckpt-convert-save", kText, kOtherFormats),
    refused(kCheckpoints, "--ckpt-convert-update-legacy-dist-opt-format", kSwitch, kOtherFormats),
    satisfied(kCheckpoints, "--use-persistent-ckpt-worker", kSwitch, kOwnThreads),
    with_choices("nvrx mcore", passed_over(kCheckpoints, "--async-strategy", kText, kOwnThreads)),
    satisfied(
        kCheckpoints, "--no-ckpt-fully-parallel-save", kSwitch,
        "the first rank writes the whole checkpoint, unless --ckpt-fully-parallel-save is given"),
    satisfied(kCheckpoints, "--ckpt-fully-parallel-load", kSwitch,
              "each rank reads its share, unless --no-ckpt-fully-parallel-load is given"),
    satisfied(kCheckpoints, "--ckpt-assume-constant-structure", kSwitch,
              "what a rank writes is found out once, at its first save in parts"),
    with_choices("assume_ok_unexpected log_unexpected log_all raise_unexpected raise_all "
                 "return_unexpected return_all ignore_all",
                 passed_over(kCheckpoints, "--dist-ckpt-strictness", kText,
                             "a checkpoint whose tensors are not the model's is never loaded")),
    passed_over(kCheckpoints, "--dist-ckpt-save-pre-mcore-014", kSwitch, kOneLayoutOfFiles),
    passed_over(kCheckpoints, "--distrib-optim-fully-reshardable-mem-efficient", kSwitch,
                kOneLayoutOfFiles),
    satisfied(kCheckpoints, "--verify-integrity", kSwitch,
              "every file of a checkpoint is compared with its digest when it is opened"),
    refused(kCheckpoints, "--non-persistent-local-ckpt-dir", kText, kNoLocal),
    satisfied_by("fully_parallel", kCheckpoints, "--non-persistent-local-ckpt-algo", kText,
                 "nothing depends on it without checkpoints on the hosts' own disks", kNoLocal),
    refused(kCheckpoints, "--override-ckpt-iteration", kInteger,
            {"a checkpoint keeps its iteration; --ckpt-step chooses one, --finetune begins at 0",
             kSamePlan}),
    refused(kCheckpoints, "--load-main-params-from-ckpt", kSwitch,
            {"main parameters are loaded with the optimizer's state, so without --no-load-optim",
             kSamePlan}),

    passed_over(kLogging, "--log-energy", kSwitch, "the power that a run takes is not measured"),
    passed_over(kLogging, "--log-device-memory-used", kSwitch,
                "memory is planned, and the log has what was taken of it"),
    passed_over(kLogging, "--log-straggler", kSwitch, kSlowRanks, kTimesOfRanks),
    passed_over(kLogging, "--disable-straggler-on-startup", kSwitch, kSlowRanks, kTimesOfRanks),
    passed_over(kLogging, "--straggler-ctrlr-port", kInteger, kSlowRanks, kTimesOfRanks),
    passed_over(kLogging, "--straggler-minmax-count", kInteger, kSlowRanks, kTimesOfRanks),
    passed_over(kLogging, "--log-progress", kSwitch, "a file of its own is not written", kMetrics),
    with_yaml_keys("!barrier_with_L1_time",
                   satisfied(kLogging, "--no-barrier-with-level-1-timing", kSwitch,
                             "no rank ever waits at a barrier for the sake of timing")),
    passed_over(kLogging, "--logging-level", kInteger,
                "the log has one level of detail, whatever is asked for"),
    passed_over(kLogging, "--config-logger-dir", kText, "the configuration is not written there",
                "the log begins with all arguments, and a checkpoint's manifest has them"),

    passed_over(kLogging, "--wandb-project", kText, kWandb, kMetrics),
    passed_over(kLogging, "--wandb-exp-name", kText, kWandb, kMetrics),
    passed_over(kLogging, "--wandb-save-dir", kText, kWandb, kMetrics),
    passed_over(kLogging, "--wandb-entity", kText, kWandb, kMetrics),

    passed_over(kLogging, "--profile", kSwitch, kProfile, kTimeline),
    passed_over(kLogging, "--use-pytorch-profiler", kSwitch, kProfile, kTimeline),
    passed_over(kLogging, "--pytorch-profiler-collect-shapes", kSwitch, kProfile, kTimeline),
    passed_over(kLogging, "--pytorch-profiler-collect-callstack", kSwitch, kProfile, kTimeline),
    passed_over(kLogging, "--nvtx-ranges", kSwitch, kProfile, kTimeline),
    passed_over(kLogging, "--record-memory-history", kSwitch, kProfile, kTimeline),
    passed_over(kLogging, "--memory-snapshot-path", kText, kProfile, kTimeline),
    passed_over(kLogging, "--profile-step-start", kInteger, kProfile, kTimeline),
    passed_over(kLogging, "--profile-step-end", kInteger, kProfile, kTimeline),
    passed_over(kLogging, "--profile-ranks", kList, kProfile, kTimeline),
    passed_over(kLogging, "--enable-ft-package", kSwitch, kWatched),
    passed_over(kLogging, "--calc-ft-timeouts", kSwitch, kWatched),
    passed_over(kLogging, "--flight-recorder-dump-path", kText, kWatched),
    passed_over(kLogging, "--run-workload-inspector-server", kSwitch, kReports),
    passed_over(kLogging, "--enable-one-logger", kSwitch, kReports),
    with_yaml_keys("!enable_one_logger", satisfied(kLogging, "--no-one-logger", kSwitch, kReports)),
    passed_over(kLogging, "--one-logger-project", kText, kReports),
    passed_over(kLogging, "--one-logger-run-name", kText, kReports),
    passed_over(kLogging, "--one-logger-async", kSwitch, kReports),
    passed_over(kLogging, "--app-tag-run-name", kText, kReports),
    passed_over(kLogging, "--app-tag-run-version", kText, kReports),
};

}  // namespace

std::span<const TrainFlag> unbound_run_flags() { return kUnboundRunRows; }

}  // namespace phalanx
