// The tensors of checkpoints.

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/checkpoint/safetensors.h"
#include "phalanx/library/answer.h"
#include "phalanx/library/handle.h"
#include "phalanx/library/request.h"

struct phalanx_checkpoint {
  std::optional<phalanx::CheckpointReader> reader;
  std::map<std::string, phalanx::MappedSafetensors> files;  // that were asked for
  std::map<std::string, std::vector<std::byte>> tensors;    // that were put together of parts
  std::set<std::string, std::less<>> verified;  // tensors whose bytes are the manifest's
};

namespace phalanx {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Manifest::Entry& entry) {
  return {{"dtype", name_of(entry.dtype)},
          {"shape", std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end())}};
}

std::string describe(const CheckpointReader& reader) {
  const Manifest& manifest = reader.manifest();
  Json tensors = Json::object();
  for (const Manifest::Entry& entry : manifest.tensors) tensors[entry.name] = json_of(entry);
  // As it is in the file, without what the answer has anyway.
  Json stored = Json::parse(manifest_to_json(manifest));
  stored.erase("tensors");
  const Json json = {{"directory", reader.directory().string()},
                     {"iteration", manifest.iteration},
                     {"tensors", std::move(tensors)},
                     {"manifest", std::move(stored)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Maps the tensor's file when it is asked for first. One that lies in parts is read into memory.
std::span<const std::byte> bytes_of(phalanx_checkpoint& checkpoint, const Manifest::Entry& entry) {
  if (!checkpoint.reader->manifest().parts.empty()) {
    const auto [tensor, is_first] = checkpoint.tensors.try_emplace(entry.name);
    std::vector<std::byte>& all = tensor->second;
    if (is_first) {
      // Each block is verified when it is read.
      checkpoint.reader->visit(entry, [&](std::span<const std::byte> bytes) {
        all.insert(all.end(), bytes.begin(), bytes.end());
      });
    }
    return all;
  }
  const auto [file, is_new] =
      checkpoint.files.try_emplace(entry.file, checkpoint.reader->directory() / entry.file);
  return file->second.bytes(*file->second.find(entry.name));
}

// The bytes are compared with the manifest when they are asked for first.
void verify(phalanx_checkpoint& checkpoint, const Manifest::Entry& entry,
            std::span<const std::byte> bytes) {
  if (entry.file.empty() || checkpoint.verified.contains(entry.name)) return;
  if (xxh3(bytes) != entry.xxh3) {
    throw DataError("{}: tensor {} is damaged: its digest is not the manifest's",
                    (checkpoint.reader->directory() / entry.file).string(), entry.name);
  }
  checkpoint.verified.insert(entry.name);
}

}  // namespace
}  // namespace phalanx

extern "C" {

phalanx_answer* phalanx_checkpoint_open(const char* directory, phalanx_checkpoint** checkpoint) {
  return phalanx::open_handle<phalanx_checkpoint>(checkpoint, "the checkpoint", [&](auto& opened) {
    opened.reader = phalanx::CheckpointReader::open(phalanx::given_text(directory, "the directory"),
                                                    phalanx::Verify::kNo);
    return phalanx::describe(*opened.reader);
  });
}

phalanx_answer* phalanx_checkpoint_tensor(phalanx_checkpoint* checkpoint, const char* name,
                                          const void** data, size_t* bytes) {
  return phalanx::answer_of([&] {
    phalanx::expect_handle(checkpoint, "the checkpoint");
    phalanx::expect_handle(data, "the place for the data");
    phalanx::expect_handle(bytes, "the place for the number of bytes");
    const std::string given = phalanx::given_text(name, "the tensor's name");
    const auto* entry = checkpoint->reader->find(given);
    if (entry == nullptr) {
      throw phalanx::InputMissingError("{}: has no tensor {}: the answer of opening names them",
                                       checkpoint->reader->directory().string(), given);
    }
    const auto stored = phalanx::bytes_of(*checkpoint, *entry);
    phalanx::verify(*checkpoint, *entry, stored);
    *data = stored.data();
    *bytes = stored.size();
    return phalanx::json_of(*entry).dump();
  });
}

void phalanx_checkpoint_close(phalanx_checkpoint* checkpoint) { delete checkpoint; }

}  // extern "C"
