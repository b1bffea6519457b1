#pragma once
// What other software does in a step that Phalanx does otherwise: facts by which the published
// steps of that software are predicted. Without one the program is Phalanx's.

#include <cstdint>
#include <string_view>
#include <vector>

namespace phalanx {

// What tensor-parallel traffic is hidden under.
enum class TensorTraffic : std::uint8_t {
  kAsPhalanx,
  kNothing,         // every message is waited for where it begins
  kWeightGradient,  // in backward passes the weight gradient of the same linear
  kAll,  // products beside it, forward, too, cut into pieces: the share x_tp of a cluster is
         // exposed
};

struct SoftwareStack {
  std::string_view name = "phalanx";  // "mlm22"
  std::string_view title = "Phalanx";

  TensorTraffic tensor = TensorTraffic::kAsPhalanx;
  bool hides_data = true;      // data-parallel traffic under passes; else it follows them
  bool hides_pipeline = true;  // a message to the next stage under the sender's next pass
  // A message between stages is cut among the ranks of a tensor-parallel group, which gather it.
  bool cuts_messages = true;
  // A recomputed layer is computed to its end, too: Phalanx leaves out what no gradient needs.
  bool recomputes_whole_layers = false;
  // Norms' and activations' outputs are kept for weight gradients; Phalanx computes them again.
  bool keeps_outputs = false;
  // The activation function of an MLP is an op of its own; Phalanx's products end with it.
  bool separate_activation = false;
  // All logits at once, and so many bytes moved for each by the loss and its gradient; 0: as
  // Phalanx.
  double logit_bytes = 0.0;
  // Moved for each gradient and microbatch where products do not add to the sum themselves.
  double accumulation_bytes = 0.0;
  double gradient_bytes = 4.0;    // of a gradient in messages
  double optimizer_bytes = 30.0;  // moved for each parameter that is updated
  double attention = 1.0;         // fused attention takes so many times as long
  double host_op =
      0.0;  // seconds of the host for what is an op of Phalanx; 0: as the device has it
};

// Those that are known.
inline constexpr std::string_view kSoftwareStackNames =
    "mlm21 mlm22 mlm23 mds nemo24 nemo25 mcore fsdp";
const std::vector<SoftwareStack>& software_stacks();
// ConfigError that lists the names, if there is none such.
const SoftwareStack& software_stack(std::string_view name);

}  // namespace phalanx
