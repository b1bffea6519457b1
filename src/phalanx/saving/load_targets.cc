#include "phalanx/saving/load_targets.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/checkpoint/tensor_source.h"

namespace phalanx {
namespace {

void remove_copies(std::vector<NeededBox>& needs) {
  const auto place = [](const NeededBox& need) {
    const MatrixBox& box = need.box;
    return std::tuple(need.parameter, box.row, box.column, box.rows, box.columns);
  };
  std::ranges::sort(needs, {}, place);
  const auto are_equal = [&](const NeededBox& a, const NeededBox& b) {
    return place(a) == place(b);
  };
  needs.erase(std::unique(needs.begin(), needs.end(), are_equal), needs.end());
}

}  // namespace

LoadTargets::LoadTargets(const CheckpointReader& reader, Rank& rank, const LoadOptions& options)
    : reader_(reader), rank_(rank), options_(options) {
  const bool with_optimizer = options.with_optimizer;
  int number = 0;
  std::map<std::string, int> of_dense;
  for (const ParamSpec& spec : rank.whole_table().specs()) {
    const auto part = dense_part(spec);
    numbers_[spec.name] = part ? of_dense.try_emplace(part->name, number).first->second : number;
    ++number;
  }
  const ParameterStore& parameters = rank.parameters();
  add("", true, DTypeMatch::kConvert, "", parameters.weight_file(),
      [&](const Segment& s) { return parameters.weight(s); });
  const auto add_states = [&](std::string_view prefix, const StateColumn& column, DTypeMatch match,
                              std::string_view read_prefix) {
    add(prefix, false, match, read_prefix, column.file(),
        [&column](const Segment& s) { return column.in_memory(s); });
  };
  if (parameters.has_main_parameters()) {
    // Without main parameters in the checkpoint they start from the rounded weights.
    add_states(kMainParamPrefix, *parameters.accesses(true, true)[0].column,
               with_optimizer ? DTypeMatch::kExact : DTypeMatch::kConvert,
               with_optimizer ? kMainParamPrefix : std::string_view());
  }
  if (!with_optimizer) return;
  for (const auto name : rank.optimizer().state_names()) {
    const std::string prefix = state_prefix(name);
    add_states(prefix, rank.optimizer().state(name), DTypeMatch::kExact, prefix);
  }
}

// A column: the weights, or a state of all parameters.
void LoadTargets::add(std::string_view prefix, bool is_weight, DTypeMatch match,
                      std::string_view read_prefix, const TileFile* file,
                      const InMemory& in_memory) {
  std::map<std::string_view, const Manifest::Entry*> entries;  // by parameter
  for (const ParamSpec& spec : rank_.whole_table().specs()) {
    if (options_.absent.contains(spec.name) || (!is_weight && !spec.trainable)) continue;
    const auto dense = dense_part(spec);
    GlobalTensor asked{.name = std::string(read_prefix) + (dense ? dense->name : spec.name),
                       .global_shape = dense ? dense->shape : spec.global_shape,
                       .local = {},
                       .boxes = {}};
    asked.local.dtype = is_weight ? spec.dtype : nn::full_precision(spec.dtype);
    const Manifest::Entry& entry = reader_.entry_for(asked, match);
    entries[spec.name] = &entry;
    const Manifest::Entry& stored = reader_.stored(entry);
    if (parameters_.try_emplace(&stored, numbers_.at(spec.name)).second) {
      wanted_.push_back(&stored);
    }
  }
  const StateLayout& states = rank_.parameters().states();
  std::vector<Segment> segments = states.segments();
  if (is_weight) segments.insert(segments.end(), states.frozen().begin(), states.frozen().end());
  for (const Segment& segment : segments) {
    const ParamSpec& spec = rank_.table()[segment.id];
    if (options_.absent.contains(spec.name)) continue;
    const bool is_in_file = file != nullptr && file->has(segment.tile);
    Tensor local;  // only its type and shape, if it lies in a file
    if (is_in_file) {
      local.dtype = file->dtype();
      local.shape = {segment.count};
    } else {
      local = in_memory(segment);
    }
    const Manifest::Entry* entry = entries.at(spec.name);
    GlobalTensor part = shard_tensor(spec, local, segment.begin, prefix);
    part.memory = &rank_.host_pieces();
    const auto dense = dense_part(spec);
    if (dense) {
      part.global_shape = dense->shape;
      part.boxes = dense->in_dense(part.boxes);
    }
    targets_[&reader_.stored(*entry)].push_back({.part = std::move(part),
                                                 .read_as = entry,
                                                 .file = is_in_file ? file : nullptr,
                                                 .segment = segment,
                                                 .factor = dense ? dense->factor : 1.0});
  }
}

std::vector<NeededBox> LoadTargets::needs() const {
  std::vector<NeededBox> needs;
  const nn::ParamTable& table = rank_.table();
  const StateLayout& states = rank_.parameters().states();
  for (const auto* segments : {&states.segments(), &states.frozen()}) {
    for (const Segment& segment : *segments) {
      const ParamSpec& spec = table[segment.id];
      if (options_.absent.contains(spec.name)) continue;
      std::vector<ParamBox> boxes = boxes_of_range(spec, segment.begin, segment.count);
      if (const auto dense = dense_part(spec)) boxes = dense->in_dense(boxes);
      for (const ParamBox& box : boxes) {
        needs.push_back({numbers_.at(spec.name), global_box(box)});
      }
    }
  }
  if (options_.upcycling != nullptr) remove_copies(needs);
  return needs;
}

void LoadTargets::fill(const Manifest::Entry& stored, const MatrixBox& box,
                       std::span<const std::byte> bytes) {
  for (const Target& target : targets_[&stored]) {
    bool is_in_box = false;
    for (const ParamBox& b : target.part.boxes) {
      is_in_box = is_in_box || overlap(global_box(b), box).count() > 0;
    }
    if (!is_in_box) continue;
    GlobalTensor part = target.part;
    if (target.file != nullptr) part.local = elements_of(target);
    const Manifest::Entry& entry = *target.read_as;
    DType dtype = stored.dtype;
    std::span<const std::byte> values = bytes;
    if (&entry != &stored) {
      // Rounded to the type that the checkpoint gives it, whatever the run keeps it in.
      dtype = entry.dtype;
      rounded_.resize(static_cast<std::size_t>(box.count() * size_of(dtype)));
      convert_elements(stored.dtype, bytes.data(), dtype, rounded_.data(), box.count());
      values = rounded_;
    }
    if (target.factor != 1.0) values = scaled(target.factor, values, dtype);
    fill_from_box(part, box, dtype, values);
  }
}

std::span<const std::byte> LoadTargets::scaled(double factor, std::span<const std::byte> values,
                                               DType& dtype) {
  const DType from = std::exchange(dtype, nn::full_precision(dtype));
  const std::int64_t count = std::ssize(values) / size_of(from);
  scaled_.resize(static_cast<std::size_t>(count * size_of(dtype)));
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = factor * element_as_double(from, values.data() + i * size_of(from));
    convert_elements(DType::kF64, reinterpret_cast<const std::byte*>(&value), dtype,
                     scaled_.data() + i * size_of(dtype), 1);
  }
  return scaled_;
}

