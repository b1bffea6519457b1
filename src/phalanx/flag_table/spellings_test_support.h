#pragma once
// What users of Megatron-LM may give: the spellings of its flags from 2.5 on, old ones too, the
// values that are defaults there, and the keys of its own YAML configuration files.

#include <string_view>

namespace phalanx {

inline constexpr std::string_view kSpellings = R"(
--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split
--accumulate-allreduce-grads-in-fp32 --activation-offload-fraction --activations-checkpoint-method
--activations-checkpoint-num-layers --adam-beta1 --adam-beta2 --adam-eps --add-qkv-bias
--adlr-autoresume --adlr-autoresume-interval --apply-layernorm-1p --apply-query-key-layer-scaling
--apply-residual-connection-post-layernorm --async-save --async-strategy --attention-backend
--attention-dropout --attention-softmax-in-fp32 --auto-detect-ckpt-format --batch-size
--bert-no-binary-head --bf16 --calc-ft-timeouts --calculate-per-token-loss
--check-weight-hash-across-dp-replicas-interval --checkpoint-activations --checkpoint-num-layers
--ckpt-assume-constant-structure --ckpt-convert-format --ckpt-convert-save --ckpt-format
--ckpt-fully-parallel-load --ckpt-step --clip-grad --config-logger-dir --context-parallel-size
--cp-comm-type --cpu-offloading --cpu-offloading-activations --cpu-offloading-num-layers
--cpu-offloading-weights --cross-entropy-loss-fusion --cuda-graph-impl --cuda-graph-scope
--cuda-graph-warmup-steps --data-args-path --data-cache-path --data-impl --data-parallel-random-init
--data-parallel-sharding-strategy --data-path --dataloader-type --ddp-average-in-collective
--ddp-bucket-size --DDP-impl --ddp-num-buckets --ddp-pad-buckets-for-high-nccl-busbw
--decoder-first-pipeline-num-layers --decoder-last-pipeline-num-layers --decoder-num-layers
--decoder-seq-length --decoupled-lr --decoupled-min-lr --decrease-batch-size-if-needed --deepspeed
--deepspeed-activation-checkpointing --defer-embedding-wgrad-compute
--delay-offload-until-cuda-graph --delay-param-gather --delay-wgrad-compute
--delta-offload-bytes-across-pp-ranks --disable-bias-linear --disable-jit-fuser
--disable-straggler-on-startup --dist-ckpt-save-pre-mcore-014 --dist-ckpt-strictness
--distrib-optim-fully-reshardable-mem-efficient --distribute-checkpointed-activations
--distribute-saved-activations --distributed-backend --distributed-timeout-minutes
--empty-unused-memory-level --enable-cuda-graph --enable-ft-package --enable-one-logger
--encoder-num-layers --encoder-seq-length --end-weight-decay --eod-mask-loss
--eval-global-batch-size --eval-interval --eval-iters --eval-micro-batch-size
--exit-duration-in-mins --exit-interval --exit-on-missing-checkpoint --exit-signal
--exit-signal-handler --exp-avg-dtype --exp-avg-sq-dtype --expert-model-parallel-size
--expert-tensor-parallel-size --external-cuda-graph --ffn-hidden-size
--fine-grained-activation-offloading --finetune --flight-recorder-dump-path --fp16
--fp16-lm-cross-entropy --fp32-residual-connection --fp8-format --fsdp-double-buffer
--fsdp-manual-registration --full-validation --global-batch-size --grad-reduce-in-bf16
--group-query-attention --hidden-dropout --hidden-size --hierarchical-context-parallel-sizes
--high-priority-stream-groups --hybrid-context-parallel --hysteresis --inference-rng-tracker --init-method-std
--init-method-xavier-uniform --init-model-with-meta-device --initial-loss-scale --kv-channels
--layernorm-epsilon --lazy-mpu-init --load --load-main-params-from-ckpt --local-rank --local_rank
--log-batch-size-to-tensorboard --log-device-memory-used --log-energy --log-interval
--log-memory-to-tensorboard --log-num-zeros-in-grad --log-params-norm --log-progress
--log-throughput --log-timers-to-tensorboard --log-validation-ppl-to-tensorboard
--log-world-size-to-tensorboard --logging-level --loss-scale --loss-scale-window --lr
--lr-decay-iters --lr-decay-samples --lr-decay-style --lr-warmup-fraction --lr-warmup-init
--lr-warmup-iters --lr-warmup-samples --lr-wsd-decay-iters --lr-wsd-decay-samples
--lr-wsd-decay-style --main-grads-dtype --main-params-dtype --make-vocab-size-divisible-by
--manual-gc --manual-gc-interval --mask-prob --max-position-embeddings --max-seqlen-per-dp-cp-rank
--megatron-fsdp-grad-comm-dtype --megatron-fsdp-main-grads-dtype --megatron-fsdp-main-params-dtype
--megatron-fsdp-version --memory-snapshot-path --merge-file --micro-batch-size
--microbatch-group-size-per-virtual-pipeline-stage --min-loss-scale --min-lr
--min-offloaded-tensor-size --mmap-warmup --mock-data --model-parallel-size --moe-aux-loss-coeff
--moe-router-topk --moe-token-dispatcher-type --multiple-validation-sets --nccl-ub
--no-align-grad-reduce --no-align-param-gather --no-async-tensor-model-parallel-allreduce
--no-barrier-with-level-1-timing --no-bias-dropout-fusion --no-bias-gelu-fusion
--no-bias-swiglu-fusion --no-check-for-nan-in-loss-and-grad --no-ckpt-fully-parallel-save
--no-contiguous-buffers-in-local-ddp --no-create-attention-mask-in-dataloader --no-delay-grad-reduce
--no-gradient-accumulation-fusion --no-initialization --no-load-optim --no-load-rng
--no-log-learnig-rate-to-tensorboard --no-log-loss-scale-to-tensorboard --no-masked-softmax-fusion
--no-mmap-bin-files --no-overlap-p2p-communication --no-persist-layer-norm --no-pin-cpu-grads
--no-pin-cpu-params --no-pipeline-parallel --no-position-embedding --no-query-key-layer-scaling
--no-rope-fusion --no-save-optim --no-save-rng --no-scatter-gather-tensors-in-pipeline
--non-persistent-ckpt-type --non-persistent-global-ckpt-dir --non-persistent-local-ckpt-algo
--non-persistent-local-ckpt-dir --non-persistent-save-interval --norm-epsilon --normalization
--num-attention-heads --num-dataset-builder-threads --num-distributed-optimizer-instances
--num-experts --num-layers --num-layers-per-virtual-pipeline-stage --num-query-groups
--num-virtual-stages-per-pipeline-rank --num-workers --nvtx-ranges --offload-modules --onnx-safe
--openai-gelu --optimizer --optimizer-cpu-offload --optimizer-offload-fraction
--outer-dp-sharding-strategy --overlap-cpu-optimizer-d2h-h2d --overlap-grad-reduce
--overlap-p2p-communication-warmup-flush --overlap-param-gather
--overlap-param-gather-with-optimizer-step --override-ckpt-iteration --override-lr-scheduler
--override-opt-param-scheduler --override-opt_param-scheduler --per-split-data-args-path
--pipeline-model-parallel-layout --pipeline-model-parallel-size --pipeline-model-parallel-split-rank
--position-embedding-type --pretrained-checkpoint --pytorch-profiler-collect-callstack
--pytorch-profiler-collect-shapes --qk-layernorm --quick-geglu --rampup-batch-size
--recompute-activations --recompute-granularity --recompute-method --recompute-modules
--recompute-num-layers --relative-attention-max-distance --relative-attention-num-buckets
--reset-attention-mask --reset-position-ids --retriever-seq-length --rope-scaling-factor
--rotary-base --rotary-interleaved --rotary-percent --rotary-seq-len-interpolation-factor
--run-workload-inspector-server --sample-rate --save --save-interval --save-retain-interval --seed
--seq-length --sequence-parallel --sgd-momentum --sharp-enabled-group --short-seq-prob --skip-train
--split --squared-relu --standalone-embedding-stage --start-eval-at-iter --start-weight-decay
--step-batch-size-schedule --straggler-ctrlr-port --straggler-minmax-count
--suggested-communication-unit-size --swiglu --te-rng-tracker --tensor-model-parallel-size
--tensorboard-dir --tensorboard-log-interval --tensorboard-queue-size --test-data-path
--tiktoken-num-special-tokens --tiktoken-pattern --timing-log-level --timing-log-option
--tokenizer-model --tokenizer-type --torch-fsdp2-no-reshard-after-forward
--tp-comm-bootstrap-backend --tp-comm-overlap --tp-comm-overlap-rs-dgrad --train-data-path
--train-iters --train-samples --transformer-impl --trust-remote-code
--untie-embeddings-and-output-weights --use-checkpoint-args --use-checkpoint-lr-scheduler
--use-checkpoint-opt-param-scheduler --use-checkpoint-opt_param-scheduler
--use-contiguous-buffers-in-ddp --use-cpu-initialization --use-custom-fsdp --use-dist-ckpt
--use-distributed-optimizer --use-flash-attn --use-megatron-fsdp --use-mp-args-from-checkpoint-args
--use-nccl-ub --use-precision-aware-optimizer --use-ring-exchange-p2p --use-rope-scaling
--use-rotary-position-embeddings --use-sharp --use-torch-fsdp2 --use-torch-optimizer-for-cpu-offload
--use-tp-pp-dp-mapping --use-transformer-engine-op-fuser --valid-data-path --vocab-extra-ids
--vocab-file --vocab-size --wandb-exp-name --wandb-project --wandb-save-dir --warmup --weight-decay
--weight-decay-incr-style --wgrad-deferral-limit
)";

