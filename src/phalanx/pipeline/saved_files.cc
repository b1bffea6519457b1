#include "phalanx/pipeline/saved_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {

using nn::PassKind;

std::vector<OffloadedTensor> split_lives(std::vector<SavedTensor>& tensors, int units,
                                         const nn::PassOrder& order, std::int64_t smallest) {
  std::vector<OffloadedTensor> offloaded;
  if (order.forward_only) return offloaded;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SavedTensor& tensor = tensors[i];
    const bool waits = tensor.born.pass == PassKind::kForward &&
                       tensor.last.pass != PassKind::kForward && !tensor.is_lent;
    if (!waits || tensor.bytes() < std::max<std::int64_t>(smallest, 1)) continue;
    // No other unit is computed after the last unit's forward pass, or before its backward pass.
    if (tensor.backward_first >= units - 1) continue;
    // How many units are computed between the two lives.
    const int away = 2 * units - 4 - tensor.forward_last - tensor.backward_first;
    if (order.backward_follows && away <= 2) continue;
    offloaded.push_back(
        {.first = i, .written_after = tensor.forward_last, .read_before = tensor.backward_first});
  }
  std::ranges::stable_sort(offloaded, {}, &OffloadedTensor::written_after);
  for (OffloadedTensor& tensor : offloaded) {
    tensor.second = tensors.size();
    SavedTensor second = tensors[tensor.first];
    second.name += " (read)";
    second.born = {PassKind::kBackwardInput, tensor.read_before + 1};
    tensors[tensor.first].last = {PassKind::kForward, tensor.written_after + 1};
    tensors.push_back(std::move(second));
  }
  return offloaded;
}

std::vector<std::vector<int>> file_slots(const Program& program) {
  const auto chunks = static_cast<std::size_t>(program.chunks);
  std::vector<std::vector<int>> slots(
      chunks, std::vector<int>(static_cast<std::size_t>(program.microbatches), 0));
  std::vector<std::vector<bool>> taken(chunks);
  for (const Action& action : program.actions) {
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const auto microbatch = static_cast<std::size_t>(action.microbatch);
    if (action.kind == ActionKind::kForward) {
      const auto free = std::ranges::find(taken[chunk], false);
      slots[chunk][microbatch] = static_cast<int>(free - taken[chunk].begin());
      if (free == taken[chunk].end()) {
        taken[chunk].push_back(true);
      } else {
        *free = true;
      }
    } else if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput) {
      taken[chunk][static_cast<std::size_t>(slots[chunk][microbatch])] = false;
    }
  }
  return slots;
}

void SavedFiles::reserve(int chunk, std::span<const SavedTensor> tensors,
                         std::span<const OffloadedTensor> offloaded, int slots) {
  if (offloaded.empty()) return;
  File& file = files_[chunk];
  PHALANX_CHECK(!file.file, "the file of chunk {} has been made", chunk);
  file.slots = std::max(file.slots, slots);
  for (const OffloadedTensor& tensor : offloaded) {
    const std::int64_t bytes = tensors[tensor.first].bytes();
    const std::int64_t known = file.bytes.try_emplace(tensor.first, bytes).first->second;
    PHALANX_CHECK(known == bytes, "{} is of another size", tensors[tensor.first].name);
  }
}

void SavedFiles::open() {
  for (auto& [chunk, file] : files_) {
    FileLayout layout(storage_.block_bytes());
    for (int slot = 0; slot < file.slots; ++slot) {
      for (const auto& [tensor, bytes] : file.bytes) {
        file.offsets[tensor].push_back(layout.add(bytes));
      }
    }
    const std::string name =
        files_.size() > 1 ? fmt::format("activations of chunk {}", chunk) : "activations";
    file.file = storage_.create_file(name, layout);
  }
}

std::int64_t SavedFiles::file_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [chunk, file] : files_) bytes += file.file->layout().bytes();
  return bytes;
}

int SavedFiles::index_of(const nn::Unit& unit) const {
  const auto& units = pass_.chunk->units();
  const auto found = std::ranges::find(units, &unit, [](const auto& own) { return own.get(); });
  PHALANX_CHECK(found != units.end(), "{} is no unit of this chunk", unit.name());
  return static_cast<int>(found - units.begin());
}

std::int64_t SavedFiles::offset_of(const OffloadedTensor& tensor) const {
  return file_->offsets.at(tensor.first)[static_cast<std::size_t>(pass_.slot)];
}

void SavedFiles::await(std::size_t index) {
  works_[index].wait(pass_.context->queue);
  works_[index] = {};
}

void SavedFiles::enter(const Entry& entry) {
  pass_ = entry;
  const std::size_t count = entry.offloaded.size();
  works_.assign(count, {});
  started_ = completed_ = entry.forward ? 0 : count;
  file_ = count > 0 ? &files_.at(entry.index) : nullptr;
}

void SavedFiles::before(const nn::Unit& unit, PassKind pass, int /*microbatch*/) {
  const std::span<const OffloadedTensor> offloaded = pass_.offloaded;
  const bool reads = pass == PassKind::kBackwardInput || pass == PassKind::kRecompute;
  if (offloaded.empty() || !reads) return;
  int now = index_of(unit);
  if (pass == PassKind::kRecompute) now = pass_.chunk->recomputed_until(now);
  while (completed_ > started_ && offloaded[completed_ - 1].read_before >= now) await(--completed_);
  while (started_ > 0 && offloaded[started_ - 1].read_before + 1 >= now) {
    const OffloadedTensor& tensor = offloaded[--started_];
    works_[started_] =
        file_->file->read(*pass_.context, offset_of(tensor), pass_.tensors[tensor.second]);
  }
}

void SavedFiles::after(const nn::Unit& unit, PassKind pass, int /*microbatch*/,
                       const nn::UnitTensors& /*tensors*/) {
  const std::span<const OffloadedTensor> offloaded = pass_.offloaded;
  if (offloaded.empty() || pass != PassKind::kForward) return;
  const int now = index_of(unit);
  // Another tensor uses the place from here on.
  while (completed_ < started_ && offloaded[completed_].written_after < now) await(completed_++);
  for (; started_ < offloaded.size() && offloaded[started_].written_after <= now; ++started_) {
    const OffloadedTensor& tensor = offloaded[started_];
    works_[started_] =
        file_->file->write(*pass_.context, offset_of(tensor), pass_.tensors[tensor.first]);
  }
}

}  // namespace phalanx
