#include "phalanx/hugging_face/tensor_stream.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "phalanx/base/error.h"

namespace phalanx::hugging_face {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;
// Of a matrix that is transposed.
constexpr std::int64_t kStripBytes = std::int64_t{48} << 20;
// Shorter stretches are gathered first.
constexpr std::int64_t kShortBytes = 32768;

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

float float_of(double value) { return static_cast<float>(value); }
float float_of(float value) { return value; }
float float_of(bfloat16 value) { return to_float(value); }
float float_of(float16 value) { return to_float(value); }

void store(float value, float* to) { *to = value; }
void store(float value, bfloat16* to) { *to = to_bfloat16(value); }
void store(float value, float16* to) { *to = to_float16(value); }

template <typename To, typename From>
void convert_as(const std::byte* from, std::byte* to, std::int64_t count) {
  constexpr std::int64_t kTo = sizeof(To);
  constexpr std::int64_t kFrom = sizeof(From);
  for (std::int64_t i = 0; i < count; ++i) {
    To value;
    store(float_of(load<From>(from + i * kFrom)), &value);
    std::memcpy(to + i * kTo, &value, kTo);
  }
}

template <typename To>
void convert_to(DType dtype, const std::byte* from, std::byte* to, std::int64_t count) {
  switch (dtype) {
    case DType::kF64:
      return convert_as<To, double>(from, to, count);
    case DType::kF32:
      return convert_as<To, float>(from, to, count);
    case DType::kBF16:
      return convert_as<To, bfloat16>(from, to, count);
    case DType::kF16:
      return convert_as<To, float16>(from, to, count);
    default:
      PHALANX_CHECK(false, "no conversion from {}", name_of(dtype));
  }
}

void convert(DType from_dtype, const std::byte* from, DType to_dtype, std::byte* to,
             std::int64_t count) {
  switch (to_dtype) {
    case DType::kF32:
      return convert_to<float>(from_dtype, from, to, count);
    case DType::kBF16:
      return convert_to<bfloat16>(from_dtype, from, to, count);
    case DType::kF16:
      return convert_to<float16>(from_dtype, from, to, count);
    default:
      PHALANX_CHECK(false, "no conversion to {}", name_of(to_dtype));
  }
}

// A matrix in memory, with the distance of its rows in elements.
struct View {
  const std::byte* data = nullptr;
  std::int64_t stride = 0;
};

// to[column][row] = from[row][column], in tiles that stay in the nearest cache.
template <typename T>
void transpose_as(View from, std::int64_t rows, std::int64_t columns, std::byte* to,
                  std::int64_t to_stride) {
  constexpr std::int64_t kTile = 32;
  constexpr std::int64_t kSize = sizeof(T);
  for (std::int64_t row = 0; row < rows; row += kTile) {
    const std::int64_t row_end = std::min(row + kTile, rows);
    for (std::int64_t column = 0; column < columns; column += kTile) {
      const std::int64_t column_end = std::min(column + kTile, columns);
      for (std::int64_t c = column; c < column_end; ++c) {
        const std::byte* source = from.data + (row * from.stride + c) * kSize;
        std::byte* target = to + (c * to_stride + row) * kSize;
        for (std::int64_t r = row; r < row_end; ++r) {
          std::memcpy(target, source, kSize);
          source += from.stride * kSize;
          target += kSize;
        }
      }
    }
  }
}

void transpose(DType dtype, View from, std::int64_t rows, std::int64_t columns, std::byte* to,
               std::int64_t to_stride) {
  switch (size_of(dtype)) {
    case 2:
      return transpose_as<std::uint16_t>(from, rows, columns, to, to_stride);
    case 4:
      return transpose_as<std::uint32_t>(from, rows, columns, to, to_stride);
    case 8:
      return transpose_as<std::uint64_t>(from, rows, columns, to, to_stride);
    default:
      PHALANX_CHECK(false, "no transposition of {}", name_of(dtype));
  }
}

// Passes elements that arrive in order to the visitor.
class Sink {
 public:
  Sink(DType dtype, const ByteVisitor& visit) : dtype_(dtype), visit_(visit) {}

  void put(DType from, const std::byte* data, std::int64_t count) {
    const std::int64_t size = size_of(dtype_);
    while (count > 0) {
      const bool is_direct = from == dtype_ && count * size >= kShortBytes;
      const std::int64_t room = (kPieceBytes - (is_direct ? 0 : filled_)) / size;
      const std::int64_t now = std::min(count, room);
      if (is_direct) {
        flush();
        visit_({data, static_cast<std::size_t>(now * size)});
      } else {
        gather(from, data, now);
      }
      data += now * size_of(from);
      count -= now;
    }
  }
  void flush() {
    if (filled_ > 0) visit_({gathered_.data(), static_cast<std::size_t>(filled_)});
    filled_ = 0;
  }

