#pragma once
// What a rank fills from a checkpoint: its own part of weights, main parameters and optimizer
// states, in memory or in files, and all weights that it does not train. Other ranks' weights are
// gathered afterwards.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/rank/rank.h"
#include "phalanx/saving/load_plan.h"
#include "phalanx/saving/state_loader.h"

namespace phalanx {

class LoadTargets {
 public:
  // ConfigError where the checkpoint does not have what the model asks for. All arguments must
  // outlive this.
  LoadTargets(const CheckpointReader& reader, Rank& rank, const LoadOptions& options);
  LoadTargets(const LoadTargets&) = delete;
  LoadTargets& operator=(const LoadTargets&) = delete;

  // The stored tensors that all ranks together need: the same on every rank.
  const std::vector<const Manifest::Entry*>& wanted() const { return wanted_; }
  // The number in the whole model of a wanted tensor's parameter.
  int parameter_of(const Manifest::Entry& entry) const { return parameters_.at(&entry); }
  // What this rank needs of every parameter: of its shard by ParamId, then by position; then the
  // parameters that are not trained.
  std::vector<NeededBox> needs() const;

  // Fills what it needs from a part of a wanted tensor, row-major.
  void fill(const Manifest::Entry& stored, const MatrixBox& box, std::span<const std::byte> bytes);
  // To be called when all is filled: writes what is still on its way to files.
  void finish();

 private:
  struct Target {
    GlobalTensor part;  // without memory where it lies in a file
    const Manifest::Entry* read_as = nullptr;
    const TileFile* file = nullptr;
    Segment segment;
    double factor = 1.0;  // of the stored values
  };
  // A tile of a file in memory, while it is filled.
  struct OpenTile {
    int tile = 0;
    Tensor elements;
    std::size_t turn = 0;
  };
  using InMemory = std::function<Tensor(const Segment&)>;
  void add(std::string_view prefix, bool is_weight, DTypeMatch match, std::string_view read_prefix,
           const TileFile* file, const InMemory& in_memory);
  // The part of a dense parameter that is wanted as this parameter.
  std::optional<DensePart> dense_part(const ParamSpec& spec) const {
    return options_.upcycling == nullptr ? std::nullopt : options_.upcycling->part_of(spec);
  }
  // Values of `dtype` times a factor, in full precision, which becomes `dtype`.
  std::span<const std::byte> scaled(double factor, std::span<const std::byte> values, DType& dtype);
  Tensor elements_of(const Target& target);
  void close(const TileFile& file, const OpenTile& open);

  const CheckpointReader& reader_;
  Rank& rank_;
  const LoadOptions& options_;
  // Of parameters, in the whole model. Those that are made of one dense parameter have one number.
  std::map<std::string_view, int> numbers_;
  std::vector<const Manifest::Entry*> wanted_;
  std::map<const Manifest::Entry*, int> parameters_;
  std::map<const Manifest::Entry*, std::vector<Target>> targets_;
  std::map<const TileFile*, OpenTile> open_;
  std::size_t turn_ = 0;
  std::vector<std::byte> rounded_, scaled_;
};

}  // namespace phalanx