Tensor LoadTargets::elements_of(const Target& target) {
  const StateLayout& states = rank_.parameters().states();
  TileStaging& staging = *rank_.parameters().staging();
  auto open = open_.find(target.file);
  if (open != open_.end() && open->second.tile != target.segment.tile) {
    close(*target.file, open->second);
    open_.erase(open);
    open = open_.end();
  }
  if (open == open_.end()) {
    // The slots of the staging memory are used in turn: the next one must be free.
    std::erase_if(open_, [&](const auto& other) {
      const bool is_old = turn_ - other.second.turn >= TileStaging::kSlots - 1;
      if (is_old) close(*other.first, other.second);
      return is_old;
    });
    const Tensor elements =
        staging.next(rank_.context())
            .take(target.file->dtype(), states.tile(target.segment).local.count);
    target.file->read(rank_.context(), target.segment.tile, elements).wait(rank_.context().queue);
    open = open_.emplace(target.file, OpenTile{target.segment.tile, elements, ++turn_}).first;
  }
  return part_of(open->second.elements, states, target.segment);
}

void LoadTargets::close(const TileFile& file, const OpenTile& open) {
  file.write(rank_.context(), open.tile, open.elements).wait(rank_.context().queue);
}

void LoadTargets::finish() {
  for (const auto& [file, open] : open_) close(*file, open);
  open_.clear();
}

}  // namespace phalanx
