#include "phalanx/hugging_face/write_import.h"

#include <utility>

#include "phalanx/checkpoint/base_checkpoint.h"
#include "phalanx/checkpoint/staged_directory.h"
#include "phalanx/hugging_face/tensor_stream.h"

namespace phalanx::hugging_face {
namespace {

struct StopRequested {};

class ImportSource final : public TensorSource {
 public:
  ImportSource(const Import& model, const std::function<bool()>& stop_requested)
      : model_(model), stop_requested_(stop_requested) {
    for (std::size_t row = 0; row < model.table().rows.size(); ++row) {
      const TensorRow& tensor = model.table().rows[row];
      infos_.push_back({tensor.name, model.dtype(row), tensor.shape});
    }
  }

  int size() const override { return static_cast<int>(infos_.size()); }
  const Info& info(int index) const override { return infos_[static_cast<std::size_t>(index)]; }
  void visit(int index, const Visitor& visitor) override {
    const auto row = static_cast<std::size_t>(index);
    visit_ours(model_.table().rows[row], model_.parts(row), model_.dtype(row),
               [&](std::span<const std::byte> bytes) {
                 if (stop_requested_ && stop_requested_()) throw StopRequested{};
                 visitor(bytes);
               });
  }

 private:
  const Import& model_;
  const std::function<bool()>& stop_requested_;
  std::vector<Info> infos_;
};

class AdapterSource final : public TensorSource {
 public:
  explicit AdapterSource(const std::vector<MemoryTensor>& tensors) : tensors_(tensors) {
    for (const MemoryTensor& tensor : tensors) {
      infos_.push_back({tensor.name, DType::kF32, tensor.shape});
    }
  }

  int size() const override { return static_cast<int>(infos_.size()); }
  const Info& info(int index) const override { return infos_[static_cast<std::size_t>(index)]; }
  void visit(int index, const Visitor& visitor) override {
    visitor(std::as_bytes(std::span(tensors_[static_cast<std::size_t>(index)].values)));
  }

 private:
  const std::vector<MemoryTensor>& tensors_;
  std::vector<Info> infos_;
};

// Beside the base, which stands in `directory`. `manifest`: the base's, with its flags and copies.
void write_adapters(const AdapterFolder& adapters, const std::filesystem::path& directory,
                    const std::filesystem::path& base, const std::vector<InputCopy>& copies,
                    Manifest manifest) {
  manifest.base = describe_base(CheckpointReader(base, Verify::kNo));
  // Relative, so that both can be moved together.
  manifest.base->path = (std::filesystem::path("../..") / base.filename()).string();
  const ModelArguments flags = adapters.settings().arguments();
  for (const auto& [flag, value] : flags.arguments()) manifest.arguments[flag] = value;
  AdapterSource source(adapters.tensors());
  save_checkpoint({.directory = directory / kAdaptersDirectory, .copies = copies},
                  std::move(manifest), source);
}

}  // namespace

bool write_import(const Import& model, const ImportOutput& output) {
  StagedDirectory staging(output.directory, "--output");
  Manifest manifest;
  manifest.arguments = model.settings().arguments();
  for (const auto& [flag, value] : output.tokenizer) manifest.arguments[flag] = value;
  manifest.input_files = output.input_files;
  manifest.input_files.push_back(
      describe_input_file("--input", model.folder().directory() / kConfigName));
  // Reading all of them once more for a digest would double the time.
  for (const auto& file : model.folder().files()) {
    manifest.input_files.push_back(describe_input_length("--input", file->path()));
  }
  ImportSource source(model, output.stop_requested);
  try {
    const auto base =
        save_checkpoint({.directory = staging.path(), .copies = output.copies}, manifest, source);
    if (output.adapters != nullptr) {
      write_adapters(*output.adapters, staging.path(), base, output.copies, std::move(manifest));
    }
  } catch (const StopRequested&) {
    return false;
  }
  staging.commit();
  return true;
}

}  // namespace phalanx::hugging_face
