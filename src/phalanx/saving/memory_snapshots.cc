#include "phalanx/saving/memory_snapshots.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/numeric.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/saving/gathered_tensors.h"
#include "phalanx/saving/part_contents.h"
#include "phalanx/saving/rank_numbers.h"

namespace phalanx {
namespace {

// Read at once from a device.
constexpr std::int64_t kPieceBytes = std::int64_t{8} << 20;

MemoryFiles files_of(const RunConfig& run) {
  return MemoryFiles::inherited(run.memory_files, kMemoryFilesVariable);
}

// What the parts hold (part_contents.h), each tensor with the means to read it from a file.
std::vector<ContributedTensor> stored_tensors(Rank& rank, SavedContent content) {
  std::vector<ContributedTensor> tensors = contributed_tensors(rank, content, Writers::kAll);
  if (saves_weights(rank, true)) return tensors;
  std::set<std::string_view> trained;
  for (const ParamSpec& spec : rank.whole_table().specs()) {
    if (spec.trainable) trained.insert(spec.name);
  }
  std::erase_if(
      tensors, [&](const ContributedTensor& tensor) { return trained.contains(tensor.info.name); });
  return tensors;
}

// Passes the elements of the boxes to the writer, box after box, row-major.
void write_boxes(const GlobalTensor& part, MemoryFileWriter& writer) {
  for (const ParamBox& box : part.boxes) {
    const std::int64_t rows = part.rows_at_once(box);
    for (std::int64_t row = 0; row < box.rows; row += rows) {
      const Tensor run = elements_of(part.local, part.local_element(box, row), rows * box.columns);
      part.memory->visit(run, kPieceBytes,
                         [&](std::span<const std::byte> piece) { writer.write(piece); });
    }
  }
}

Manifest::Part write_part(const Rank& rank, const std::vector<ContributedTensor>& tensors,
                          MemoryFileWriter& writer) {
  std::vector<PartWriter::Piece> pieces;
  for (const ContributedTensor& tensor : tensors) {
    for (const GlobalTensor& part : tensor.parts) {
      PartWriter::Piece& piece =
          pieces.emplace_back(PartWriter::Piece{tensor.info.name, tensor.info.dtype, {}});
      for (const ParamBox& box : part.boxes) piece.boxes.push_back(global_box(box));
    }
  }
  writer.begin_part(rank.ranks().world->rank(), pieces);
  for (const ContributedTensor& tensor : tensors) {
    for (std::size_t i = 0; i < tensor.parts.size(); ++i) write_boxes(tensor.part(i), writer);
  }
  return writer.finish_part();
}

}  // namespace

void check_memory_snapshots(const RunConfig& run, int local_ranks, int hosts) {
  if (run.memory_snapshot_interval == 0) return;
  constexpr std::string_view kFlag = "--memory-snapshot-interval";
  if (run.memory_files.empty()) {
    throw ConfigError(
        "{}: the snapshots lie in memory of the launcher, which outlives the ranks: start the run "
        "with `phalanx launch`",
        kFlag);
  }
  if (hosts > 1) {
    throw ConfigError(
        "{}: the ranks are on {} hosts, and a snapshot in memory can be read on the host that has "
        "it alone: leave the flag out and give a smaller --save-interval",
        kFlag, hosts);
  }
  if (const int ranks = files_of(run).ranks(); ranks < local_ranks) {
    throw ConfigError(
        "{}: the launcher has memory files for {} rank{}, and the run has {}: start a process for "
        "each (phalanx launch --nproc-per-node {})",
        kFlag, ranks, ranks == 1 ? "" : "s", local_ranks, local_ranks);
  }
}

std::shared_ptr<CheckpointReader> newest_snapshot(const RunConfig& run, const JobRecord& job,
                                                  std::span<const RefusedCheckpoint> refused) {
  if (run.memory_files.empty() || run.restarts == 0 || !job.has_begun()) return nullptr;
  const std::vector<SavedCheckpoint> saved = saved_checkpoints(run.save);
  for (const MemoryCheckpoint& one : memory_checkpoints(files_of(run))) {
    const Manifest& manifest = one.manifest;
    if (manifest.run_id != job.run_id || manifest.start < job.start) continue;
    const bool is_older = !saved.empty() && std::pair(saved.back().start, saved.back().iteration) >=
                                                std::pair(manifest.start, manifest.iteration);
    if (is_older) return nullptr;
    try {
      auto reader = open_snapshot(run, one.epoch);
      check_not_refused(reader->place(), refused);
      return reader;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      log_warning("{}; taking the one before", error.what());
    }
  }
  return nullptr;
}

std::shared_ptr<CheckpointReader> open_snapshot(const RunConfig& run, const std::string& epoch) {
  return std::make_shared<CheckpointReader>(files_in_memory(files_of(run), epoch), Verify::kCopies);
}

MemorySnapshots::MemorySnapshots(const RunConfig& run, Rank& rank, Place place,
                                 const std::vector<InputCopy>& copies)
    : run_(run),
      rank_(rank),
      place_(std::move(place)),
      copies_(copies),
      newest_(place_.loaded),
      tried_(place_.iteration) {
  if (run.memory_snapshot_interval > 0) files_ = files_of(run);
}

void MemorySnapshots::after(std::int64_t iteration, const std::function<Manifest()>& manifest) {
  const std::int64_t interval = run_.memory_snapshot_interval;
  if (interval == 0) return;
  // Several iterations may have passed at once. One that fails is tried again when the next is due.
  if (iteration / interval > std::exchange(tried_, iteration) / interval) take(iteration, manifest);
}

void MemorySnapshots::take(std::int64_t iteration, const std::function<Manifest()>& manifest) {
  const auto begin = std::chrono::steady_clock::now();
  Communicator& world = *rank_.ranks().control;
  rank_.finish_gather();
  const auto busy = world.busy(fmt::format("taking a snapshot of iteration {}", iteration));
  const auto tensors = stored_tensors(rank_, {.with_frozen = place_.with_frozen});
  const bool leads = world.rank() == 0;
  const std::string epoch = fmt::format("{}.m{}", place_.epoch_prefix, taken_);
  // The other file has the newest one until all ranks have finished this one.
  int file = files_.descriptor(place_.local_rank, 0);
  if (!newest_.empty() && epoch_in_memory(file) == newest_) {
    file = files_.descriptor(place_.local_rank, 1);
  }
  std::optional<MemoryFileWriter> writer;
  std::vector<std::int64_t> mine = {0, 0, 0, 0};  // whether it is written, and the part
  std::string fault;
  try {
    writer.emplace(file, epoch);
    const Manifest::Part part = write_part(rank_, tensors, *writer);
    if (!leads) writer->seal();
    mine = {1, part.bytes, part.index_bytes, std::bit_cast<std::int64_t>(part.index_xxh3)};
  } catch (const IoError& error) {
    fault = error.what();
  }
  const auto parts = gather_numbers(rank_, mine);
  bool is_written = std::ranges::all_of(parts, [](const auto& part) { return part[0] == 1; });
  if (leads && is_written) {
    try {
      Manifest of_all = manifest();
      of_all.phalanx_version = PHALANX_VERSION;
      of_all.epoch = epoch;
      for (std::size_t r = 0; r < parts.size(); ++r) {
        of_all.parts.push_back({.rank = static_cast<std::int64_t>(r),
                                .bytes = parts[r][1],
                                .index_bytes = parts[r][2],
                                .index_xxh3 = std::bit_cast<std::uint64_t>(parts[r][3])});
      }
      of_all.tensors = tensors_in_parts(rank_, {.with_frozen = place_.with_frozen});
      for (const InputCopy& copy : copies_) {
        writer->add(copy.name, copy.bytes);
        of_all.files.push_back(
            {.name = copy.name, .bytes = std::ssize(copy.bytes), .xxh3 = xxh3(copy.bytes)});
      }
      writer->add(kManifestName, manifest_to_json(of_all));
      writer->seal();
    } catch (const IoError& error) {
      fault = error.what();
    }
  }
  // The next snapshot overwrites the one before this: not before all know that this one is whole.
  is_written = is_written && rank_.largest_of_all(leads && !fault.empty() ? 1 : 0) == 0;
  if (!is_written) {
    if (!fault.empty()) {
      log_warning(
          "the snapshot of iteration {} could not be taken by rank {}: {}; the one before "
          "stays",
          iteration, world.rank(), fault);
    }
    return;
  }
  newest_ = epoch;
  if (leads && taken_ == 0) {
    std::int64_t bytes = 0;
    for (const auto& part : parts) bytes += part[1];
    log_info("snapshots in memory every {} iteration{}: {} of all ranks, the first in {:.3f} s",
             run_.memory_snapshot_interval, run_.memory_snapshot_interval == 1 ? "" : "s",
             format_bytes(bytes),
             std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  ++taken_;
}

}  // namespace phalanx
