// Folders that transformers wrote: imported, and exported with the bytes of every tensor as they
// were.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "phalanx/checkpoint/test_support.h"
#include "phalanx/hugging_face/export.h"
#include "phalanx/hugging_face/write_import.h"
#include "tests/paths.h"

namespace phalanx::hugging_face {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kGolden = source_path("tests/golden/hugging_face");

// Type, shape and bytes of every tensor.
std::map<std::string, std::string> tensors_of(const Folder& folder) {
  std::map<std::string, std::string> tensors;
  for (const auto& [name, tensor] : folder.tensors()) {
    const auto bytes = tensor.bytes();
    tensors[name] = tensor.entry->type + tensor.entry->shape.to_string() +
                    std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return tensors;
}

// What config.json says of the model, as it is read.
std::map<std::string, std::string> arguments_of(const Folder& folder) {
  ModelArguments settings;
  architecture_of(folder.config()).read_config(folder.config(), settings);
  return settings.arguments();
}

TEST(GoldenFolders, ComeBackAsTheyWere) {
  std::set<std::string> names;
  const Json expected = Json::parse(read_file(kGolden / "expected.json"));
  for (const auto& item : expected.at("models").items()) {
    names.insert(item.key());
    SCOPED_TRACE(item.key());
    const TemporaryDirectory directory("golden_folder");
    const Import model(kGolden / item.key());
    EXPECT_TRUE(model.dropped().empty());
    ImportOutput output;
    output.directory = directory.path() / "checkpoint";
    ASSERT_TRUE(write_import(model, output));

    const auto checkpoint = CheckpointReader::open(output.directory, Verify::kYes);
    const ModelArguments settings(checkpoint.manifest().arguments);
    const Export back(checkpoint, settings, architecture_for(settings), std::nullopt);
    EXPECT_EQ(back.architecture().name, model.architecture().name);
    EXPECT_EQ(back.parameters(), model.parameters());
    const ExportOptions options{.dtype = std::nullopt,
                                .max_shard_bytes = model.folder().files().size() > 1
                                                       ? model.folder().files()[0]->file().size()
                                                       : kMaxShardBytes};
    ASSERT_TRUE(back.write(directory.path() / "folder", options));
    const Folder folder(directory.path() / "folder");
    EXPECT_EQ(folder.files().size(), model.folder().files().size());
    EXPECT_TRUE(tensors_of(folder) == tensors_of(model.folder()));
    EXPECT_EQ(arguments_of(folder), arguments_of(model.folder()));
  }
  EXPECT_EQ(names.size(), 13);
}

}  // namespace
}  // namespace phalanx::hugging_face
