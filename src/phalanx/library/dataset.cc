// The sequences of datasets.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "phalanx/base/error.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/library/answer.h"
#include "phalanx/library/handle.h"
#include "phalanx/library/request.h"

struct phalanx_dataset {
  std::optional<phalanx::IndexedDataset> data;
};

extern "C" {

phalanx_answer* phalanx_dataset_open(const char* prefix, phalanx_dataset** dataset) {
  return phalanx::open_handle<phalanx_dataset>(dataset, "the dataset", [&](auto& opened) {
    const auto& data = opened.data.emplace(phalanx::given_text(prefix, "the prefix"));
    const nlohmann::ordered_json json = {{"documents", data.documents()},
                                         {"sequences", data.sequences()},
                                         {"tokens", data.tokens()},
                                         {"dtype", phalanx::name_of(data.type())}};
    return json.dump();
  });
}

phalanx_answer* phalanx_dataset_sequence(phalanx_dataset* dataset, int64_t index, const void** data,
                                         size_t* tokens) {
  return phalanx::answer_of([&] {
    phalanx::expect_handle(dataset, "the dataset");
    phalanx::expect_handle(data, "the place for the data");
    phalanx::expect_handle(tokens, "the place for the number of tokens");
    const phalanx::IndexedDataset& from = *dataset->data;
    if (index < 0 || index >= from.sequences()) {
      throw phalanx::UsageError("{}: there is no sequence {}: it has {}, the first is 0",
                                from.prefix(), index, from.sequences());
    }
    const std::int32_t length = from.length(index);
    *data = from.raw(index, 0, length).data();
    *tokens = static_cast<size_t>(length);
    return nlohmann::ordered_json({{"tokens", length}}).dump();
  });
}

void phalanx_dataset_close(phalanx_dataset* dataset) { delete dataset; }

}  // extern "C"
