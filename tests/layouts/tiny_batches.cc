#include "tiny_batches.h"

#include <array>
#include <span>
#include <string>

#include "layout.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr std::int64_t kPad = 0;
constexpr std::int64_t kBegin = 1;
constexpr std::int64_t kMask = 4;
constexpr std::int64_t kFirstWord = 5;

// Which word the sentence of a sample has somewhere: it counts on in steps.
std::int64_t word(std::int64_t sample, std::int64_t place) {
  return kFirstWord + (11 * sample + (1 + sample % 3) * place) % (kVocabulary - kFirstWord);
}

// Writes one element of any column.
class Columns {
 public:
  Columns(HostBatch& batch, std::int64_t element) : batch_(batch), element_(element) {}
  void set(const std::string& name, std::int64_t place, std::int64_t value) const {
    const auto row = static_cast<std::size_t>(place * batch_.samples() + element_);
    switch (batch_.schema().columns()[batch_.schema().index(name)].dtype) {
      case DType::kI64:
        batch_.column<std::int64_t>(name)[row] = value;
        break;
      case DType::kF32:
        batch_.column<float>(name)[row] = static_cast<float>(value);
        break;
      default:
        batch_.column<std::int32_t>(name)[row] = static_cast<std::int32_t>(value);
    }
  }
  // The coordinates of a sequence of which `real` are no padding.
  void set_rows(const std::string& prefix, std::int64_t sample, std::int64_t sequence,
                std::int64_t real) const {
    for (std::int64_t p = 0; p < sequence; ++p) {
      set(prefix + "sample", p, sample);
      set(prefix + "position", p, p);
      set(prefix + "position_ids", p, p);
      set(prefix + "document", p, p < real ? 0 : -1);
    }
  }

 private:
  HostBatch& batch_;
  std::int64_t element_;
};

// A mask that leaves between 2 and 13 tokens of a sample.
void fill_gpt(const Columns& columns, std::int64_t sample, std::int64_t sequence) {
  const std::int64_t stride = 1 + sample % 3;
  columns.set_rows("", sample, sequence, sequence);
  for (std::int64_t p = 0; p < sequence; ++p) {
    const std::int64_t token = 11 * sample + stride * p;
    columns.set("tokens", p, token % kVocabulary);
    columns.set("labels", p, (token + stride) % kVocabulary);
    columns.set("loss_mask", p, p < sample * 7 % 13 || (p + sample) % 5 == 0 ? 0 : 1);
  }
}

// Two halves, in some samples exchanged; one sample in five has nothing masked.
void fill_bert(const Columns& columns, std::int64_t sample, std::int64_t sequence,
               bool has_binary_head) {
  const std::int64_t real = sequence - 2 * (sample % 4);
  const std::int64_t half = real / 2;
  const bool is_swapped = sample * 7 % 3 == 0;
  columns.set_rows("", sample, sequence, real);
  columns.set("is_random", 0, is_swapped && has_binary_head ? 1 : 0);
  for (std::int64_t p = 0; p < sequence; ++p) {
    const std::int64_t label = word(sample, is_swapped ? (p + half) % real : p);
    const bool is_masked = p < real && sample % 5 != 4 && (p + sample) % 4 == 1;
    columns.set("types", p, p >= half && p < real && has_binary_head ? 1 : 0);
    columns.set("tokens", p, p >= real ? kPad : is_masked ? kMask : label);
    columns.set("labels", p, is_masked ? label : -1);
    columns.set("loss_mask", p, is_masked ? 1 : 0);
  }
}

// The decoder goes on where the encoder's sentence ends.
void fill_t5(const Columns& columns, std::int64_t sample, std::int64_t sequence,
             std::int64_t decoder_sequence) {
  const std::int64_t real = sequence - 2 * (sample % 4);
  const std::int64_t decoder_real = decoder_sequence - sample % 3;
  columns.set_rows("", sample, sequence, real);
  columns.set_rows("decoder_", sample, decoder_sequence, decoder_real);
  for (std::int64_t p = 0; p < sequence; ++p) {
    columns.set("tokens", p, p < real ? word(sample, p) : kPad);
  }
  for (std::int64_t p = 0; p < decoder_sequence; ++p) {
    const bool counts = p < decoder_real;
    const std::int64_t input = p == 0 ? kBegin : word(sample, real + p - 1);
    columns.set("decoder_tokens", p, counts ? input : kPad);
    columns.set("labels", p, counts ? word(sample, real + p) : -1);
    columns.set("loss_mask", p, counts ? 1 : 0);
  }
}

// Documents of 7, 3 and 4 rows, in another order in each sample of a turn, and behind each as much
// padding as makes it a multiple of 4.
void fill_documents(const Columns& columns, std::int64_t sample, std::int64_t sequence) {
  fill_gpt(columns, sample, sequence);
  const std::array<std::int64_t, 3> lengths = {7, 3, 4};
  const std::array<std::int64_t, 3> rooms = {8, 4, 4};
  std::int64_t begin = 0;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    const std::size_t turn = (d + static_cast<std::size_t>(sample)) % lengths.size();
    for (std::int64_t i = 0; i < rooms[turn]; ++i) {
      const bool is_real = i < lengths[turn];
      columns.set("document", begin + i, is_real ? static_cast<std::int64_t>(d) : -1);
      columns.set("position_ids", begin + i, is_real ? i : 0);
      if (i + 1 >= lengths[turn]) columns.set("loss_mask", begin + i, 0);
    }
    begin += rooms[turn];
  }
}

}  // namespace

HostBatch rows_of_rank(const HostBatch& whole, const ContextCut& cut, int rank) {
  if (cut.ranks() == 1) return whole;
  const BatchSchema& schema = whole.schema();
  HostBatch part(schema, whole.samples(), cut, rank);
  const std::span<const std::int64_t> numbers = whole.column<std::int64_t>("sample");
  const auto samples = static_cast<std::size_t>(whole.samples());
  for (std::size_t b = 0; b < samples; ++b) {
    Sample sample(schema);
    const auto copy = [&]<typename T>(std::size_t column) {
      const auto from = whole.column<T>(schema.columns()[column].name);
      const auto to = sample.column<T>(column);
      for (std::size_t row = 0; row < to.size(); ++row) to[row] = from[row * samples + b];
    };
    for (std::size_t column = 0; column < schema.columns().size(); ++column) {
      switch (schema.columns()[column].dtype) {
        case DType::kI64:
          copy.operator()<std::int64_t>(column);
          break;
        case DType::kF32:
          copy.operator()<float>(column);
          break;
        default:
          copy.operator()<std::int32_t>(column);
      }
    }
    part.put(static_cast<std::int64_t>(b), numbers[b], sample);
  }
  return part;
}

HostBatch tiny_batch(const TrainConfig& config, const BatchSchema& schema,
                     std::int64_t first_sample) {
  const std::int64_t samples = config.layout.micro_batch_size;
  const std::int64_t sequence = config.data.seq_length;
  const std::string& family = config.model.family;
  HostBatch batch(schema, samples);
  for (std::int64_t b = 0; b < samples; ++b) {
    const Columns columns(batch, b);
    const std::int64_t sample = first_sample + b;
    if (family == "bert") {
      fill_bert(columns, sample, sequence, !config.model.bert_no_binary_head);
    } else if (family == "t5") {
      fill_t5(columns, sample, sequence, config.data.decoder_seq_length);
    } else {
      const bool has_documents = packs_documents(config.data);
      (has_documents ? fill_documents : fill_gpt)(columns, sample, sequence);
    }
  }
  return batch;
}

}  // namespace phalanx
