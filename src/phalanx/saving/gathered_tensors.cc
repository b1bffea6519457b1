#include "phalanx/saving/gathered_tensors.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <utility>

#include "phalanx/checkpoint/checkpoint_writer.h"

namespace phalanx {
namespace {

// Of global rows at a time; a row that is longer comes alone.
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;
constexpr std::int64_t kNumbersPerBox = 6;
constexpr std::uint64_t kKey = message_key(MessageKind::kOther, 0, 0);

std::vector<ParamBox> boxes_of(const std::vector<GlobalTensor>& parts) {
  std::vector<ParamBox> boxes;
  for (const GlobalTensor& part : parts) {
    boxes.insert(boxes.end(), part.boxes.begin(), part.boxes.end());
  }
  return boxes;
}

Tensor tile_in_memory(Rank& rank, const TileFile& file, const StateLayout::Tile& tile, int number) {
  return rank.parameters().staging()->read_once(rank.context(), file, number, tile.local.count);
}

std::int64_t row_bytes(const TensorSource::Info& info) {
  return matrix_columns(info.global_shape) * size_of(info.dtype);
}

// body(begin, end) for some rows at a time.
template <typename Body>
void for_pieces(const TensorSource::Info& info, const Body& body) {
  const std::int64_t rows = matrix_rows(info.global_shape);
  const std::int64_t step =
      std::max<std::int64_t>(1, kPieceBytes / std::max<std::int64_t>(1, row_bytes(info)));
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    body(begin, std::min(begin + step, rows));
  }
}

// Room for a piece of rows, and for the part of it that one rank sends.
std::int64_t staging_bytes(const std::vector<ContributedTensor>& tensors) {
  std::int64_t largest = kPieceBytes;
  for (const auto& tensor : tensors) largest = std::max(largest, row_bytes(tensor.info));
  return 2 * (largest + kArenaAlignment);
}

}  // namespace

GlobalTensor ContributedTensor::part(std::size_t number) const {
  GlobalTensor part = parts[number];
  if (number < fetches.size() && fetches[number]) part.local = fetches[number]();
  return part;
}

std::vector<ContributedTensor> contributed_tensors(Rank& rank, SavedContent content,
                                                   Writers writers) {
  const ParameterStore& parameters = rank.parameters();
  const StateLayout& states = parameters.states();
  const std::vector<Piece> of_shard = pieces(states, writers);
  const auto frozen = content.with_frozen ? frozen_pieces(states) : std::vector<Piece>();
  const auto is_saved = [&](const ParamSpec& spec) {
    return spec.trainable || content.with_frozen;
  };
  std::vector<ContributedTensor> tensors;
  // A tensor for each parameter of the model, with the pieces that this rank writes.
  const auto add = [&](std::string_view prefix, bool is_weight, const TileFile* file,
                       const std::function<Tensor(const Segment&)>& in_memory) {
    std::map<std::string_view, std::size_t> places;
    for (const ParamSpec& whole : rank.whole_table().specs()) {
      if (is_weight ? !is_saved(whole) : !whole.trainable) continue;
      places[whole.name] = tensors.size();
      const DType dtype = is_weight ? whole.dtype : nn::full_precision(whole.dtype);
      tensors.push_back({{std::string(prefix) + whole.name, dtype, whole.global_shape}, {}});
    }
    const auto is_whole = [&](ParamId id) {
      return is_weight && writers == Writers::kFirst && is_saved(rank.table()[id]) &&
             parameters.weight(id).defined();
    };
    for (ParamId id = 0; id < rank.table().size(); ++id) {
      if (!is_whole(id)) continue;
      ContributedTensor& tensor = tensors[places.at(rank.table()[id].name)];
      tensor.parts.push_back(global_tensor(rank.table()[id], parameters.weight(id)));
      tensor.parts.back().boxes = whole_weight_boxes(states, id);
      tensor.parts.back().memory = &rank.host_pieces();
    }
    std::vector<Piece> written = of_shard;
    if (is_weight) written.insert(written.end(), frozen.begin(), frozen.end());
    for (const auto& [segment, boxes] : written) {
      if (is_whole(segment.id)) continue;
      const ParamSpec& spec = rank.table()[segment.id];
      ContributedTensor& tensor = tensors[places.at(spec.name)];
      const bool is_in_file = file != nullptr && file->has(segment.tile);
      Tensor local;  // only its type and shape, if it lies in a file
      if (is_in_file) {
        local.dtype = file->dtype();
        local.shape = {segment.count};
      } else {
        local = in_memory(segment);
      }
      tensor.parts.push_back(shard_tensor(spec, local, segment.begin, prefix));
      tensor.parts.back().boxes = boxes;
      tensor.parts.back().memory = &rank.host_pieces();
      tensor.fetches.emplace_back();
      if (!is_in_file) continue;
      tensor.fetches.back() = [&rank, &states, file, part = segment] {
        return part_of(tile_in_memory(rank, *file, states.tile(part), part.tile), states, part);
      };
    }
  };
  add("", true, parameters.weight_file(), [&](const Segment& s) { return parameters.weight(s); });
  if (!content.with_optimizer) return tensors;
  const auto add_states = [&](std::string_view prefix, const StateColumn& column) {
    add(prefix, false, column.file(), [&](const Segment& s) { return column.in_memory(s); });
  };
  const Optimizer& optimizer = rank.optimizer();
  for (const auto name : optimizer.state_names()) {
    add_states(state_prefix(name), optimizer.state(name));
  }
  if (parameters.has_main_parameters()) {
    add_states(kMainParamPrefix, *parameters.accesses(true, false)[0].column);
  }
  return tensors;
}

