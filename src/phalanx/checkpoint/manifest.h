#pragma once
// The manifest of a checkpoint: the state of the run besides its tensors, and the digests of all
// other files. It is written last and ends with a digest of itself, so a damaged checkpoint is
// noticed.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/base/dtype.h"
#include "phalanx/base/shape.h"

namespace phalanx {

inline constexpr std::string_view kManifestFormat = "phalanx-checkpoint";
// Version 1 has no run id, no start and no copies of input files; version 2 has no data blocks;
// version 3 has whole tensors in safetensors files, version 4 parts that each rank wrote; version 5
// has either, and is of a part of a model: a base has the other weights. All are read; 3 is written
// where data blocks are known, 2 otherwise, 4 if there are parts, 5 if there is a base.
inline constexpr std::int64_t kManifestVersion = 5;

struct Manifest {
  // Updates so far, and the loss scaler's state (float16; else scale 1).
  struct Optimizer {
    std::int64_t adam_step = 0;  // updates, of any optimizer
    double loss_scale = 1;
    std::int64_t clean_steps = 0;  // since the scale last changed
    std::int64_t hysteresis = 0;   // overflows left before the scale is halved
    // Position of the learning-rate and weight-decay schedules, in samples.
    std::int64_t schedule_steps = 0;
    friend bool operator==(const Optimizer&, const Optimizer&) = default;
  };
  // The numbers of samples that the dataset indices were built for; other numbers give another
  // order.
  struct SampleCounts {
    std::int64_t train = 0;
    std::int64_t valid = 0;
    std::int64_t test = 0;
    friend bool operator==(const SampleCounts&, const SampleCounts&) = default;
  };
  // A file that the run read and that must not change: a tokenizer's file, a dataset.
  struct InputFile {
    std::string flag;  // "--vocab-file"
    std::string path;
    std::int64_t bytes = 0;
    std::optional<std::uint64_t> xxh3;  // empty: too large to be read as a whole (a .bin)
    std::string copy;  // its name in this checkpoint ("vocab.json"); "": not copied
    friend bool operator==(const InputFile&, const InputFile&) = default;
  };
  // The digests of the first blocks of an input file that is too large to be read at once: of all
  // blocks, if the run has had the time.
  struct DataBlocks {
    std::string flag;
    std::string path;
    std::int64_t bytes = 0;        // bytes of the file
    std::int64_t block_bytes = 0;  // bytes of a block; the last one may be shorter
    std::vector<std::uint64_t> xxh3;
    friend bool operator==(const DataBlocks&, const DataBlocks&) = default;
  };
  struct File {
    std::string name;
    std::int64_t bytes = 0;
    std::uint64_t xxh3 = 0;
    friend bool operator==(const File&, const File&) = default;
  };
  struct Entry {
    std::string name;
    DType dtype = DType::kF32;
    Shape shape;             // global, without padding
    std::string file;        // that has it; "": parts have it
    std::uint64_t xxh3 = 0;  // of the row-major little-endian bytes; 0 in parts
    // Only with parts: this tensor is not stored, its values are those of another one, rounded.
    std::string rounded_from = {};
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  // The part of a rank (part_index.h).
  struct Part {
    std::int64_t rank = 0;
    std::int64_t bytes = 0;  // of the data
    std::int64_t index_bytes = 0;
    std::uint64_t index_xxh3 = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };

  // The checkpoint that has the weights which this one lacks: those that the run did not train.
  struct Base {
    std::string path;  // its directory, absolute, or relative to the directory of this checkpoint
    std::uint64_t weights_xxh3 = 0;   // digest_of_weights(): the same in whatever files they are
    std::uint64_t manifest_xxh3 = 0;  // of its manifest: where that is the same, so are the weights
    friend bool operator==(const Base&, const Base&) = default;
  };

  std::string phalanx_version;
  // The run that wrote it, and the number of its start. A start gets a higher number than all
  // checkpoints in its save directory, so (start, iteration) orders them by time.
  std::string run_id;      // 32 hexadecimal digits; "" in version 1 and for imported models
  std::int64_t start = 0;  // from 1; 0 in version 1 and for imported models
  std::int64_t iteration = 0;
  std::int64_t consumed_train_samples = 0;
  std::int64_t consumed_valid_samples = 0;
  Optimizer optimizer;
  SampleCounts requested_samples;
  // "fp32", "bf16", "amx2"; "auto": nothing was computed yet; "amx": a family that was given up.
  std::string matmul_precision = "auto";
  std::int64_t threads_per_rank = 0;  // 0: nothing was computed yet
  std::uint64_t seed = 0;
  std::map<std::string, std::string> arguments;  // flag -> value
  std::vector<InputFile> input_files;
  std::vector<DataBlocks> data_blocks;
  std::optional<Base> base;
  // The writer fills in these.
  std::vector<File> files;  // of tensors, unless there are parts, and copies of input files
  std::vector<Entry> tensors;
  std::string epoch;  // of the save, if there are parts: each of them names it
  std::vector<Part> parts;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::string manifest_to_json(const Manifest& manifest);

// Reads and checks a manifest: DataError names `path` and the field; ConfigError for an unknown
// format version.
Manifest parse_manifest(std::string_view text, const std::string& path);
Manifest read_manifest(const std::filesystem::path& path);

// `text` with its digest computed anew: for tools that edit a manifest.
std::string seal_manifest(std::string_view text);

}  // namespace phalanx
