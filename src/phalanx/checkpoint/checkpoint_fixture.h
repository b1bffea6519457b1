#pragma once
// A save directory with checkpoints of a tiny model, for the tests of writer and reader together.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "phalanx/base/log.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/checkpoint/test_support.h"

namespace phalanx::testing_support {

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() { set_log_level(LogLevel::kError); }
  ~CheckpointTest() override { set_log_level(LogLevel::kInfo); }

  std::filesystem::path save() const { return directory_.path() / "save"; }
  // Of the first start of a run.
  std::filesystem::path save_at(std::int64_t iteration, float base = 0, int keep_last = 3) const {
    return save_in_start(1, iteration, base, keep_last);
  }
  std::filesystem::path save_in_start(std::int64_t start, std::int64_t iteration, float base = 0,
                                      int keep_last = 3) const {
    Manifest manifest = example_manifest(iteration);
    manifest.start = start;
    return save_checkpoint({.directory = save(), .retention = {.keep_last = keep_last}},
                           std::move(manifest), TinyModel(base).all());
  }
  // The base that the model of the latest checkpoint was made with.
  float latest_base() const {
    Arena arena("loaded", 4096);
    const auto target =
        whole_tensor("embedding.word_embeddings.weight", arena.allocate(DType::kF32, {5, 4}));
    CheckpointReader::open(save()).read(target);
    return target.local.span<float>()[0];
  }
  std::vector<std::int64_t> iterations() const {
    std::vector<std::int64_t> iterations;
    for (const auto& checkpoint : saved_checkpoints(save())) {
      iterations.push_back(checkpoint.iteration);
    }
    return iterations;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(save())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  TemporaryDirectory directory_{"checkpoint"};
};

// The action's lines of warnings on standard error.
template <typename Action>
std::string warnings_of(Action action) {
  set_log_level(LogLevel::kWarning);
  testing::internal::CaptureStderr();
  action();
  set_log_level(LogLevel::kError);
  return testing::internal::GetCapturedStderr();
}

}  // namespace phalanx::testing_support
