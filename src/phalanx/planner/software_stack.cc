#include "phalanx/planner/software_stack.h"

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {

const std::vector<SoftwareStack>& software_stacks() {
  // Megatron-LM of 2021 (arXiv 2104.04473) on fp16 gradients: its passes hide no traffic.
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
  static const std::vector<SoftwareStack> kStacks = [&] {
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
    mds.host_op = 110e-6;
    SoftwareStack nemo24 = {.name = "nemo24",
                            .title = "NeMo of 2024",
                            .tensor = TensorTraffic::kAll,
                            .keeps_outputs = true,
                            .separate_activation = true,
                            .logit_bytes = 20.0,
                            .gradient_bytes = 2.0,
                            .optimizer_bytes = 40.0};
    SoftwareStack nemo25 = nemo24;
    nemo25.name = "nemo25";
    nemo25.title = "NeMo of 2025";
    SoftwareStack mcore = nemo24;
    mcore.name = "mcore";
    mcore.title = "Megatron Core";
    mcore.gradient_bytes = 4.0;
    SoftwareStack fsdp = {.name = "fsdp",
                          .title = "PyTorch FSDP",
                          .tensor = TensorTraffic::kNothing,
                          .recomputes_whole_layers = true,
                          .keeps_outputs = true,
                          .separate_activation = true,
                          .logit_bytes = 20.0,
                          .accumulation_bytes = 6.0,
                          .gradient_bytes = 4.0,
                          .optimizer_bytes = 40.0};
    return std::vector<SoftwareStack>{kMegatron21, mlm22, mlm23, mds, nemo24, nemo25, mcore, fsdp};
  }();
  return kStacks;
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