 private:
  void gather(DType from, const std::byte* data, std::int64_t count) {
    const std::int64_t size = size_of(dtype_);
    gathered_.resize(kPieceBytes);
    std::byte* to = gathered_.data() + filled_;
    if (from == dtype_) {
      std::memcpy(to, data, static_cast<std::size_t>(count * size));
    } else {
      convert(from, data, dtype_, to, count);
    }
    filled_ += count * size;
    if (kPieceBytes - filled_ < size) flush();
  }

  DType dtype_;
  const ByteVisitor& visit_;
  std::vector<std::byte> gathered_;
  std::int64_t filled_ = 0;  // bytes
};

std::int64_t columns_of(const TensorRow& row) { return row.shape.rank() == 1 ? 1 : row.shape[1]; }

// The number of lines of a transposed matrix in a piece: enough to read whole cache lines.
std::int64_t lines_of_piece(std::int64_t length, DType dtype) {
  constexpr std::int64_t kFewest = 64;
  return std::max(kFewest, kPieceBytes / std::max<std::int64_t>(length * size_of(dtype), 1));
}

}  // namespace

void visit_ours(const TensorRow& row, std::span<const StoredTensor> parts, DType dtype,
                const ByteVisitor& visit) {
  PHALANX_CHECK(parts.size() == row.parts.size(), "{}: {} parts of {}", row.name, parts.size(),
                row.parts.size());
  struct Segment {
    RowBlock block;
    std::size_t part = 0;
  };
  std::vector<Segment> segments;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (const RowBlock& block : row.parts[part].blocks) segments.push_back({block, part});
  }
  std::ranges::sort(segments, {}, [](const Segment& segment) { return segment.block.ours; });

  const std::int64_t columns = columns_of(row);
  Sink sink(dtype, visit);
  std::vector<std::byte> lines;
  for (const auto& [block, number] : segments) {
    const StoredTensor& stored = parts[number];
    const TensorPart& part = row.parts[number];
    const std::int64_t size = size_of(stored.dtype);
    if (!part.transposed) {
      sink.put(stored.dtype, stored.bytes.data() + block.theirs * columns * size,
               block.rows * columns);
      continue;
    }
    const std::int64_t stride = part.shape[1];
    const std::int64_t most = std::min(lines_of_piece(columns, stored.dtype), block.rows);
    lines.resize(static_cast<std::size_t>(most * columns * size));
    for (std::int64_t done = 0; done < block.rows; done += most) {
      const std::int64_t rows = std::min(most, block.rows - done);
      transpose(stored.dtype, {stored.bytes.data() + (block.theirs + done) * size, stride}, columns,
                rows, lines.data(), columns);
      sink.put(stored.dtype, lines.data(), rows * columns);
    }
  }
  sink.flush();
}

void visit_theirs(const TensorRow& row, const TensorPart& part, const OurTensor& ours, DType dtype,
                  const ByteVisitor& visit) {
  const std::int64_t columns = columns_of(row);
  const std::int64_t size = size_of(ours.dtype);
  Sink sink(dtype, visit);
  std::vector<std::byte> piece;
  const auto read = [&](std::int64_t first, std::int64_t rows, std::int64_t column,
                        std::int64_t width) {
    piece.resize(static_cast<std::size_t>(rows * width * size));
    ours.read(first, rows, column, width, piece);
  };
  if (!part.transposed) {
    auto blocks = part.blocks;
    std::ranges::sort(blocks, {}, &RowBlock::theirs);
    const std::int64_t most =
        std::max<std::int64_t>(kPieceBytes / std::max<std::int64_t>(columns * size, 1), 1);
    for (const RowBlock& block : blocks) {
      for (std::int64_t done = 0; done < block.rows; done += most) {
        const std::int64_t rows = std::min(most, block.rows - done);
        read(block.ours + done, rows, 0, columns);
        sink.put(ours.dtype, piece.data(), rows * columns);
      }
    }
    sink.flush();
    return;
  }
  // Stored lines are our columns. A strip of columns is read at a time, and it is wide: a file has
  // our rows.
  const std::int64_t length = part.shape[1];
  const std::int64_t most =
      std::clamp<std::int64_t>(kStripBytes / std::max<std::int64_t>(length * size, 1), 1, columns);
  std::vector<std::byte> lines(static_cast<std::size_t>(most * length * size));
  for (std::int64_t done = 0; done < columns; done += most) {
    const std::int64_t count = std::min(most, columns - done);
    for (const RowBlock& block : part.blocks) {
      read(block.ours, block.rows, done, count);
      transpose(ours.dtype, {piece.data(), count}, block.rows, count,
                lines.data() + block.theirs * size, length);
    }
    sink.put(ours.dtype, lines.data(), count * length);
  }
  sink.flush();
}

}  // namespace phalanx::hugging_face
