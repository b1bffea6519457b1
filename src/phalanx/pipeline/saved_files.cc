#include "phalanx/pipeline/saved_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "phalanx/base/error.h"

namespace phalanx {

using nn::PassKind;

std::vector<SavedLeave> cut_lives(std::vector<SavedTensor>& blocks, int units,
                                  const nn::PassOrder& order, std::int64_t smallest) {
  std::vector<SavedLeave> leaves;
  if (order.forward_only) return leaves;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const SavedTensor& block = blocks[i];
    const bool waits = block.born.pass == PassKind::kForward &&
                       block.last.pass != PassKind::kForward && !block.is_lent;
    if (!waits || block.bytes() < std::max<std::int64_t>(smallest, 1)) continue;
    // Nothing is computed behind the last unit's forward pass, nor before its backward pass.
    if (block.backward_first >= units - 1) continue;
    // Units that are computed between the two lives.
    const int away = 2 * units - 4 - block.forward_last - block.backward_first;
    if (order.backward_follows && away <= 2) continue;
    leaves.push_back({.block = i, .written = block.forward_last, .read = block.backward_first});
  }
  std::ranges::stable_sort(leaves, {}, &SavedLeave::written);
  for (SavedLeave& leave : leaves) {
    leave.second = blocks.size();
    SavedTensor second = blocks[leave.block];
    second.name += " (read)";
    second.born = {PassKind::kBackwardInput, leave.read + 1};
    blocks[leave.block].last = {PassKind::kForward, leave.written + 1};
    blocks.push_back(std::move(second));
  }
  return leaves;
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

void SavedFiles::reserve(int chunk, std::span<const SavedTensor> blocks,
                         std::span<const SavedLeave> leaves, int slots) {
  if (leaves.empty()) return;
  File& file = files_[chunk];
  PHALANX_CHECK(!file.file, "the file of chunk {} has been made", chunk);
  file.slots = std::max(file.slots, slots);
  for (const SavedLeave& leave : leaves) {
    const std::int64_t bytes = blocks[leave.block].bytes();
    const std::int64_t known = file.bytes.try_emplace(leave.block, bytes).first->second;
    PHALANX_CHECK(known == bytes, "{} is of another size", blocks[leave.block].name);
  }
}

void SavedFiles::open() {
  for (auto& [chunk, file] : files_) {
    FileLayout layout(storage_.block_bytes());
    for (int slot = 0; slot < file.slots; ++slot) {
      for (const auto& [block, bytes] : file.bytes) {
        file.offsets[block].push_back(layout.add(bytes));
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

std::int64_t SavedFiles::offset_of(const SavedLeave& leave) const {
  return file_->offsets.at(leave.block)[static_cast<std::size_t>(pass_.slot)];
}

void SavedFiles::await(std::size_t leave) {
  works_[leave].wait(pass_.context->queue);
  works_[leave] = {};
}

void SavedFiles::enter(const Entry& entry) {
  pass_ = entry;
  const std::size_t count = entry.leaves.size();
  works_.assign(count, {});
  begun_ = over_ = entry.forward ? 0 : count;
  file_ = count > 0 ? &files_.at(entry.index) : nullptr;
}

void SavedFiles::before(const nn::Unit& unit, PassKind pass, int /*microbatch*/) {
  const std::span<const SavedLeave> leaves = pass_.leaves;
  const bool reads = pass == PassKind::kBackwardInput || pass == PassKind::kRecompute;
  if (leaves.empty() || !reads) return;
  int now = index_of(unit);
  if (pass == PassKind::kRecompute) now = pass_.chunk->recomputed_until(now);
  while (over_ > begun_ && leaves[over_ - 1].read >= now) await(--over_);
  while (begun_ > 0 && leaves[begun_ - 1].read + 1 >= now) {
    const SavedLeave& leave = leaves[--begun_];
    works_[begun_] =
        file_->file->read(*pass_.context, offset_of(leave), pass_.blocks[leave.second]);
  }
}

void SavedFiles::after(const nn::Unit& unit, PassKind pass, int /*microbatch*/,
                       const nn::UnitTensors& /*tensors*/) {
  const std::span<const SavedLeave> leaves = pass_.leaves;
  if (leaves.empty() || pass != PassKind::kForward) return;
  const int now = index_of(unit);
  // Its place is another block's from here on.
  while (over_ < begun_ && leaves[over_].written < now) await(over_++);
  for (; begun_ < leaves.size() && leaves[begun_].written <= now; ++begun_) {
    const SavedLeave& leave = leaves[begun_];
    works_[begun_] =
        file_->file->write(*pass_.context, offset_of(leave), pass_.blocks[leave.block]);
  }
}

}  // namespace phalanx
