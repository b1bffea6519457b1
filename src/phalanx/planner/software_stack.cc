#include "phalanx/planner/software_stack.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {

const std::vector<SoftwareStack>& software_stacks() {
  // Megatron-LM of 2021 (arXiv 2104.04473): its passes hide no traffic; gradients are in 16 bits
  // with fp16 and in fp32 with bf16. The loss makes an fp32 copy of the logits, and passes over it
  // for the maximum, the exponentials, their sum, the quotients and the gradient. A gradient is
  // added to its sum by an op of its own: two numbers of 16 bits are read, one is written. The
  // optimizer copies gradients to fp32, unscales them, takes their norm, clips and updates.
  constexpr SoftwareStack kMegatron21 = {.name = "mlm21",
                                         .title = "Megatron-LM of 2021",
                                         .tensor = TensorTraffic::kNothing,
                                         .hides_data = false,
                                         .hides_pipeline = false,
                                         .recomputes_whole_layers = true,
                                         .keeps_outputs = true,
                                         .separate_activation = true,
                                         .logit_bytes = 50.0,
                                         .accumulation_bytes = 6.0,
                                         .gradient_bytes = 2.0,
                                         .optimizer_bytes = 60.0};
  static const std::vector<SoftwareStack> stacks = [&] {
    // Of 2022 (arXiv 2205.05198): products add weight gradients to their sums themselves.
    SoftwareStack mlm22 = kMegatron21;
    mlm22.name = "mlm22";
    mlm22.title = "Megatron-LM of 2022";
    mlm22.tensor = TensorTraffic::kWeightGradient;
    mlm22.accumulation_bytes = 0.0;
    SoftwareStack mlm23 = mlm22;
    mlm23.name = "mlm23";
    mlm23.title = "Megatron-LM of 2023";
    mlm23.hides_pipeline = true;
    SoftwareStack mds = kMegatron21;
    mds.name = "mds";
    mds.title = "Megatron-DeepSpeed";
    mds.host_op = 110e-6;  // fitted to vTrain's small models: 3.5 ms of the host a layer
    // --tp-comm-overlap, distributed optimizer with bf16 gradients, fused loss.
    SoftwareStack nemo24 = {.name = "nemo24",
                            .title = "NeMo of 2024",
                            .tensor = TensorTraffic::kAll,
                            .keeps_outputs = true,
                            .separate_activation = true,
                            .logit_bytes = 20.0,
                            .gradient_bytes = 2.0,
                            .bf16_gradient_bytes = 2.0,
                            .optimizer_bytes = 40.0};
    SoftwareStack nemo25 = nemo24;
    nemo25.name = "nemo25";
    nemo25.title = "NeMo of 2025";
    SoftwareStack mcore = nemo24;
    mcore.name = "mcore";
    mcore.title = "Megatron Core";
    mcore.gradient_bytes = 4.0;
    mcore.bf16_gradient_bytes = 4.0;
    // Its attention is fitted to MosaicML's long sequences: a third of the peak of A100, a fifth of
    // H100's.
    SoftwareStack fsdp = {.name = "fsdp",
                          .title = "PyTorch FSDP",
                          .tensor = TensorTraffic::kNothing,
                          .recomputes_whole_layers = true,
                          .keeps_outputs = true,
                          .separate_activation = true,
                          .logit_bytes = 20.0,
                          .accumulation_bytes = 6.0,
                          .gradient_bytes = 4.0,
                          .optimizer_bytes = 40.0,
                          .attention = 1.6,
                          .attention_with_fp8 = 2.7};
    return std::vector<SoftwareStack>{kMegatron21, mlm22, mlm23, mds, nemo24, nemo25, mcore, fsdp};
  }();
  return stacks;
}

const SoftwareStack& software_stack(std::string_view name) {
  const std::vector<SoftwareStack>& stacks = software_stacks();
  const auto found = std::ranges::find(stacks, name, &SoftwareStack::name);
  if (found == stacks.end()) {
    throw ConfigError("--stack {} is not known: it must be one of {}", name, kSoftwareStackNames);
  }
  return *found;
}

}  // namespace phalanx
