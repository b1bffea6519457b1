#pragma once
// A picture of saves under training steps: for each way to save a lane with the steps of one rank,
// where they stand for the save, and below it how long the save goes on.

#include <span>
#include <string>
#include <vector>

namespace phalanx::bench {

struct SaveLane {
  struct Span {
    double begin = 0;  // seconds
    double end = 0;
  };
  std::string name;
  std::vector<Span> steps;
  std::vector<Span> stands;  // for a save; those within steps are drawn over them
  std::vector<Span> saves;   // from its beginning until the checkpoint is in its place
};

// An SVG document; all lanes have the same axis of time.
std::string save_picture(std::span<const SaveLane> lanes);

}  // namespace phalanx::bench
