#include "trainer/checkpoint/manifest.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/content_hash.h"
#include "protocol/json_text.h"
#include "trainer/checkpoint/json_cursor.h"
#include "trainer/checkpoint/layout.h"

namespace dlaunch::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kWorldSizeMax = 65'536;

/// Takes values out of the parsed text; the first trouble stays and the rest is empty values.
class Reader {
 public:
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  void fail(std::string trouble) {
    if (trouble_.empty()) trouble_ = std::move(trouble);
  }

  const Json& member(const Json& object, const char* key, Json::value_t type) {
    static const Json kNothing;
    const auto found = object.find(key);
    if (found != object.end() && found->type() == type) return *found;
    fail(std::string("\"") + key + "\" is missing or has the wrong type");
    return kNothing;
  }
  std::uint64_t number(const Json& object, const char* key) {
    const Json& value = member(object, key, Json::value_t::number_unsigned);
    return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
  }
  std::string text(const Json& object, const char* key) {
    const Json& value = member(object, key, Json::value_t::string);
    return value.is_string() ? value.get<std::string>() : std::string();
  }

 private:
  std::string trouble_;
};

void read_shards(Reader& reader, const Json& list, const std::string& name,
                 ManifestTensor& tensor) {
  std::uint64_t next_row = 0;
  for (const Json& entry : list) {
    if (!entry.is_object()) return reader.fail("a shard of \"" + name + "\" is no object");
    ManifestShard shard{reader.text(entry, "file"), reader.number(entry, "first_row"),
                        reader.number(entry, "rows")};
    if (!reader.trouble().empty()) return;
    if (!is_shard_name(shard.file)) {
      return reader.fail("\"" + name + "\" lies in a file that is no shard");
    }
    const std::uint64_t rows = rows_of(tensor.shape);
    if (shard.first_row != next_row || shard.rows == 0 || shard.rows > rows - next_row) {
      return reader.fail("the rows of \"" + name + "\" have a gap or overlap");
    }
    next_row += shard.rows;
    tensor.shards.push_back(std::move(shard));
  }
  if (next_row != rows_of(tensor.shape)) reader.fail("\"" + name + "\" lacks its last rows");
}

ManifestTensor read_tensor(Reader& reader, const std::string& name, const Json& entry) {
  ManifestTensor tensor;
  if (name.empty() || name.size() > kTensorNameBytesMax || !entry.is_object()) {
    reader.fail("a tensor has no proper name or description");
    return tensor;
  }
  const auto dtype = dtype_from_name(reader.text(entry, "dtype"));
  if (!dtype) reader.fail("the element type of \"" + name + "\" is not known");
  tensor.dtype = dtype.value_or(Dtype::f32);
  for (const Json& dimension : reader.member(entry, "shape", Json::value_t::array)) {
    if (!dimension.is_number_unsigned()) {
      reader.fail("a dimension of \"" + name + "\" is no number");
      return tensor;
    }
    tensor.shape.push_back(dimension.get<std::uint64_t>());
  }
  if (tensor.shape.size() > kDimensionsMax || !bytes_of(tensor.dtype, tensor.shape)) {
    reader.fail("the shape of \"" + name + "\" cannot be");
    return tensor;
  }
  read_shards(reader, reader.member(entry, "shards", Json::value_t::array), name, tensor);
  return tensor;
}

void read_files(Reader& reader, const Json& list, Manifest& manifest) {
  std::set<std::string> names;
  if (!list.is_array()) return reader.fail("\"files\" is no list");
  for (const Json& entry : list) {
    if (!entry.is_object()) return reader.fail("an entry of \"files\" is no object");
    ManifestFile file{reader.text(entry, "name"), reader.number(entry, "bytes"),
                      reader.text(entry, "hash")};
    if (!reader.trouble().empty()) return;
    if (!is_shard_name(file.name) || !names.insert(file.name).second) {
      return reader.fail("\"files\" names no shard, or one twice");
    }
    if (!is_content_hash(file.hash)) return reader.fail("the hash of " + file.name + " is none");
    manifest.files.push_back(std::move(file));
  }
  for (const auto& [name, tensor] : manifest.tensors) {
    for (const ManifestShard& shard : tensor.shards) {
      if (!names.contains(shard.file)) return reader.fail("\"files\" lacks " + shard.file);
    }
  }
}

