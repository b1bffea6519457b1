#pragma once
// What the matrix varies: how a tiny model is laid out over ranks, and which model it is.

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "phalanx/settings/train_config.h"

namespace phalanx {

enum class Overlap : std::uint8_t { kNone, kReduce, kReduceAndGather };
enum class Recompute : std::uint8_t {
  kNone,
  kSelective,
  kUniform1,
  kUniform2,
  kBlock2,
  kDistributed,  // uniform groups of 2, their inputs distributed
};
// Which states lie in files; kHalf: half of the optimizer's, and weights at stage 3.
enum class Files : std::uint8_t { kNone, kOptimizer, kParameters, kBoth, kHalf };
enum class StorageType : std::uint8_t { kF32, kBF16, kBF16ResidualF32, kF16, kF16ResidualF32 };

// What data-parallel ranks share of their states.
struct Sharding {
  int stage = 0;                      // of ZeRO
  int copies = 1;                     // of what is shared, each of its own ranks
  bool accumulate_unsharded = false;  // stages 2 and 3
  // Stage 3:
  int prefetch = 1;
  std::int64_t stays_below = 0;  // elements of parameters that stay
  bool reshard = true;
};

struct Layout {
  // Over ranks.
  int tensor = 1;
  int data = 1;
  int pipeline = 1;
  int context = 1;
  std::string exchange = "p2p";  // of a context
  int heads_of_exchange = 1;     // of a2a+p2p: the ranks of its first level
  bool cuts_documents = false;   // of a context: where samples are cut
  std::string schedule = {};     // empty: the default
  int chunks = 0;                // of a rank; 0: as the schedule wants
  bool sequence_parallel = false;
  Sharding zero = {};
  Files files = Files::kNone;
  Overlap overlap = Overlap::kNone;
  bool small_buckets = false;
  Recompute recompute = Recompute::kNone;
  bool async_reduce = true;
  // The model and its batches: what the run on one rank has too.
  int layers = 3;
  int micro_batch = 1;
  bool fused_attention = true;
  StorageType storage = StorageType::kF32;
  std::string products = "fp32";  // of bf16: --matmul-precision
  bool tied = true;
  bool mean_of_means = false;  // --loss-average microbatch
  int groups = 0;              // of the 4 heads; 0: each is one
  std::string family = "gpt";  // or "llama", which is one with what Llama's recipe says
  bool qkv_extras = false;     // of a Llama: bias of linear_qkv, norms of queries and keys
  bool binary_head = true;     // of a BERT
  bool documents = false;      // of a GPT: samples are three documents and padding
  // Of a T5, whose encoder has `layers`:
  int decoder_layers = 0;
  int split = 0;  // the decoder's first stage
  bool relative_positions = false;
  std::string trainable = {};  // one expression of --trainable, and one of --freeze
  std::string freeze = {};
  std::string adapters = {};  // targets of --lora-targets, with blanks between them; rank 2
  double adapter_dropout = 0.0;
  int experts = 0;          // of each layer; 0: it has none. Each token chooses two
  int expert_parallel = 1;  // over ranks: --expert-model-parallel-size
  int expert_tensor = 1;    // --expert-tensor-parallel-size
  // Tokens travel to the ranks of their experts alone, in rounds of --moe-planned-imbalance; 0: all
  // tokens to all ranks.
  double planned_imbalance = 0.0;
};

// "t2 sp d4 zero3 x2 ... b2 fused bf16 tied".
std::string name_of(const Layout& layout);
inline std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << name_of(layout);
}

// The same model and batches on one rank, with nothing else turned on.
Layout on_one_rank(const Layout& layout);
// The same ranks; of what must not change a bit, nothing. What does: sums over ranks that are added
// microbatch by microbatch, and sums over copies of sums over ranks.
Layout without_bitwise_features(const Layout& layout);

// 72, 80 or 96 with padding: of four ranks one has nothing else.
inline constexpr std::int64_t kVocabulary = 67;
inline constexpr std::int64_t kGlobalBatch = 16;
inline constexpr std::int64_t kSequence = 16;
inline constexpr std::int64_t kDecoderSequence = 8;

// Where files of states go: one directory for a process, which is there while a training runs.
std::string state_directory();

// The settings, as given on a command line.
TrainConfig config_of(const Layout& layout);
// Resolved; nothing where resolve() refuses the combination or turns a part of it off.
std::optional<TrainConfig> legal_config(const Layout& layout);

// Layouts of this many tensor- and data-parallel ranks, with and without a pipeline, of up to eight
// ranks together: pairwise covering sets of everything, or, at night, products of what is laid out
// over ranks, each with the next of the models.
std::vector<Layout> layouts_of_world(int tensor, int data, bool nightly);
// What layouts_of_world() chooses from by day.
std::vector<Layout> covering_layouts();

}  // namespace phalanx