// A flag and the value that it has where it is not given.
inline constexpr std::string_view kDefaults = R"(
--position-embedding-type learned_absolute
--rotary-base 10000
--rotary-percent 1.0
--rope-scaling-factor 8.0
--relative-attention-num-buckets 32
--relative-attention-max-distance 128
--make-vocab-size-divisible-by 128
--norm-epsilon 1e-5
--layernorm-epsilon 1e-5
--normalization LayerNorm
--moe-router-topk 2
--moe-aux-loss-coeff 0.0
--moe-token-dispatcher-type allgather
--log-interval 100
--timing-log-level 0
--timing-log-option minmax
--tensorboard-log-interval 1
--tensorboard-queue-size 1000
--attention-dropout 0.1
--hidden-dropout 0.1
--weight-decay 0.01
--weight-decay-incr-style constant
--clip-grad 1.0
--adam-beta1 0.9
--adam-beta2 0.999
--adam-eps 1e-08
--sgd-momentum 0.9
--optimizer adam
--empty-unused-memory-level 0
--dataloader-type single
--manual-gc-interval 0
--transformer-impl local
--init-method-std 0.02
--seed 1234
--initial-loss-scale 4294967296
--min-loss-scale 1.0
--loss-scale-window 1000
--hysteresis 2
--lr-decay-style linear
--lr-wsd-decay-style exponential
--lr-warmup-iters 0
--lr-warmup-samples 0
--lr-warmup-init 0.0
--min-lr 0.0
--ckpt-format torch_dist
--dist-ckpt-strictness assume_ok_unexpected
--tensor-model-parallel-size 1
--pipeline-model-parallel-size 1
--context-parallel-size 1
--expert-model-parallel-size 1
--distributed-backend nccl
--distributed-timeout-minutes 10
--num-distributed-optimizer-instances 1
--outer-dp-sharding-strategy no_shard
--megatron-fsdp-version 1
--megatron-fsdp-main-params-dtype fp32
--megatron-fsdp-main-grads-dtype auto
--megatron-fsdp-grad-comm-dtype auto
--optimizer-offload-fraction 1.0
--min-offloaded-tensor-size 1048576
--activation-offload-fraction 1.0
--delta-offload-bytes-across-pp-ranks 0
--DDP-impl local
--cp-comm-type p2p
--adlr-autoresume-interval 1000
--eval-iters 100
--eval-interval 1000
--split 969,30,1
--vocab-extra-ids 0
--mask-prob 0.15
--short-seq-prob 0.1
--sample-rate 1.0
--retriever-seq-length 256
--num-workers 2
--tiktoken-num-special-tokens 1000
--num-dataset-builder-threads 1
--data-impl infer
--exit-signal SIGTERM
)";