void read_manifest(Reader& reader, const Json& json, Manifest& manifest) {
  const std::uint64_t format = reader.number(json, "format");
  if (!reader.trouble().empty()) return;
  if (format != kManifestFormat) {
    return reader.fail("its format is " + std::to_string(format) +
                       ", this version reads 1: it was written by a newer dlaunch");
  }
  manifest.step = Step{reader.number(json, "step")};
  const std::uint64_t world_size = reader.number(json, "world_size");
  if (world_size < 1 || world_size > kWorldSizeMax) reader.fail("\"world_size\" cannot be");
  manifest.world_size = static_cast<std::uint32_t>(world_size);
  manifest.config = reader.member(json, "config", Json::value_t::object);
  const Json& data = reader.member(json, "data", Json::value_t::object);
  manifest.data = {reader.number(data, "bytes"), reader.text(data, "hash")};
  if (json.contains("numerics")) manifest.numerics = reader.text(json, "numerics");
  const Json& tensors = reader.member(json, "tensors", Json::value_t::object);
  if (tensors.size() > kTensorsMax) return reader.fail("there are too many tensors");
  for (const auto& [name, entry] : tensors.items()) {
    manifest.tensors[name] = read_tensor(reader, name, entry);
    if (!reader.trouble().empty()) return;
  }
  const auto files = json.find("files");
  if (files != json.end()) read_files(reader, *files, manifest);
}

tl::unexpected<Error> refused(std::string what) {
  return tl::unexpected(Error{{}, "reading a manifest: " + std::move(what)});
}

}  // namespace

Manifest make_manifest(Step step, std::uint32_t world_size, nlohmann::json config,
                       ManifestData data, std::span<const TensorSpec> tensors) {
  Manifest manifest{step, world_size, std::move(config), std::move(data), {}, {}, {}};
  for (const TensorSpec& spec : tensors) {
    ManifestTensor& tensor = manifest.tensors[spec.name];
    tensor.dtype = spec.dtype;
    tensor.shape = spec.shape;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const RowRange rows = rows_of_rank(rows_of(spec.shape), world_size, Rank{rank});
      if (rows.count == 0) continue;
      tensor.shards.push_back({shard_name(world_size, Rank{rank}), rows.first, rows.count});
    }
  }
  return manifest;
}

std::string format_manifest(const Manifest& manifest) {
  Json tensors = Json::object();
  for (const auto& [name, tensor] : manifest.tensors) {
    Json shards = Json::array();
    for (const ManifestShard& shard : tensor.shards) {
      shards.push_back(
          {{"file", shard.file}, {"first_row", shard.first_row}, {"rows", shard.rows}});
    }
    tensors[name] = {
        {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"shards", std::move(shards)}};
  }
  nlohmann::ordered_json json;
  json["format"] = kManifestFormat;
  json["step"] = manifest.step.value;
  json["world_size"] = manifest.world_size;
  json["config"] = manifest.config;
  json["data"] = {{"bytes", manifest.data.bytes}, {"hash", manifest.data.hash}};
  if (!manifest.numerics.empty()) json["numerics"] = manifest.numerics;
  if (!manifest.files.empty()) {
    json["files"] = Json::array();
    for (const ManifestFile& file : manifest.files) {
      json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"hash", file.hash}});
    }
  }
  json["tensors"] = std::move(tensors);
  return json.dump(1) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  if (text.size() > kManifestBytesMax) return refused("it is too large");
  const Json json = protocol::read_json(text);
  if (!json.is_object()) return refused("it is not a JSON object, or nests too deep");
  Reader reader;
  Manifest manifest;
  read_manifest(reader, json, manifest);
  if (!reader.trouble().empty()) return refused(reader.trouble());
  return manifest;
}

}  // namespace dlaunch::checkpoint
