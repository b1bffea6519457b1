#pragma once
// Saves a run so that every rank writes what it has (checkpoint/part_writer.h), all at the same
// time. The first rank tells the others where, hears of each whether its part is on disk, and
// proves that the parts together are the run.
//
// Weights that are rounded from main parameters are not written.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/disk/kept_file.h"
#include "phalanx/rank/rank.h"
#include "phalanx/saving/gathered_tensors.h"

namespace phalanx {

class RankParts final : public CheckpointContent {
 public:
  // `save`: the save directory, in which the first rank makes a directory for the parts. `epoch` is
  // the first rank's. The engine that `make` gives writes this rank's part.
  RankParts(Rank& rank, bool with_optimizer, std::filesystem::path save, std::string epoch,
            EngineMaker make = make_engine);

  // On the first rank, for save_checkpoint(). OutputError, with the number of the rank, where one
  // cannot write its part.
  std::int64_t bytes() const override;
  void write(const std::filesystem::path& directory, Manifest& manifest,
             const std::function<void(std::string_view step)>& step) override;
  // On the first rank, after a save failed: tells the others, if they still wait.
  void give_up();

  // On all other ranks: writes the part when the first rank says so, and tells it of a failure.
  void serve();

 private:
  bool is_rounded(const ContributedTensor& tensor) const;
  Manifest::Part write_part(const std::filesystem::path& directory, const std::string& epoch);
  void send(int peer, std::string_view text);
  std::string receive(int peer);

  Rank& rank_;
  Communicator& world_;
  std::filesystem::path save_;
  std::string epoch_;
  EngineMaker make_;
  bool rounds_weights_;
  std::vector<ContributedTensor> tensors_;
  bool others_wait_ = true;
};

// Whether the reason of a failed save lies outside this program, so that a later one may succeed.
bool may_pass(const Error& error);

}  // namespace phalanx
