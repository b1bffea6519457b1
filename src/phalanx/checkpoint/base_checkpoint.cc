#include "phalanx/checkpoint/base_checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/working_directory.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/tensor_source.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

// Of the bytes of a weight: from the manifest, if it has one.
std::uint64_t digest_of(const CheckpointReader& reader, const Manifest::Entry& entry) {
  if (!entry.file.empty()) return entry.xxh3;
  Xxh3 hash;
  reader.visit(entry, [&](std::span<const std::byte> bytes) { hash.update(bytes); });
  return hash.digest();
}

}  // namespace

std::uint64_t digest_of_weights(const CheckpointReader& reader) {
  std::vector<const Manifest::Entry*> weights;
  for (const Manifest::Entry& entry : reader.manifest().tensors) {
    if (!entry.name.starts_with(kOptimizerPrefix)) weights.push_back(&entry);
  }
  std::ranges::sort(weights, {}, [](const Manifest::Entry* entry) { return entry->name; });
  std::string text;
  for (const Manifest::Entry* entry : weights) {
    text += fmt::format("{} {} {} {}\n", entry->name, name_of(entry->dtype),
                        entry->shape.to_string(), digest_to_text(digest_of(reader, *entry)));
  }
  return xxh3(text);
}

std::uint64_t digest_of_manifest_text(const CheckpointReader& reader) {
  return xxh3(reader.content_of(kManifestName));
}

Manifest::Base describe_base(const CheckpointReader& base) {
  if (base.manifest().base) {
    throw ConfigError(
        "{}: has adapters alone, so it is no base for others: give their base, or a checkpoint "
        "that "
        "export hf --merge-lora and import hf have made of both",
        base.place());
  }
  return {.path = recorded_path(base.directory()),
          .weights_xxh3 = digest_of_weights(base),
          .manifest_xxh3 = digest_of_manifest_text(base)};
}

fs::path base_directory(const CheckpointReader& reader, const fs::path& elsewhere) {
  if (!elsewhere.empty()) return elsewhere;
  const fs::path named = reader.manifest().base->path;
  return named.is_absolute() ? named : (reader.directory() / named).lexically_normal();
}

void join_base(CheckpointReader& reader, const fs::path& elsewhere, Verify verify, bool verifies) {
  const auto& said = reader.manifest().base;
  if (!said) return;
  const fs::path directory = base_directory(reader, elsewhere);
  std::error_code error;
  if (!fs::exists(directory, error)) {
    throw InputMissingError(
        "{}: has adapters alone, and their base {} is not there: say with --lora-base where it is",
        reader.place(), directory.string());
  }
  // The states of its optimizer are not read.
  const Verify weights = verify == Verify::kYes      ? Verify::kWeights
                         : verify == Verify::kCopies ? Verify::kCopiesOfWeights
                                                     : verify;
  auto base = std::make_shared<const CheckpointReader>(CheckpointReader::open(directory, weights));
  if (base->manifest().base) {
    throw ConfigError("{}: has adapters alone, so it is not the base of {}", base->place(),
                      reader.place());
  }
  if (verifies && digest_of_manifest_text(*base) != said->manifest_xxh3) {
    if (const std::uint64_t digest = digest_of_weights(*base); digest != said->weights_xxh3) {
      throw ConfigError(
          "{}: the digest of its weights is {}, that of the base of {} is {}: it is another model; "
          "say with --lora-base where the base is",
          base->place(), digest_to_text(digest), reader.place(),
          digest_to_text(said->weights_xxh3));
    }
  }
  reader.lay_under(std::move(base));
}

CheckpointReader open_with_base(const fs::path& directory, Verify verify,
                                const fs::path& elsewhere) {
  CheckpointReader reader = CheckpointReader::open(directory, verify);
  join_base(reader, elsewhere, verify);
  return reader;
}

}  // namespace phalanx
