#pragma once
// Which part of the model every stage of a pipeline has, as a pure function of the number of layers
// and of where the pipeline is cut. A model has one stack of layers (GPT, BERT: the first stack is
// the only one) or an encoder and a decoder (T5: the first stack is the encoder). Layers of each
// stack are numbered from 0. Megatron-LM: pipeline_model_parallel_split_rank.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace phalanx {

struct StageRange {
  int stage = 0;
  // Of the first stack.
  bool has_embedding = false;
  std::int64_t first_layer = 0;
  std::int64_t num_layers = 0;
  // The encoder's final norm; a model of one stack has it in the head.
  bool has_encoder_norm = false;
  // Of the decoder, where there is one.
  bool has_decoder_embedding = false;
  std::int64_t first_decoder_layer = 0;
  std::int64_t num_decoder_layers = 0;
  bool has_head = false;

  friend bool operator==(const StageRange&, const StageRange&) = default;
};

// A model of one stack: stage s has layers[s] of them.
std::vector<StageRange> one_stack_stages(std::span<const std::int64_t> layers);

// An encoder and a decoder over a pipeline.
struct EncoderDecoderStages {
  std::int64_t encoder_layers = 0;
  std::int64_t decoder_layers = 0;
  int stages = 1;
  // The first stage of the decoder; 0: not given. A pipeline of one stage has both stacks on it,
  // whatever is given.
  int split = 0;
  // The first stage has the encoder's embedding and no layer.
  bool standalone_embedding = false;
};
// ConfigError naming the flags where the layers do not come out even, a pipeline has no split, or
// either stack has no stage left for its layers.
std::vector<StageRange> encoder_decoder_stages(const EncoderDecoderStages& request);

// "embedding, encoder layers 0..1", "layers 2..3, head": a stage's units, to be printed.
// `has_decoder`: the model has two stacks.
std::string description_of(const StageRange& range, bool has_decoder);

}  // namespace phalanx
