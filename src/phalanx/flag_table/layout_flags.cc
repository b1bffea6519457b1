#include "phalanx/flag_table/bound.h"
#include "phalanx/flag_table/sections.h"
#include "phalanx/ops/named_devices.h"
#include "phalanx/pipeline/schedule.h"

namespace phalanx {
namespace {

using enum ResumeClass;

// More ranks on an axis are a typing error.
constexpr double kMostRanks = 1048576.0;
// The largest block of a file, in bytes. --aio-queue-depth blocks are in memory at once.
constexpr double kMostBlock = 1073741824.0;
constexpr std::string_view kOffloads =
    "--offload-optimizer-to --offload-parameters-to --offload-activations-to";
constexpr std::string_view kReadsOrWrites =
    "--offload-optimizer-to --offload-parameters-to --offload-activations-to --async-save";

constexpr TrainFlag kLayoutRows[] = {
    works<&LayoutConfig::micro_batch_size>(kTraining, "--micro-batch-size",
                                           "Samples of a microbatch",
                                           {.old_names = "--batch-size",
                                            .required_to_train = true,
                                            .range = from_to(1, kMostInt32),
                                            .resume = kWarned}),
    works<&LayoutConfig::global_batch_size>(
        kTraining, "--global-batch-size",
        "Samples of an iteration (0: a microbatch for each data-parallel rank)",
        {.range = from_to(0, kMostInt32), .resume = kWarned}),

    works<&LayoutConfig::rampup_batch_size>(
        kTraining, "--rampup-batch-size",
        "Samples of the first iterations, how many more they become at each step, and after how "
        "many samples they are --global-batch-size",
        {.value_name = "START INCREMENT SAMPLES", .resume = kWarned}),
    works<&LayoutConfig::step_batch_size_schedule>(
        kTraining, "--step-batch-size-schedule",
        "Samples of an iteration from so many tokens on: \"0:16 2.4B:320\" (K, M, B, T: thousands "
        "and so on)",
        {.value_name = "TOKENS:BATCH",
         .excludes = "--global-batch-size --rampup-batch-size",
         .resume = kWarned}),
    works<&LayoutConfig::decrease_batch_size_if_needed>(
        kTraining, "--decrease-batch-size-if-needed",
        "Every batch is rounded down to a multiple of --micro-batch-size x the data-parallel ranks",
        {.resume = kWarned}),

    works<&LayoutConfig::tensor_model_parallel_size>(
        kRanks, "--tensor-model-parallel-size", "Ranks that share every layer",
        {.old_names = "--model-parallel-size", .range = from_to(1, kMostRanks)}),
    works<&LayoutConfig::pipeline_model_parallel_size>(kRanks, "--pipeline-model-parallel-size",
                                                       "Ranks that the layers are cut over",
                                                       {.range = from_to(1, kMostRanks)}),
    of_families(
        "t5",
        works<&LayoutConfig::encoder_tensor_model_parallel_size>(
            kRanks, "--encoder-tensor-model-parallel-size",
            "T5: as --tensor-model-parallel-size, or 0 (phalanx grid shows the groups of others)",
            {.range = from_to(0, kMostRanks)})),
    works<&LayoutConfig::context_parallel_size>(kRanks, "--context-parallel-size",
                                                "GPT: ranks that share the rows of every sample",
                                                {.range = from_to(1, kMostRanks)}),
    of_families("gpt", works<&LayoutConfig::cp_comm_type>(
                           kRanks, "--cp-comm-type",
                           "How these ranks exchange keys and values, for all layers or a word for "
                           "each: in a ring (p2p), by heads (a2a), whole (all_gather), or by heads "
                           "within a group and in a ring between groups (a2a+p2p)",
                           {.choices = "p2p a2a all_gather a2a+p2p",
                            .same_values = "allgather=all_gather"})),
    of_families("gpt",
                works<&LayoutConfig::hierarchical_context_parallel_sizes>(
                    kRanks, "--hierarchical-context-parallel-sizes",
                    "--cp-comm-type a2a+p2p: ranks of a group, and groups", {.value_name = "A B"})),
    of_families("gpt", works<&LayoutConfig::context_parallel_cut>(
                           kRanks, "--context-parallel-cut",
                           "What context-parallel ranks share out among them: the whole sequence, "
                           "or, with --pack-documents greedy or best-fit, each document of it",
                           {.choices = "sequence documents"})),
    works<&LayoutConfig::sequence_parallel>(
        kRanks, "--sequence-parallel",
        "Tensor-parallel ranks also share the sequence between the layers"),
    works<&LayoutConfig::no_async_tensor_model_parallel_allreduce>(
        kRanks, "--no-async-tensor-model-parallel-allreduce",
        "Input gradients are reduced before weight gradients are computed, not meanwhile",
        {.yaml_keys = "!async_tensor_model_parallel_allreduce"}),
    works<&LayoutConfig::use_tp_pp_dp_mapping>(
        kRanks, "--use-tp-pp-dp-mapping",
        "Ranks of a pipeline are nearer to each other than data-parallel ones"),

    works<&LayoutConfig::pipeline_schedule>(kPipelines, "--pipeline-schedule",
                                            "Order of the passes (phalanx schedule --list-kinds; "
                                            "1f1b, or interleaved with several virtual stages)",
                                            {.choices = kScheduleNames}),
    works<&LayoutConfig::num_layers_per_virtual_pipeline_stage>(
        kPipelines, "--num-layers-per-virtual-pipeline-stage",
        "Layers of a virtual stage: ranks have several (0: as the schedule wants)",
        {.range = from_to(0, kMostInt32)}),
    works<&LayoutConfig::num_virtual_stages_per_pipeline_rank>(
        kPipelines, "--num-virtual-stages-per-pipeline-rank",
        "The same as a number of virtual stages (0: as the schedule wants)",
        {.yaml_keys = "virtual_pipeline_model_parallel_size", .range = from_to(0, kMostInt32)}),
    works<&LayoutConfig::microbatch_group_size_per_virtual_pipeline_stage>(
        kPipelines, "--microbatch-group-size-per-virtual-pipeline-stage",
        "Microbatches that go through a virtual stage together, interleaved (0: as many as ranks, "
        "where that fits)",
        {.range = from_to(0, kMostInt32)}),
    of_families("gpt bert", works<&LayoutConfig::decoder_first_pipeline_num_layers>(
                                kPipelines, "--decoder-first-pipeline-num-layers",
                                "Layers of the first rank of a pipeline (0: shared out evenly)",
                                {.range = from_to(0, kMostInt32)})),
    of_families("gpt bert",
                works<&LayoutConfig::decoder_last_pipeline_num_layers>(
                    kPipelines, "--decoder-last-pipeline-num-layers",
                    "Layers of the last rank, which has the head (0: shared out evenly)",
                    {.range = from_to(0, kMostInt32)})),
    works<&LayoutConfig::standalone_embedding_stage>(
        kPipelines, "--standalone-embedding-stage",
        "The first rank of a pipeline has the embedding and no layer"),
    of_families(
        "t5", works<&LayoutConfig::pipeline_model_parallel_split_rank>(
                  kPipelines, "--pipeline-model-parallel-split-rank",
                  "T5: the first rank of a pipeline that has layers of the decoder (0: not given)",
                  {.range = from_to(0, kMostRanks)})),
    of_families("t5", works<&LayoutConfig::encoder_pipeline_model_parallel_size>(
                          kPipelines, "--encoder-pipeline-model-parallel-size",
                          "T5: ranks that the encoder is cut over, beside those of the decoder (0: "
                          "see the split rank)",
                          {.range = from_to(0, kMostRanks),
                           .excludes = "--pipeline-model-parallel-split-rank"})),
    works<&LayoutConfig::pipeline_drain_interval>(
        kPipelines, "--pipeline-drain-interval",
        "Asynchronous schedules: the pipeline runs empty at least every so many iterations; "
        "signals are obeyed then",
        {.range = from_to(1, kMostInt32), .needs = "--pipeline-schedule"}),

    works<&LayoutConfig::use_distributed_optimizer>(
        kDataParallelism, "--use-distributed-optimizer",
        "Data-parallel ranks share the optimizer state (ZeRO 1)"),
    works<&LayoutConfig::zero_stage>(
        kDataParallelism, "--zero-stage",
        "Data-parallel ranks share optimizer state (1), gradients too (2), parameters too (3)",
        {.range = from_to(0, 3)}),
    works<&LayoutConfig::data_parallel_sharding_strategy>(
        kDataParallelism, "--data-parallel-sharding-strategy", "The same in Megatron's words",
        {.choices = "no_shard optim optim_grads optim_grads_params", .excludes = "--zero-stage"}),
    works<&LayoutConfig::use_megatron_fsdp>(
        kDataParallelism, "--use-megatron-fsdp", "Without a strategy: --zero-stage 3",
        {.old_names = "--use-custom-fsdp", .excludes = "--zero-stage"}),
    works<&LayoutConfig::num_distributed_optimizer_instances>(
        kDataParallelism, "--num-distributed-optimizer-instances",
        "Copies of the shared states: ranks are shared out among so many groups (HSDP)",
        {.range = from_to(1, kMostRanks)}),
    works<&LayoutConfig::zero_accumulate_unsharded>(
        kDataParallelism, "--zero-accumulate-unsharded",
        "Stages 2 and 3: gradients stay whole until the last microbatch and are reduced once"),
    works<&LayoutConfig::zero_prefetch_depth>(
        kDataParallelism, "--zero-prefetch-depth",
        "Stage 3: so many units ahead parameters are gathered", {.range = from_to(0, kMostRanks)}),
    works<&LayoutConfig::zero_persistence_threshold>(
        kDataParallelism, "--zero-persistence-threshold",
        "Stage 3: parameters of at most so many elements stay on every rank",
        {.range = from_to(0, kMostExact)}),
    works<&LayoutConfig::no_zero_reshard_after_forward>(
        kDataParallelism, "--no-zero-reshard-after-forward",
        "Stage 3: what forward gathered stays until backward",
        {.yaml_keys = "!zero_reshard_after_forward"}),
    {.section = kDataParallelism,
     .spec = {.name = "--use-torch-fsdp2",
              .help = "The same as --zero-stage 3",
              .stands_for = "--zero-stage 3"}},
    {.section = kDataParallelism,
     .spec = {.name = "--torch-fsdp2-no-reshard-after-forward",
              .help = "The same as --no-zero-reshard-after-forward",
              .stands_for = "--no-zero-reshard-after-forward"}},
    works<&LayoutConfig::overlap_grad_reduce>(kDataParallelism, "--overlap-grad-reduce",
                                              "Gradients are reduced while backward goes on"),
    works<&LayoutConfig::overlap_param_gather>(
        kDataParallelism, "--overlap-param-gather",
        "Parameters are gathered while the next forward begins; needs the two above"),
    works<&LayoutConfig::ddp_bucket_size>(
        kDataParallelism, "--ddp-bucket-size",
        "Parameters that are reduced together (0: 40 million, or 1 million for each rank)",
        {.range = from_to(0, kMostExact)}),

    works<&LayoutConfig::offload_optimizer_to>(
        kOffload, "--offload-optimizer-to",
        "Main parameters, moments and gradients lie in files of this directory, on a fast disk, "
        "and come to memory by tiles",
        {.value_name = "DIR"}),
    works<&LayoutConfig::offload_parameters_to>(
        kOffload, "--offload-parameters-to",
        "So do parameters, which come unit by unit; implies --zero-stage 3", {.value_name = "DIR"}),
    works<&LayoutConfig::offload_activations_to>(
        kOffload, "--offload-activations-to",
        "So does what forward saves for backward, but for what is smaller than --aio-block-size",
        {.value_name = "DIR"}),
    works<&LayoutConfig::offload_fraction>(
        kOffload, "--offload-fraction", "Share of the optimizer's states that lies in files",
        {.range = from_to(0, 1), .needs = "--offload-optimizer-to"}),
    works<&LayoutConfig::aio_block_size>(
        kOffload, "--aio-block-size", "Bytes that are read or written at once, a multiple of 4096",
        {.range = from_to(4096, kMostBlock), .needs = kOffloads}),
    works<&LayoutConfig::aio_queue_depth>(kOffload, "--aio-queue-depth", "So many at the same time",
                                          {.range = from_to(1, 1024), .needs = kOffloads}),
    works<&LayoutConfig::disk_bandwidth>(kOffload, "--disk-bandwidth",
                                         "GB/s of the disk, as `phalanx bench disk` prints them: "
                                         "what a step, or a save, takes of it is predicted",
                                         {.value_name = "READ,WRITE", .needs = kReadsOrWrites}),

    {.section = kRecomputation,
     .spec = {.name = "--recompute-activations",
              .help = "The same as --recompute-granularity selective",
              .stands_for = "--recompute-granularity selective"}},
    works<&LayoutConfig::recompute_granularity>(
        kRecomputation, "--recompute-granularity",
        "Core attention, or whole layers (see --recompute-method)", {.choices = "selective full"}),
    works<&LayoutConfig::recompute_method>(
        kRecomputation, "--recompute-method",
        "Groups of --recompute-num-layers, or the first so many layers of each stage",
        {.choices = "uniform block"}),
    works<&LayoutConfig::recompute_num_layers>(
        kRecomputation, "--recompute-num-layers",
        "Layers of a group or block (0: 1); the last group may have fewer",
        {.old_names = "--checkpoint-num-layers --activations-checkpoint-num-layers",
         .range = from_to(0, kMostInt32)}),
    works<&LayoutConfig::distribute_saved_activations>(
        kRecomputation, "--distribute-saved-activations",
        "Tensor-parallel ranks share the saved layer inputs; needs full recomputation",
        {.old_names = "--distribute-checkpointed-activations"}),

    works<&LayoutConfig::sum_block_size>(
        kOwn, "--sum-block-size",
        "Sums over ranks add blocks of so many ranks from left to right, then blocks of blocks",
        {.range = from_to(2, kMostInt32), .resume = ResumeClass::kFixed}),
    works<&LayoutConfig::device>(kOwn, "--device",
                                 "Where ranks compute; the emulated CUDA device is for tests of "
                                 "programs, devices with a name "
                                 "are for plans, which need none",
                                 {.choices = kDeviceNames}),
    works<&LayoutConfig::threads_per_rank>(
        kOwn, "--threads-per-rank",
        "CPU threads of each rank (0: OMP_NUM_THREADS, else usable cores / ranks)",
        {.range = from_to(0, 1024)}),
    works<&LayoutConfig::no_cpu_affinity>(
        kOwn, "--no-cpu-affinity", "Ranks that share out all cores are not bound to their shares",
        {.yaml_keys = "!cpu_affinity"}),
};

}  // namespace

std::span<const TrainFlag> layout_flags() { return kLayoutRows; }

}  // namespace phalanx