GatheredTensors::GatheredTensors(std::vector<ContributedTensor> tensors, Communicator& world,
                                 Context& context)
    : tensors_(std::move(tensors)),
      world_(world),
      context_(context),
      arena_("checkpoint staging", staging_bytes(tensors_)) {}

void GatheredTensors::send(const Tensor& tensor) {
  world_.send(context_, tensor, 0, kKey).wait(context_.queue);
}

void GatheredTensors::receive(const Tensor& tensor, int peer) {
  world_.receive(context_, tensor, peer, kKey).wait(context_.queue);
}

void GatheredTensors::send_boxes(const Boxes& boxes) {
  const WorkspaceScope scope(arena_);
  const Tensor count = arena_.allocate(DType::kI64, {1});
  count.as<std::int64_t>()[0] = std::ssize(boxes);
  send(count);
  if (boxes.empty()) return;
  const Tensor numbers = arena_.allocate(DType::kI64, {std::ssize(boxes), kNumbersPerBox});
  std::int64_t* to = numbers.as<std::int64_t>();
  for (const ParamBox& b : boxes) {
    for (const std::int64_t number :
         {b.global_row, b.global_column, b.local_row, b.local_column, b.rows, b.columns}) {
      *to++ = number;
    }
  }
  send(numbers);
}

GatheredTensors::Boxes GatheredTensors::receive_boxes(int peer) {
  const WorkspaceScope scope(arena_);
  const Tensor count = arena_.allocate(DType::kI64, {1});
  receive(count, peer);
  Boxes boxes(static_cast<std::size_t>(count.as<std::int64_t>()[0]));
  if (boxes.empty()) return boxes;
  const Tensor numbers = arena_.allocate(DType::kI64, {std::ssize(boxes), kNumbersPerBox});
  receive(numbers, peer);
  const std::int64_t* from = numbers.as<std::int64_t>();
  for (ParamBox& b : boxes) {
    b = {from[0], from[1], from[2], from[3], from[4], from[5]};
    from += kNumbersPerBox;
  }
  return boxes;
}

void GatheredTensors::visit(int index, const Visitor& visitor) {
  const ContributedTensor& tensor = at(index);
  const DType dtype = tensor.info.dtype;
  const std::int64_t columns = matrix_columns(tensor.info.global_shape);
  next_ = index + 1;
  std::exception_ptr failure;
  std::vector<Boxes> boxes(static_cast<std::size_t>(world_.size()));
  for (int peer = 1; peer < world_.size(); ++peer) {
    boxes[static_cast<std::size_t>(peer)] = receive_boxes(peer);
  }
  for_pieces(tensor.info, [&](std::int64_t begin, std::int64_t end) {
    const WorkspaceScope scope(arena_);
    const Tensor rows = arena_.allocate(dtype, {end - begin, columns});
    const Tensor packed = arena_.allocate(DType::kU8, {rows.bytes()});
    const auto unpack = [&](std::span<const ParamBox> held, std::int64_t bytes) {
      unpack_rows(held, dtype, columns, begin, end,
                  {packed.data(), static_cast<std::size_t>(bytes)}, rows.data());
    };
    for (std::size_t i = 0; i < tensor.parts.size(); ++i) {
      const auto& boxes_of_part = tensor.parts[i].boxes;
      const std::int64_t bytes = packed_bytes(boxes_of_part, dtype, begin, end);
      if (bytes == 0) continue;
      pack_rows(tensor.part(i), begin, end, packed.data());
      unpack(boxes_of_part, bytes);
    }
    for (int peer = 1; peer < world_.size(); ++peer) {
      const Boxes& held = boxes[static_cast<std::size_t>(peer)];
      const std::int64_t bytes = packed_bytes(held, dtype, begin, end);
      if (bytes == 0) continue;
      receive(packed.slice(0, 0, bytes), peer);
      unpack(held, bytes);
    }
    if (failure) return;
    try {
      visitor({rows.data(), static_cast<std::size_t>(rows.bytes())});
    } catch (...) {
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

void GatheredTensors::skip_rest() {
  // Alone there is nobody who sends.
  if (world_.size() == 1) return;
  while (next_ < size()) visit(next_, [](std::span<const std::byte> /*bytes*/) {});
}

void GatheredTensors::serve() {
  for (const ContributedTensor& tensor : tensors_) {
    const DType dtype = tensor.info.dtype;
    send_boxes(boxes_of(tensor.parts));
    for_pieces(tensor.info, [&](std::int64_t begin, std::int64_t end) {
      const WorkspaceScope scope(arena_);
      std::int64_t bytes = 0;
      for (const GlobalTensor& part : tensor.parts) {
        bytes += packed_bytes(part.boxes, dtype, begin, end);
      }
      if (bytes == 0) return;
      const Tensor packed = arena_.allocate(DType::kU8, {bytes});
      std::byte* to = packed.data();
      for (std::size_t i = 0; i < tensor.parts.size(); ++i) {
        const std::int64_t of_part = packed_bytes(tensor.parts[i].boxes, dtype, begin, end);
        if (of_part == 0) continue;
        pack_rows(tensor.part(i), begin, end, to);
        to += of_part;
      }
      send(packed);
    });
  }
}

}  // namespace phalanx
