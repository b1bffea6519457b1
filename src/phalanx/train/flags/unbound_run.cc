#include "phalanx/train/flags/sections.h"
#include "phalanx/train/flags/unbound.h"

namespace phalanx {
namespace {

using enum FlagType;

constexpr std::string_view kNoCollector =
    "there is no garbage collector, so none runs in the middle of a step";
constexpr Refusal kOtherFormats = {
    "checkpoints are safetensors files with a manifest; the formats of PyTorch are neither written "
    "nor read; leave the flag out",
    kSamePlan};
constexpr Refusal kKeepLast = {
    "there is one kind of checkpoint; --save-interval says when one is written and --keep-last how "
    "many are kept",
    kSamePlan};
constexpr std::string_view kFreeOfLayout =
    "checkpoints are free of the layout: any number of ranks loads them";
constexpr std::string_view kStateless =
    "random numbers are functions of the seed and the place where they are used, so no generator "
    "has a state";
constexpr Refusal kBetweenIterations = {
    "a checkpoint is written before the next iteration begins in this version of Phalanx; leave "
    "the flag out",
    "the plan is of a run that saves between iterations"};
constexpr Refusal kFirstWrites = {
    "the first rank writes the whole checkpoint in this version of Phalanx; leave the flag out",
    kSamePlan};
constexpr Refusal kTensorsMustAgree = {
    "a checkpoint whose tensors are not the model's is never loaded; leave the flag out",
    kSamePlan};
constexpr Refusal kWandb = {
    "nothing is sent to Weights & Biases; give --tensorboard-dir DIR, and their program uploads "
    "it: "
    "wandb sync DIR",
    kSamePlan};
constexpr Absence kProfile = {
    "nothing depends on it without --profile",
    {"--trace FILE.json writes the timeline of the last iteration; all ranks are threads that perf "
     "sees",
     kSamePlan}};
constexpr Absence kReports = {"nothing is reported to anyone",
                              {"nothing is reported to anyone; leave the flag out", kSamePlan}};
constexpr Refusal kNotLogged = {
    "not available in this version of Phalanx; leave the flag out: the log line and metrics.jsonl "
    "have losses, gradient norm and times",
    kSamePlan};

constexpr TrainFlag kUnboundRunRows[] = {
    satisfied(kOwn, "--allow-different-threads", kSwitch,
              "a run goes on with any number of threads, which decide no bits"),
    satisfied(kTraining, "--exit-signal-handler", kSwitch,
              "SIGTERM, SIGINT and --exit-signal always let a run finish its step, save and leave"),
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
    refused(kValidation, "--eval-global-batch-size", kInteger,
            {"evaluations take the batches of training; leave the flag out"}),
    refused(kValidation, "--eval-micro-batch-size", kInteger,
            {"evaluations take the batches of training; leave the flag out"}),

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
              "there is one checkpoint format, which every manifest names"),
    refused(kCheckpoints, "--ckpt-convert-format", kText, kOtherFormats),
    refused(kCheckpoints, "--ckpt-convert-save", kText, kOtherFormats),
    refused(kCheckpoints, "--ckpt-convert-update-legacy-dist-opt-format", kSwitch, kOtherFormats),
    refused(kCheckpoints, "--async-save", kSwitch, kBetweenIterations),
    refused(kCheckpoints, "--use-persistent-ckpt-worker", kSwitch, kBetweenIterations),
    refused(kCheckpoints, "--ckpt-fully-parallel-save", kSwitch, kFirstWrites),
    satisfied(kCheckpoints, "--no-ckpt-fully-parallel-save", kSwitch,
              "the first rank writes the whole checkpoint"),
    refused(
        kCheckpoints, "--ckpt-fully-parallel-load", kSwitch,
        {"every rank reads from the files what it needs, no more; leave the flag out", kSamePlan}),
    refused(kCheckpoints, "--ckpt-assume-constant-structure", kSwitch,
            {"there is nothing about a save that could be kept for the next; leave the flag out",
             kSamePlan}),
    satisfied_by(
        "assume_ok_unexpected raise_unexpected raise_all", kCheckpoints, "--dist-ckpt-strictness",
        kText, "a checkpoint whose tensors are not the model's is never loaded", kTensorsMustAgree),
    satisfied(kCheckpoints, "--verify-integrity", kSwitch,
              "every file of a checkpoint is compared with its digest when it is opened"),
    refused(kCheckpoints, "--save-retain-interval", kInteger,
            {"old checkpoints go by their number; give --keep-last", kSamePlan}),
    refused(kCheckpoints, "--non-persistent-save-interval", kInteger, kKeepLast),
    refused(kCheckpoints, "--non-persistent-ckpt-type", kText, kKeepLast),
    refused(kCheckpoints, "--non-persistent-global-ckpt-dir", kText, kKeepLast),
    refused(kCheckpoints, "--non-persistent-local-ckpt-dir", kText, kKeepLast),
    satisfied_by("fully_parallel", kCheckpoints, "--non-persistent-local-ckpt-algo", kText,
                 "nothing depends on it without checkpoints that do not last", kKeepLast),
    refused(kCheckpoints, "--override-ckpt-iteration", kInteger,
            {"a checkpoint keeps its iteration; --ckpt-step chooses one, --finetune begins at 0",
             kSamePlan}),
    refused(kCheckpoints, "--load-main-params-from-ckpt", kSwitch,
            {"main parameters are loaded with the optimizer's state, so without --no-load-optim",
             kSamePlan}),

    refused(kLogging, "--log-energy", kSwitch, kNotLogged),
    refused(kLogging, "--log-straggler", kSwitch, kNotLogged),
    refused(kLogging, "--log-progress", kSwitch,
            {"metrics.jsonl in --save has the progress of every iteration; leave the flag out",
             kSamePlan}),
    with_yaml_keys("!barrier_with_L1_time",
                   satisfied(kLogging, "--no-barrier-with-level-1-timing", kSwitch,
                             "no rank ever waits at a barrier for the sake of timing")),
    satisfied_by("20", kLogging, "--logging-level", kInteger,
                 "what is logged has level 20 (INFO) and above",
                 {"what is logged has level 20 (INFO) and above; leave the flag out", kSamePlan}),

    refused(kLogging, "--wandb-project", kText, kWandb),
    refused(kLogging, "--wandb-exp-name", kText, kWandb),
    refused(kLogging, "--wandb-save-dir", kText, kWandb),
    refused(kLogging, "--wandb-entity", kText, kWandb),

    refused(kLogging, "--profile", kSwitch, kProfile.refusal),
    refused(kLogging, "--use-pytorch-profiler", kSwitch, kProfile.refusal),
    refused(kLogging, "--record-memory-history", kSwitch, kProfile.refusal),
    only_default("10", kLogging, "--profile-step-start", kInteger, kProfile),
    only_default("12", kLogging, "--profile-step-end", kInteger, kProfile),
    only_default("0", kLogging, "--profile-ranks", kList, kProfile),
    with_yaml_keys("!enable_one_logger",
                   satisfied(kLogging, "--no-one-logger", kSwitch, kReports.unused)),
    only_default("megatron-lm", kLogging, "--one-logger-project", kText, kReports),
    refused(kLogging, "--one-logger-run-name", kText, kReports.refusal),
    refused(kLogging, "--one-logger-async", kSwitch, kReports.refusal),
    refused(kLogging, "--app-tag-run-name", kText, kReports.refusal),
    only_default("0.0.0", kLogging, "--app-tag-run-version", kText, kReports),
};

}  // namespace

std::span<const TrainFlag> unbound_run_flags() { return kUnboundRunRows; }

}  // namespace phalanx
