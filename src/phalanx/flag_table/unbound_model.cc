#include "phalanx/flag_table/reasons.h"
#include "phalanx/flag_table/sections.h"
#include "phalanx/flag_table/unbound.h"

namespace phalanx {
namespace {

using enum FlagType;

constexpr Refusal kActivation = {
    "its sigmoid form of GeLU is not available in this version of Phalanx; --gated-linear-unit "
    "with --activation-func gelu gates by GeLU's tanh form"};
constexpr std::string_view kOneExpertOp =
    "the products of all experts of a layer are always one operation";
constexpr Absence kLatent = {"nothing depends on it without multi-latent attention",
                             {"multi-latent attention is not available in this version of Phalanx; "
                              "--group-query-attention shrinks keys and values too"}};
constexpr Absence kPrediction = {
    "nothing depends on it without layers that predict further tokens",
    {"every position predicts the next token alone in this version of Phalanx; leave the flag "
     "out"}};
constexpr Absence kEightBits = {
    "nothing depends on it without 8-bit products",
    {"products of 8-bit numbers are not available in this version of Phalanx; give --bf16"}};
constexpr std::string_view kOneGpt = "there is one implementation of a GPT";
constexpr std::string_view kOneCrossEntropy =
    "the cross entropy and its gradient are always one kernel, in fp32";
constexpr std::string_view kRoundsAlike =
    "a fused kernel rounds where its parts would, so no number depends on it";
constexpr Refusal kSmallStates = {
    "main parameters, gradients and moments are always fp32; leave the flag out"};

constexpr TrainFlag with_excludes(std::string_view excludes, TrainFlag row) {
  row.spec.excludes = excludes;
  return row;
}

constexpr TrainFlag kUnboundModelRows[] = {
    refused(kNetwork, "--padded-vocab-size", kInteger,
            {"the vocabulary is padded to a multiple of --make-vocab-size-divisible-by x "
             "--tensor-model-parallel-size; choose these"}),
    refused(kNetwork, "--apply-residual-connection-post-layernorm", kSwitch,
            {"the residual is always what the norm reads, not what it writes; leave the flag out"}),
    with_excludes("--no-bias-gelu-fusion", satisfied(kNetwork, "--openai-gelu", kSwitch,
                                                     "GeLU is computed in the tanh form")),
    refused(kNetwork, "--onnx-safe", kSwitch,
            {"models are not exported to ONNX; for the exact (erf) GeLU give "
             "--no-bias-gelu-fusion",
             kSamePlan}),
    refused(kNetwork, "--quick-geglu", kSwitch, kActivation),
    refused(
        kNetwork, "--init-method-xavier-uniform", kSwitch,
        {"weights are drawn from a normal distribution; choose its --init-method-std", kSamePlan}),
    refused(kNetwork, "--embedding-init-method-std", kReal,
            {"the embedding is drawn with --init-method-std like all weights", kSamePlan}),
    satisfied(kNetwork, "--use-cpu-initialization", kSwitch,
              "initial weights depend on the seed alone, whatever device or layout"),
    with_yaml_keys("!perform_initialization",
                   satisfied(kNetwork, "--no-initialization", kSwitch,
                             "weights that come from a checkpoint are not drawn first")),

    satisfied_by("local transformer_engine", kNetwork, "--transformer-impl", kText,
                 "layers run on Phalanx's own kernels",
                 {"layers run on Phalanx's own kernels, not on another library; leave the flag out",
                  kSamePlan}),
    satisfied(kNetwork, "--use-mcore-models", kSwitch, kOneGpt),
    passed_over(kNetwork, "--use-legacy-models", kSwitch, kOneGpt),
    refused(kNetwork, "--spec", kList,
            {"it names a Python module with the layers of a model; there is no Python here"}),
    {.section = kNetwork,
     .spec = {.name = "--use-flash-attn",
              .help = "The same as --attention-backend fused",
              .stands_for = "--attention-backend fused",
              .is_old = true}},

    with_yaml_keys(
        "!masked_softmax_fusion",
        satisfied(kNetwork, "--no-masked-softmax-fusion", kSwitch,
                  "attention has the same softmax fused or not (--attention-backend chooses)")),
    with_yaml_keys("!bias_swiglu_fusion",
                   satisfied(kNetwork, "--no-bias-swiglu-fusion", kSwitch, kRoundsAlike)),
    with_yaml_keys("!bias_dropout_fusion",
                   satisfied(kNetwork, "--no-bias-dropout-fusion", kSwitch, kRoundsAlike)),
    with_yaml_keys("!apply_rope_fusion",
                   satisfied(kNetwork, "--no-rope-fusion", kSwitch, kRoundsAlike)),
    with_yaml_keys("!persist_layer_norm",
                   satisfied(kNetwork, "--no-persist-layer-norm", kSwitch,
                             "it chooses between kernels of one norm; here there is one kernel")),
    passed_over(kNetwork, "--disable-jit-fuser", kSwitch, kRoundsAlike),
    passed_over(kNetwork, "--use-transformer-engine-op-fuser", kSwitch, kRoundsAlike),
    satisfied(kNetwork, "--memory-efficient-layer-norm", kSwitch,
              "the output of a norm is never saved for backward"),
    satisfied(kNetwork, "--cross-entropy-loss-fusion", kSwitch, kOneCrossEntropy),
    satisfied(kNetwork, "--clone-scatter-output-in-embedding", kSwitch,
              "no tensor keeps a larger one alive: all have planned places"),
    satisfied_by("native te", kNetwork, "--cross-entropy-fusion-impl", kText, kOneCrossEntropy,
                 {"the cross entropy has one implementation; leave the flag out", kSamePlan}),

    passed_over(kExperts, "--moe-shared-expert-overlap", kSwitch,
                "the shared expert and the others give the same numbers in any order"),
    satisfied(kExperts, "--moe-grouped-gemm", kSwitch, kOneExpertOp),
    satisfied(kExperts, "--moe-use-legacy-grouped-gemm", kSwitch, kOneExpertOp),
    satisfied(kExperts, "--moe-permute-fusion", kSwitch,
              "tokens are sorted by expert with no copy between"),
    satisfied(kExperts, "--moe-router-fusion", kSwitch,
              "a router's choice and its probabilities are always one operation"),
    refused(kExperts, "--moe-layer-recompute", kSwitch,
            {"layers are recomputed whole; give --recompute-granularity full"}),
    refused(kExperts, "--moe-extended-tp", kSwitch,
            {"an expert is whole on every rank; give --expert-tensor-parallel-size 1"}),
    satisfied_by("fp32", kExperts, "--moe-router-dtype", kText,
                 "the product of a router is always in fp32",
                 {"the product of a router is always in fp32; leave the flag out", kSamePlan}),
    refused(kExperts, "--moe-token-dropping", kSwitch,
            {"tokens are dropped by --moe-expert-capacity-factor; give its factor"}),
    refused(kExperts, "--moe-apply-probs-on-input", kSwitch,
            {"probabilities multiply what an expert's second linear reads; leave the flag out"}),

    refused(kNetwork, "--multi-latent-attention", kSwitch, kLatent.refusal),
    refused(kNetwork, "--q-lora-rank", kInteger, kLatent.refusal),
    only_default("32", kNetwork, "--kv-lora-rank", kInteger, kLatent),
    only_default("128", kNetwork, "--qk-head-dim", kInteger, kLatent),
    only_default("64", kNetwork, "--qk-pos-emb-head-dim", kInteger, kLatent),
    only_default("128", kNetwork, "--v-head-dim", kInteger, kLatent),
    refused(kNetwork, "--mtp-num-layers", kInteger, kPrediction.refusal),
    only_default("0.1", kNetwork, "--mtp-loss-scaling-factor", kReal, kPrediction),

    satisfied(kPrecision, "--accumulate-allreduce-grads-in-fp32", kSwitch,
              "main gradients are always fp32, and summed in fp32"),
    with_yaml_keys("!gradient_accumulation_fusion",
                   satisfied(kPrecision, "--no-gradient-accumulation-fusion", kSwitch,
                             "weight gradients are added to the fp32 main gradients with no "
                             "rounding between, fused or not")),
    refused(kPrecision, "--grad-reduce-in-bf16", kSwitch,
            {"gradients are always summed in fp32; leave the flag out"}),
    refused(kPrecision, "--apply-query-key-layer-scaling", kSwitch,
            {"attention scores are fp32 and cannot overflow, so they are not scaled by the layer's "
             "number; leave the flag out",
             kSamePlan}),
    satisfied(kPrecision, "--no-query-key-layer-scaling", kSwitch,
              "attention scores are never scaled by the layer's number"),
    satisfied(kPrecision, "--attention-softmax-in-fp32", kSwitch,
              "the softmax of attention is always computed in fp32"),
    refused(kPrecision, "--enable-autocast", kSwitch,
            {"every tensor has the type that --bf16 or --fp16 gives it; leave the flag out",
             kSamePlan}),
    refused(kPrecision, "--fp16-lm-cross-entropy", kSwitch,
            {"the cross entropy is always computed in fp32; leave the flag out", kSamePlan}),
    with_yaml_keys("fp8", refused(kPrecision, "--fp8-format", kText, kEightBits.refusal)),
    refused(kPrecision, "--fp8-e4m3", kSwitch, kEightBits.refusal),
    refused(kPrecision, "--fp8-hybrid", kSwitch, kEightBits.refusal),
    only_default("delayed", kPrecision, "--fp8-recipe", kText, kEightBits),
    only_default("0", kPrecision, "--fp8-margin", kInteger, kEightBits),
    only_default("1", kPrecision, "--fp8-interval", kInteger, kEightBits),
    only_default("1", kPrecision, "--fp8-amax-history-len", kInteger, kEightBits),
    only_default("most_recent", kPrecision, "--fp8-amax-compute-algo", kText, kEightBits),
    with_yaml_keys("!fp8_wgrad", satisfied(kPrecision, "--no-fp8-wgrad", kSwitch,
                                           "no weight gradient is computed from 8-bit numbers")),
    refused(kPrecision, "--fp8-param-gather", kSwitch, kEightBits.refusal),
    satisfied(kPrecision, "--use-precision-aware-optimizer", kSwitch,
              "its states have the dtypes that other flags give, and these are fp32"),
    satisfied_by("fp32", kPrecision, "--main-grads-dtype", kText, kFp32States, kSmallStates),
    satisfied_by("fp32", kPrecision, "--main-params-dtype", kText, kFp32States, kSmallStates),
    satisfied_by("fp32", kPrecision, "--exp-avg-dtype", kText, kFp32States, kSmallStates),
    satisfied_by("fp32", kPrecision, "--exp-avg-sq-dtype", kText, kFp32States, kSmallStates),
};

}  // namespace

std::span<const TrainFlag> unbound_model_flags() { return kUnboundModelRows; }

}  // namespace phalanx
