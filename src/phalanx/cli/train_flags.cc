#include "phalanx/cli/train_flags.h"

namespace phalanx {
namespace {

void add_network(Flags& flags, TrainConfig& c) {
  flags.section("Network size");
  flags.add("--num-layers", c.model.num_layers, "Transformer layers (required)");
  flags.add("--hidden-size", c.model.hidden_size, "Width of the residual stream (required)");
  flags.add("--ffn-hidden-size", c.model.ffn_hidden_size, "Width of the MLP (0: 4 x hidden size)");
  flags.add("--num-attention-heads", c.model.num_attention_heads, "Attention heads (required)");
  flags.add("--kv-channels", c.model.kv_channels, "Size of a head (0: hidden size / heads)");
  flags.add_switch("--group-query-attention", c.model.group_query_attention,
                   "Several query heads share a key/value head: see --num-query-groups");
  flags.add("--num-query-groups", c.model.num_query_groups, "Key/value heads");
  flags.add("--max-position-embeddings", c.model.max_position_embeddings,
            "Rows of the position table (required; at least the sequence length)");
  flags.add("--make-vocab-size-divisible-by", c.model.make_vocab_size_divisible_by,
            "The vocabulary is padded to a multiple of this");
  flags.add("--norm-epsilon", c.model.norm_epsilon, "Epsilon of the norms");
  flags.add_switch("--untie-embeddings-and-output-weights",
                   c.model.untie_embeddings_and_output_weights,
                   "The output layer has a matrix of its own");
  flags.add_switch("--no-bias-gelu-fusion", c.model.no_bias_gelu_fusion,
                   "Exact (erf) GeLU instead of the tanh form, as in Megatron");
  flags.add("--init-method-std", c.model.init_method_std, "Deviation of the initial weights");
}

void add_regularisation(Flags& flags, TrainConfig& c) {
  flags.section("Regularisation");
  flags.add("--attention-dropout", c.model.attention_dropout, "Dropout of attention probabilities");
  flags.add("--hidden-dropout", c.model.hidden_dropout,
            "Dropout of embedding and sub-layer outputs");
  flags.add("--weight-decay", c.optimizer.weight_decay, "Decoupled weight decay");
  flags.add("--start-weight-decay", c.optimizer.start_weight_decay,
            "First value of a growing weight decay");
  flags.add("--end-weight-decay", c.optimizer.end_weight_decay,
            "Last value of a growing weight decay");
  flags.add("--weight-decay-incr-style", c.optimizer.weight_decay_incr_style,
            "constant, linear, cosine");
  flags.add("--clip-grad", c.optimizer.clip_grad, "Clip gradients by global norm (0: off)");
  flags.add("--adam-beta1", c.optimizer.adam_beta1, "Adam's first decay rate");
  flags.add("--adam-beta2", c.optimizer.adam_beta2, "Adam's second decay rate");
  flags.add("--adam-eps", c.optimizer.adam_eps, "Adam's epsilon");
}

void add_training(Flags& flags, TrainConfig& c) {
  flags.section("Training");
  flags.add("--micro-batch-size", c.layout.micro_batch_size, "Samples of a microbatch (required)");
  flags.add("--global-batch-size", c.layout.global_batch_size,
            "Samples of an iteration (0: one microbatch for each data-parallel rank)");
  flags.add("--train-iters", c.run.train_iters, "Iterations to train for");
  flags.add("--train-samples", c.run.train_samples,
            "Samples to train for, instead of --train-iters");
  flags.add("--exit-interval", c.run.exit_interval,
            "Save and exit at a multiple of this iteration");
  flags.add("--exit-duration-in-mins", c.run.exit_duration_in_mins,
            "Save and exit after this time");
  flags.add("--seed", c.run.seed, "Seed of initialisation, dropout and data order");
  flags.add_switch("--calculate-per-token-loss", c.optimizer.calculate_per_token_loss,
                   "Megatron's name of --loss-average token");
  flags.section("Learning rate");
  flags.add("--lr", c.optimizer.lr, "Largest learning rate (required for training)");
  flags.add("--min-lr", c.optimizer.min_lr, "Smallest learning rate");
  flags.add("--lr-decay-style", c.optimizer.lr_decay_style,
            "constant, linear, cosine, inverse-square-root");
  flags.add("--lr-decay-iters", c.optimizer.lr_decay_iters,
            "Iterations of the decay (0: the whole run)");
  flags.add("--lr-decay-samples", c.optimizer.lr_decay_samples, "Samples of the decay");
  flags.add("--lr-warmup-fraction", c.optimizer.lr_warmup_fraction,
            "Share of the decay to warm up for");
  flags.add("--lr-warmup-iters", c.optimizer.lr_warmup_iters, "Iterations to warm up for");
  flags.add("--lr-warmup-samples", c.optimizer.lr_warmup_samples, "Samples to warm up for");
  flags.add("--lr-warmup-init", c.optimizer.lr_warmup_init,
            "Learning rate at the start of the warm-up");
  flags.add_switch("--override-opt_param-scheduler", c.optimizer.override_opt_param_scheduler,
                   "On resume, use the flags' schedules");
  flags.add_switch("--use-checkpoint-opt_param-scheduler",
                   c.optimizer.use_checkpoint_opt_param_scheduler,
                   "On resume, use the checkpoint's schedules");
}

void add_ranks(Flags& flags, TrainConfig& c) {
  flags.section("Ranks");
  flags.add("--tensor-model-parallel-size", c.layout.tensor_model_parallel_size,
            "Ranks that share every layer");
  flags.add("--pipeline-model-parallel-size", c.layout.pipeline_model_parallel_size,
            "Ranks that the layers are cut over");
  flags.add("--context-parallel-size", c.layout.context_parallel_size,
            "1: context parallelism is not available in this version");
  flags.add_switch("--sequence-parallel", c.layout.sequence_parallel,
                   "Tensor-parallel ranks also share the sequence between the layers");
  flags.add_switch(
      "--no-async-tensor-model-parallel-allreduce",
      c.layout.no_async_tensor_model_parallel_allreduce,
      "Input gradients are reduced before weight gradients are computed, not meanwhile");
  flags.add_switch("--use-tp-pp-dp-mapping", c.layout.use_tp_pp_dp_mapping,
                   "Ranks of a pipeline are nearer to each other than data-parallel ones");
  flags.add("--distributed-timeout-minutes", c.run.distributed_timeout_minutes,
            "How long a rank waits for the others before the run ends");
  flags.section("Pipelines");
  flags.add(
      "--pipeline-schedule", c.layout.pipeline_schedule,
      "Order of the passes (phalanx schedule --list-kinds; default 1f1b, or interleaved where "
      "ranks have several virtual stages)");
  flags.add("--num-layers-per-virtual-pipeline-stage",
            c.layout.num_layers_per_virtual_pipeline_stage,
            "Layers of a virtual stage: ranks have several (0: as the schedule wants)");
  flags.add("--num-virtual-stages-per-pipeline-rank", c.layout.num_virtual_stages_per_pipeline_rank,
            "The same as a number of virtual stages (0: as the schedule wants)");
  flags.add("--microbatch-group-size-per-virtual-pipeline-stage",
            c.layout.microbatch_group_size_per_virtual_pipeline_stage,
            "Microbatches that go through a virtual stage together, interleaved (0: as many as "
            "ranks, where that fits)");
  flags.add("--decoder-first-pipeline-num-layers", c.layout.decoder_first_pipeline_num_layers,
            "Layers of the first rank of a pipeline (0: shared out evenly)");
  flags.add("--decoder-last-pipeline-num-layers", c.layout.decoder_last_pipeline_num_layers,
            "Layers of the last rank of a pipeline, which has the head (0: shared out evenly)");
  flags.add("--pipeline-drain-interval", c.layout.pipeline_drain_interval,
            "Asynchronous schedules (pipedream, pipedream-2bw): the pipeline runs empty at least "
            "every so many iterations; signals are obeyed then");
  flags.section("Data parallelism");
  flags.add_switch("--use-distributed-optimizer", c.layout.use_distributed_optimizer,
                   "Data-parallel ranks share the optimizer state (ZeRO 1)");
  flags.add_switch("--overlap-grad-reduce", c.layout.overlap_grad_reduce,
                   "Gradients are reduced while backward goes on");
  flags.add_switch("--overlap-param-gather", c.layout.overlap_param_gather,
                   "Parameters are gathered while the next forward begins; needs the two above");
  flags.add("--ddp-bucket-size", c.layout.ddp_bucket_size,
            "Parameters that are reduced together (0: 40 million or 1 million for each rank)");
}

void add_recomputation(Flags& flags, TrainConfig& c) {
  flags.section("Recomputation of activations");
  flags.add_switch("--recompute-activations", c.layout.recompute_activations,
                   "The same as --recompute-granularity selective");
  flags.add("--recompute-granularity", c.layout.recompute_granularity,
            "selective: core attention; full: whole layers, see --recompute-method");
  flags.add("--recompute-method", c.layout.recompute_method,
            "uniform: groups of --recompute-num-layers; block: the first --recompute-num-layers");
  flags.add("--recompute-num-layers", c.layout.recompute_num_layers,
            "Layers of a group or block (0: 1); the last group may have fewer");
  flags.add_switch("--distribute-saved-activations", c.layout.distribute_saved_activations,
                   "Tensor-parallel ranks share the saved layer inputs; needs full recomputation");
}

void add_precision(Flags& flags, TrainConfig& c) {
  flags.section("Precision");
  flags.add_switch("--bf16", c.model.bf16, "bf16 parameters and activations, fp32 main parameters");
  flags.add_switch("--fp16", c.model.fp16, "fp16 parameters and activations, fp32 main parameters");
  flags.add("--loss-scale", c.optimizer.loss_scale,
            "Constant loss scale; without it --fp16 scales itself");
  flags.add("--initial-loss-scale", c.optimizer.initial_loss_scale, "Where dynamic scaling starts");
  flags.add("--min-loss-scale", c.optimizer.min_loss_scale, "Dynamic scaling does not go below");
  flags.add("--loss-scale-window", c.optimizer.loss_scale_window,
            "Steps without overflow that double the scale");
  flags.add("--hysteresis", c.optimizer.hysteresis, "Overflows that halve the scale");
  flags.add_switch("--fp32-residual-connection", c.model.fp32_residual_connection,
                   "The residual stream stays fp32");
}

void add_checkpoints(Flags& flags, TrainConfig& c) {
  flags.section("Checkpoints");
  flags.add("--save", c.run.save, "Directory for checkpoints and metrics.jsonl");
  flags.add("--save-interval", c.run.save_interval, "Iterations between checkpoints");
  flags.add("--load", c.run.load, "Directory to resume from");
  flags.add("--ckpt-step", c.run.ckpt_step, "Iteration to load instead of the latest");
  flags.add_switch("--no-save-optim", c.run.no_save_optim, "Save weights only");
  flags.add_switch("--no-load-optim", c.run.no_load_optim, "Load weights only");
  flags.add_switch("--finetune", c.run.finetune,
                   "Start a new run from the weights: iteration 0, no optimizer state");
  flags.add_switch("--exit-on-missing-checkpoint", c.run.exit_on_missing_checkpoint,
                   "Fail where --load has no checkpoint, instead of starting from random");
  flags.add("--keep-last", c.run.keep_last, "Checkpoints to keep");
  flags.add_switch("--overwrite", c.run.overwrite,
                   "Move another run, or later checkpoints, in --save to abandoned-N");
}

void add_data(Flags& flags, TrainConfig& c) {
  flags.section("Data and validation");
  flags.add("--data-path", c.data.data_path,
            "Prefix of a .bin/.idx dataset (required for training)");
  flags.add("--split", c.data.split, "Shares of training, validation and test data");
  flags.add("--seq-length", c.data.seq_length, "Tokens of a sample (required)");
  flags.add("--data-order", c.data.data_order,
            "megatron: shuffled; sequential: windows in file order");
  flags.add("--tokenizer-type", c.data.tokenizer_type,
            "GPT2BPETokenizer (default) or NullTokenizer");
  flags.add("--vocab-file", c.data.vocab_file, "vocab.json");
  flags.add("--merge-file", c.data.merge_file, "merges.txt");
  flags.add("--vocab-size", c.data.vocab_size,
            "Ids of a NullTokenizer, end-of-document not counted");
  flags.add_switch("--eod-mask-loss", c.data.eod_mask_loss, "No loss on end-of-document tokens");
  flags.add_switch("--reset-position-ids", c.data.reset_position_ids,
                   "Positions restart after end-of-document");
  flags.add_switch("--reset-attention-mask", c.data.reset_attention_mask,
                   "Attention stays within a document");
  flags.add("--eval-iters", c.run.eval_iters, "Iterations of an evaluation (0: none)");
  flags.add("--eval-interval", c.run.eval_interval,
            "Iterations between evaluations (0: at the end)");
  flags.section("Logging");
  flags.add("--log-interval", c.run.log_interval, "Iterations between log lines");
  flags.add_switch("--log-throughput", c.run.log_throughput, "TFLOP/s in the log line");
  flags.add("--trace", c.run.trace,
            "The timeline of the last iteration: FILE.json for Perfetto, beside it FILE.svg and "
            "FILE.txt, measured under simulated");
  flags.add_switch("--log-num-zeros-in-grad", c.optimizer.log_num_zeros_in_grad,
                   "The number of gradients that are 0 in the log line");
}

void add_own(Flags& flags, TrainConfig& c) {
  flags.section("Phalanx's own");
  flags.add("--threads-per-rank", c.layout.threads_per_rank,
            "CPU threads of each rank; they decide bits (0: usable cores / ranks)");
  flags.add_switch("--allow-overcommit", c.run.allow_overcommit,
                   "Begin although the memory plan is above what this machine has available");
  flags.add_switch("--allow-different-threads", c.run.allow_different_threads,
                   "Resume although the checkpoint was made with other threads");
  flags.add("--matmul-precision", c.model.matmul_precision,
            "How bf16 matrices are multiplied: auto, fp32, bf16");
  flags.add("--attention-backend", c.model.attention_backend, "fused or unfused");
  flags.add("--loss-average", c.optimizer.loss_average,
            "token: over the global batch; microbatch: Megatron's mean of means");
}

}  // namespace

void add_train_flags(Flags& flags, TrainConfig& config) {
  add_network(flags, config);
  add_regularisation(flags, config);
  add_training(flags, config);
  add_precision(flags, config);
  add_ranks(flags, config);
  add_recomputation(flags, config);
  add_checkpoints(flags, config);
  add_data(flags, config);
  add_own(flags, config);
}

}  // namespace phalanx