// Headings are left out, and keys that have no value in any such file.
inline constexpr std::string_view kYamlKeys = R"(
num_layers hidden_size num_attention_heads num_query_groups ffn_hidden_size kv_channels
hidden_dropout attention_dropout fp32_residual_connection apply_residual_connection_post_layernorm
layernorm_epsilon layernorm_zero_centered_gamma add_bias_linear bias_activation_fusion
add_qkv_bias gated_linear_unit activation_func num_moe_experts rotary_interleaved window_size
init_method_std apply_query_key_layer_scaling attention_softmax_in_fp32 bias_swiglu_fusion
masked_softmax_fusion persist_layer_norm memory_efficient_layer_norm bias_dropout_fusion
apply_rope_fusion recompute_granularity recompute_method recompute_num_layers
distribute_saved_activations fp8 fp8_margin fp8_interval fp8_amax_history_len
fp8_amax_compute_algo fp8_wgrad clone_scatter_output_in_embedding normalization
moe_router_load_balancing_type moe_router_topk moe_grouped_gemm moe_aux_loss_coeff
moe_z_loss_coeff moe_input_jitter_eps moe_token_dropping tensor_model_parallel_size
context_parallel_size pipeline_model_parallel_size virtual_pipeline_model_parallel_size
sequence_parallel expert_model_parallel_size perform_initialization use_cpu_initialization fp16
bf16 gradient_accumulation_fusion async_tensor_model_parallel_allreduce tp_comm_overlap
tp_comm_split_ag tp_comm_atomic_ag tp_comm_split_rs tp_comm_atomic_rs tp_comm_bulk_wgrad
tp_comm_bulk_dgrad enable_autocast variable_seq_lengths overlap_p2p_comm batch_p2p_comm
batch_p2p_sync use_ring_exchange_p2p deallocate_pipeline_outputs
pipeline_model_parallel_split_rank cpu_offloading cpu_offloading_num_layers cpu_offloading_weights
cpu_offloading_activations barrier_with_L1_time use_legacy_models spec micro_batch_size
global_batch_size rampup_batch_size check_for_nan_in_loss_and_grad
num_layers_per_virtual_pipeline_stage encoder_num_layers decoder_num_layers
rotary_seq_len_interpolation_factor add_position_embedding make_vocab_size_divisible_by
group_query_attention exit_signal_handler exit_duration_in_mins exit_interval
untie_embeddings_and_output_weights position_embedding_type rotary_percent openai_gelu
squared_relu swiglu onnx_safe bert_binary_head max_position_embeddings transformer_impl
use_flash_attn seed data_parallel_random_init optimizer lr lr_decay_style lr_decay_iters
lr_decay_samples lr_warmup_fraction lr_warmup_iters lr_warmup_samples lr_warmup_init min_lr
weight_decay start_weight_decay end_weight_decay weight_decay_incr_style clip_grad adam_beta1
adam_beta2 adam_eps sgd_momentum override_opt_param_scheduler use_checkpoint_opt_param_scheduler
save save_interval no_save_optim no_save_rng load no_load_optim no_load_rng finetune
use_checkpoint_args exit_on_missing_checkpoint loss_scale initial_loss_scale min_loss_scale
loss_scale_window hysteresis accumulate_allreduce_grads_in_fp32 fp16_lm_cross_entropy
distributed_backend distributed_timeout_minutes overlap_grad_reduce delay_grad_reduce
overlap_param_gather delay_param_gather scatter_gather_tensors_in_pipeline local_rank
lazy_mpu_init empty_unused_memory_level standalone_embedding_stage use_distributed_optimizer
nccl_communicator_config_path train_iters eval_iters eval_interval skip_train adlr_autoresume
adlr_autoresume_interval manual_gc manual_gc_interval manual_gc_eval tp_comm_overlap_cfg data_path
split train_data_path valid_data_path test_data_path data_cache_path mock_data vocab_size
vocab_file merge_file vocab_extra_ids seq_length encoder_seq_length decoder_seq_length
retriever_seq_length sample_rate mask_prob short_seq_prob num_workers tokenizer_type
tokenizer_model reset_position_ids reset_attention_mask eod_mask_loss train_samples
dataloader_type profile profile_ranks profile_step_end profile_step_start log_params_norm
log_num_zeros_in_grad log_throughput log_progress timing_log_level timing_log_option
tensorboard_log_interval tensorboard_queue_size log_timers_to_tensorboard
log_validation_ppl_to_tensorboard log_memory_to_tensorboard log_world_size_to_tensorboard
log_loss_scale_to_tensorboard wandb_project wandb_exp_name wandb_save_dir enable_one_logger
one_logger_project one_logger_run_name log_interval tensorboard_dir
)";

}  // namespace phalanx
