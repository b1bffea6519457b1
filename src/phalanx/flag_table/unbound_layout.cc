#include "phalanx/flag_table/reasons.h"
#include "phalanx/flag_table/sections.h"
#include "phalanx/flag_table/unbound.h"

namespace phalanx {
namespace {

using enum FlagType;

constexpr Refusal kRanksBySample = {
    "every sample is shared out among the same ranks, whatever its length; give "
    "--context-parallel-size, and --pack-documents best-fit where documents are short"};
constexpr Refusal kFewerLayers = {
    "layers are counted alone when they are shared out; give the rank with the embedding or the "
    "head fewer by --decoder-first-pipeline-num-layers or --decoder-last-pipeline-num-layers"};
constexpr std::string_view kLateWeightGradients =
    "when a weight gradient is computed changes no bit of it";
constexpr std::string_view kZeroBubble =
    "--pipeline-schedule zb-h1, zb-h2 or zb-v put weight gradients off, each by a rule of its own";
constexpr std::string_view kStagesOverlap = "messages between stages always move while passes run";
constexpr std::string_view kVerifiedMessages =
    "messages between stages have an order in which none waits for itself, and are awaited before "
    "they are read";
constexpr std::string_view kReducesAtOnce =
    "every rank reduces its gradients as soon as they are complete, whatever other stages do";
constexpr std::string_view kGathersAtOnce =
    "every rank gathers parameters as soon as they are updated, whatever other stages do";
constexpr std::string_view kWholeProducts =
    "a product and its tensor-parallel message are never cut into pieces";
constexpr std::string_view kNoNccl = "messages do not go through NCCL";
constexpr std::string_view kNoGraphs =
    "no kernel is launched on a device, so no graphs of them are";
constexpr Refusal kSmallSums = {
    "gradients are always fp32, and summed in fp32; leave the flag out"};

constexpr TrainFlag kUnboundLayoutRows[] = {
    satisfied_by("0 1 2", kTraining, "--empty-unused-memory-level", kInteger,
                 "memory is planned before the first step, so no allocator keeps any unused",
                 {"the levels are 0, 1 and 2"}),

    satisfied(kRanks, "--local-rank", kInteger,
              "a rank's place is known from the launcher's environment, or it is a thread"),
    satisfied_by("nccl gloo mpi ucc", kRanks, "--distributed-backend", kText,
                 "on CPUs UCX carries the messages between processes; threads of one process share "
                 "its memory",
                 {"no such backend; leave the flag out"}),
    passed_over(kRanks, "--lazy-mpu-init", kSwitch, "the program starts its ranks itself, at once"),
    passed_over(kRanks, "--nccl-communicator-config-path", kText, kNoNccl),
    with_aliases("--nccl-ub", passed_over(kRanks, "--use-nccl-ub", kSwitch, kNoNccl)),
    passed_over(kRanks, "--high-priority-stream-groups", kList, kNoNccl),
    passed_over(kRanks, "--use-sharp", kSwitch, kNoNccl),
    passed_over(kRanks, "--sharp-enabled-group", kText, kNoNccl),
    passed_over(kTraining, "--enable-cuda-graph", kSwitch, kNoGraphs),
    passed_over(kTraining, "--external-cuda-graph", kSwitch, kNoGraphs),
    passed_over(kTraining, "--cuda-graph-impl", kText, kNoGraphs),
    passed_over(kTraining, "--cuda-graph-scope", kList, kNoGraphs),
    passed_over(kTraining, "--cuda-graph-warmup-steps", kInteger, kNoGraphs),
    satisfied(kRanks, "--disable-gloo-process-groups", kSwitch,
              "there are no groups of processes beside those that train"),
    refused(kRanks, "--hybrid-context-parallel", kSwitch, kRanksBySample),
    refused(kRanks, "--max-seqlen-per-dp-cp-rank", kInteger, kRanksBySample),
    passed_over(kRanks, "--tp-comm-overlap", kSwitch,
                "tensor-parallel messages move while weight gradients are computed, not within a "
                "product"),
    passed_over(kRanks, "--tp-comm-overlap-cfg", kText, kWholeProducts),
    passed_over(kRanks, "--tp-comm-overlap-rs-dgrad", kSwitch, kWholeProducts),
    with_choices("nccl mpi gloo",
                 passed_over(kRanks, "--tp-comm-bootstrap-backend", kText, kWholeProducts)),
    with_yaml_keys("!tp_comm_overlap_ag",
                   satisfied(kRanks, "--disable-tp-comm-overlap-ag", kSwitch, kWholeProducts)),
    with_yaml_keys("!tp_comm_overlap_rs",
                   satisfied(kRanks, "--disable-tp-comm-overlap-rs", kSwitch, kWholeProducts)),
    with_yaml_keys("!tp_comm_split_ag !tp_comm_atomic_ag",
                   satisfied(kRanks, "--disable-tp-comm-split-ag", kSwitch, kWholeProducts)),
    with_yaml_keys("!tp_comm_split_rs !tp_comm_atomic_rs",
                   satisfied(kRanks, "--disable-tp-comm-split-rs", kSwitch, kWholeProducts)),
    with_yaml_keys("!tp_comm_bulk_dgrad",
                   satisfied(kRanks, "--disable-tp-comm-bulk-dgrad", kSwitch, kWholeProducts)),
    with_yaml_keys("!tp_comm_bulk_wgrad",
                   satisfied(kRanks, "--disable-tp-comm-bulk-wgrad", kSwitch, kWholeProducts)),

    refused(kPipelines, "--pipeline-model-parallel-layout", kText,
            {"layers are shared out evenly but for the first and the last rank: "
             "--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers"}),
    refused(kPipelines, "--account-for-embedding-in-pipeline-split", kSwitch, kFewerLayers),
    refused(kPipelines, "--account-for-loss-in-pipeline-split", kSwitch, kFewerLayers),
    passed_over(kPipelines, "--no-overlap-p2p-communication", kSwitch, kStagesOverlap),
    satisfied(kPipelines, "--overlap-p2p-comm", kSwitch, kStagesOverlap),
    satisfied(kPipelines, "--overlap-p2p-communication-warmup-flush", kSwitch, kStagesOverlap),
    with_yaml_keys("!scatter_gather_tensors_in_pipeline",
                   passed_over(kPipelines, "--no-scatter-gather-tensors-in-pipeline", kSwitch,
                               "between stages every tensor-parallel rank always sends its share")),
    satisfied(kPipelines, "--batch-p2p-comm", kSwitch, kVerifiedMessages),
    satisfied(kPipelines, "--batch-p2p-sync", kSwitch, kVerifiedMessages),
    satisfied(kPipelines, "--deallocate-pipeline-outputs", kSwitch,
              "the output of a stage lives until its send is over, no longer"),
    refused(kPipelines, "--variable-seq-lengths", kSwitch,
            {"all samples have --seq-length tokens; leave the flag out"}),
    passed_over(kPipelines, "--use-ring-exchange-p2p", kSwitch,
                "messages between stages are sent one by one"),
    passed_over(kPipelines, "--defer-embedding-wgrad-compute", kSwitch, kLateWeightGradients,
                kZeroBubble),
    passed_over(kPipelines, "--wgrad-deferral-limit", kInteger, kLateWeightGradients, kZeroBubble),
    passed_over(kPipelines, "--delay-wgrad-compute", kSwitch, kLateWeightGradients, kZeroBubble),

    refused(
        kDataParallelism, "--data-parallel-random-init", kSwitch,
        {"data-parallel ranks always begin with the same weights; leave the flag out", kSamePlan}),
    with_old_names("--no-delay-grad-reduce",
                   with_yaml_keys("!align_grad_reduce !delay_grad_reduce",
                                  satisfied(kDataParallelism, "--no-align-grad-reduce", kSwitch,
                                            kReducesAtOnce))),
    with_yaml_keys("!align_param_gather",
                   satisfied(kDataParallelism, "--no-align-param-gather", kSwitch, kGathersAtOnce)),
    passed_over(kDataParallelism, "--delay-param-gather", kSwitch, kGathersAtOnce),
    passed_over(kDataParallelism, "--overlap-param-gather-with-optimizer-step", kSwitch,
                "parameters are gathered when the whole step is done",
                "--overlap-param-gather gathers them while the next forward begins"),
    passed_over(kDataParallelism, "--ddp-num-buckets", kInteger,
                "sums of gradients have the same bits for any buckets",
                "--ddp-bucket-size is the size of a bucket"),
    passed_over(kDataParallelism, "--ddp-average-in-collective", kSwitch, kAverageFromTheStart),
    passed_over(kDataParallelism, "--ddp-pad-buckets-for-high-nccl-busbw", kSwitch, kNoNccl),
    satisfied(kDataParallelism, "--ddp-reduce-scatter-with-fp32-accumulation", kSwitch,
              "gradients are always summed in fp32"),
    satisfied_by("local torch", kDataParallelism, "--DDP-impl", kText,
                 "gradients are reduced from contiguous fp32 buffers", {"give local or torch"}),
    satisfied(kDataParallelism, "--use-contiguous-buffers-in-ddp", kSwitch, kContiguousGradients),
    passed_over(kDataParallelism, "--no-contiguous-buffers-in-local-ddp", kSwitch,
                kContiguousGradients),

    satisfied_by("1 2", kDataParallelism, "--megatron-fsdp-version", kInteger,
                 "the versions share out the same states, and here there is one implementation",
                 {"the versions are 1 and 2"}),
    satisfied_by("no_shard", kDataParallelism, "--outer-dp-sharding-strategy", kText,
                 "every group of --num-distributed-optimizer-instances has all states",
                 {"groups of ranks are copies of each other, whose states are not shared out once "
                  "more; lower --num-distributed-optimizer-instances instead"}),
    satisfied_by("fp32", kDataParallelism, "--megatron-fsdp-main-params-dtype", kText,
                 "main parameters are always fp32",
                 {"main parameters are always fp32; leave the flag out"}),
    satisfied_by("fp32 auto", kDataParallelism, "--megatron-fsdp-main-grads-dtype", kText,
                 kFp32Sums, kSmallSums),
    satisfied_by("fp32 auto", kDataParallelism, "--megatron-fsdp-grad-comm-dtype", kText, kFp32Sums,
                 kSmallSums),
    satisfied(kDataParallelism, "--suggested-communication-unit-size", kInteger,
              "what a unit of the model needs is gathered together; --zero-prefetch-depth says how "
              "many units ahead"),
    satisfied(kDataParallelism, "--fsdp-double-buffer", kSwitch,
              "gathered parameters have planned places, which units use one after the other"),
    passed_over(kDataParallelism, "--fsdp-manual-registration", kSwitch, kNoNccl),
    satisfied(kDataParallelism, "--init-model-with-meta-device", kSwitch,
              "memory is planned before any is taken, and a rank draws the weights that it keeps"),

    satisfied(kDataParallelism, "--deepspeed", kSwitch,
              "what the file of its settings says counts without it"),
    satisfied(kPipelines, "--no-pipeline-parallel", kSwitch,
              "there is no pipeline without --pipeline-model-parallel-size"),
    satisfied(kRecomputation, "--deepspeed-activation-checkpointing", kSwitch,
              "--recompute-granularity says what is computed again"),
    {.section = kRecomputation,
     .spec = {.name = "--checkpoint-activations",
              .help = "Earlier name of --recompute-granularity full --recompute-method uniform",
              .stands_for = "--recompute-granularity full --recompute-method uniform",
              .is_old = true}},
    {.section = kRecomputation,
     .spec = {.name = "--activations-checkpoint-method",
              .type = kText,
              .help = "Earlier name of --recompute-granularity full --recompute-method",
              .stands_for = "--recompute-granularity full --recompute-method @",
              .is_old = true,
              .choices = "uniform block"}},
    satisfied_by("core_attn", kRecomputation, "--recompute-modules", kList,
                 "selective recomputation is of the core attention",
                 {"the core attention alone is recomputed selectively; --recompute-granularity "
                  "full recomputes whole layers"}),
    satisfied(kRecomputation, "--cpu-offloading-num-layers", kInteger, kInHostMemory),
    satisfied(kRecomputation, "--cpu-offloading", kSwitch, kInHostMemory),
    satisfied(kRecomputation, "--cpu-offloading-activations", kSwitch, kInHostMemory),
    satisfied(kRecomputation, "--cpu-offloading-weights", kSwitch, kInHostMemory),
    satisfied(kRecomputation, "--fine-grained-activation-offloading", kSwitch, kInHostMemory),
    satisfied(kRecomputation, "--offload-modules", kList, kInHostMemory),
    satisfied(kRecomputation, "--min-offloaded-tensor-size", kInteger, kInHostMemory),
    with_range(from_to(0, 1),
               satisfied(kRecomputation, "--activation-offload-fraction", kReal, kInHostMemory)),
    satisfied(kRecomputation, "--delta-offload-bytes-across-pp-ranks", kInteger, kInHostMemory),
    satisfied(kRecomputation, "--delay-offload-until-cuda-graph", kSwitch, kInHostMemory),
};

}  // namespace

std::span<const TrainFlag> unbound_layout_flags() { return kUnboundLayoutRows; }

}  // namespace phalanx
