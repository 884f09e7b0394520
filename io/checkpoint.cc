#include "io/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "io/json.h"
#include "io/printable.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// True also for a link that leads nowhere (an interrupted download): opening it then says so.
bool has_entry(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

[[noreturn]] void refuse_folder_without_weights(const fs::path& dir) {
  constexpr std::array kOtherFormats = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                        "tf_model.h5", "flax_model.msgpack"};
  std::string remedy;
  for (const char* other : kOtherFormats) {
    if (!has_entry(dir / other) || !remedy.empty()) continue;
    remedy = fmt::format(
        "{} is there: convert it to safetensors (transformers: "
        "model.save_pretrained(folder, safe_serialization=True))",
        other);
  }
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().extension() == ".safetensors") names.insert(entry.path().filename().string());
  }
  fail(ExitCode::model_files,
       {.what = "no weights in the model folder",
        .expected = fmt::format("{} or {}", kSingleFile, kIndexFile),
        .found = names.empty() ? "neither" : fmt::format("only {}", fmt::join(names, ", ")),
        .where = dir.string(),
        .remedy = remedy});
}

void require_folder(const fs::path& dir) {
  std::error_code error;
  const fs::file_status status = fs::status(dir, error);
  const auto refuse = [&dir](const std::string& what) {
    fail(ExitCode::model_files,
         {.what = what,
          .where = dir.string(),
          .remedy = "name the folder that holds config.json and the weights"});
  };
  if (status.type() == fs::file_type::not_found) refuse("the model folder does not exist");
  if (error) refuse("the model folder cannot be examined: " + error.message());
  if (!fs::is_directory(status)) refuse("the model is a file, not a folder");
  const fs::directory_iterator first_entry(dir, error);
  if (error) refuse("the model folder cannot be read: " + error.message());
}

// What model.safetensors.index.json says.
struct Index {
  std::map<std::string, std::string> weight_map;  // tensor -> shard
  std::set<std::string> shards;
  json total_size;  // null if not given
};

void require_plain_name(const std::string& shard, const std::string& tensor,
                        const std::string& file) {
  const bool plain = !shard.empty() && shard != "." && shard != ".." &&
                     shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (plain) return;
  fail(ExitCode::model_files, {.what = "weight_map: shard of " + in_quotes(tensor),
                               .expected = "a plain file name",
                               .found = in_quotes(shard),
                               .where = file});
}

Index read_index(const fs::path& path) {
  const json value = read_json_file(path);
  const std::string file = path.string();
  const auto refuse = [&file](const std::string& what, const char* expected, const json& found) {
    fail(ExitCode::model_files,
         {.what = what, .expected = expected, .found = found.type_name(), .where = file});
  };
  if (!value.is_object()) refuse("the index", "an object", value);
  const json map = value.value("weight_map", json());
  if (!map.is_object() || map.empty()) refuse("weight_map", "an object with tensors", map);
  Index index;
  for (const auto& [tensor, shard] : map.items()) {
    if (!shard.is_string())
      refuse("weight_map: shard of " + in_quotes(tensor), "a file name", shard);
    require_plain_name(shard.get_ref<const std::string&>(), tensor, file);
    index.weight_map.emplace(tensor, shard.get<std::string>());
    index.shards.insert(shard.get<std::string>());
  }
  const auto metadata = value.find("metadata");
  if (metadata != value.end() && metadata->is_object()) {
    index.total_size = metadata->value("total_size", json());
  }
  return index;
}

std::string first_few(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  const auto shown = std::span(names).first(std::min(names.size(), kShown));
  return fmt::format("{}{}", fmt::join(shown, ", "), shown.size() < names.size() ? ", ..." : "");
}

void require_shards(const Index& index, const fs::path& path) {
  std::vector<std::string> missing;
  for (const std::string& shard : index.shards) {
    if (!has_entry(path.parent_path() / shard)) missing.push_back(shard);
  }
  if (missing.empty()) return;
  fail(ExitCode::model_files, {.what = fmt::format("{} of {} weight files are missing",
                                                   missing.size(), index.shards.size()),
                               .expected = "every shard that the index names",
                               .found = "no " + first_few(missing),
                               .where = path.string(),
                               .remedy = "download the rest of the model"});
}

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

std::optional<std::string> total_size_warning(const Index& index,
                                              const std::vector<SafetensorsFile>& files,
                                              const std::string& path) {
  std::uint64_t sum = 0;  // of sizes that were all mapped: cannot overflow
  for (const SafetensorsFile& file : files) sum += file.data().size();
  if (index.total_size.is_null() || index.total_size == json(sum)) return std::nullopt;
  return fmt::format("{}: total_size is {}, but the tensors hold {} bytes", path,
                     printable(index.total_size.dump()), sum);
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& model_dir) {
  require_folder(model_dir);
  Checkpoint checkpoint;
  const bool single = has_entry(model_dir / kSingleFile);
  const bool index = has_entry(model_dir / kIndexFile);
  if (!single && !index) refuse_folder_without_weights(model_dir);
  if (single && index) {
    checkpoint.warnings_.push_back(fmt::format("{}: {} is used, {} beside it is ignored",
                                               model_dir.string(), kSingleFile, kIndexFile));
  }
  if (single) {
    checkpoint.files_.push_back(SafetensorsFile::open(model_dir / kSingleFile));
    checkpoint.collect();
  } else {
    checkpoint.open_sharded(model_dir / kIndexFile);
  }
  return checkpoint;
}

void Checkpoint::open_sharded(const fs::path& path) {
  const Index index = read_index(path);
  require_shards(index, path);
  for (const std::string& shard : index.shards) {
    files_.push_back(SafetensorsFile::open(path.parent_path() / shard));
  }
  collect();
  for (const auto& [name, shard] : index.weight_map) {
    const HostTensor* tensor = find(name);
    const std::string where = tensor == nullptr ? "" : file_name(tensor->file);
    if (where == shard) continue;
    fail(ExitCode::model_files, {.what = "weight_map: tensor " + in_quotes(name),
                                 .expected = "it in " + shard,
                                 .found = tensor == nullptr ? "it in no shard" : "it in " + where,
                                 .where = path.string()});
  }
  std::vector<std::string> extra;
  for (const HostTensor* tensor : by_name_) {
    if (!index.weight_map.contains(tensor->name)) extra.push_back(in_quotes(tensor->name));
  }
  if (!extra.empty()) {
    warnings_.push_back(
        fmt::format("{}: {} tensors of the shards are not in weight_map (loaded all the same): {}",
                    path.string(), extra.size(), first_few(extra)));
  }
  if (auto warning = total_size_warning(index, files_, path.string())) {
    warnings_.push_back(*std::move(warning));
  }
}

void Checkpoint::collect() {
  for (const SafetensorsFile& file : files_) {
    for (const HostTensor& tensor : file.tensors()) by_name_.push_back(&tensor);
  }
  const auto name_of = [](const HostTensor* tensor) -> const std::string& { return tensor->name; };
  std::ranges::stable_sort(by_name_, {}, name_of);
  const auto twice = std::ranges::adjacent_find(by_name_, {}, name_of);
  if (twice == by_name_.end()) return;
  fail(ExitCode::model_files, {.what = "tensor " + in_quotes((*twice)->name) + " is in two shards",
                               .expected = "it in one",
                               .found = "it also in " + file_name(twice[1]->file),
                               .where = (*twice)->file});
}

const HostTensor* Checkpoint::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      by_name_, name, {}, [](const HostTensor* tensor) { return std::string_view(tensor->name); });
  return found != by_name_.end() && (*found)->name == name ? *found : nullptr;
}

std::uint64_t Checkpoint::file_bytes() const {
  std::uint64_t sum = 0;
  for (const SafetensorsFile& file : files_) sum += file.file_bytes();
  return sum;
}

void Checkpoint::check_unchanged() const {
  for (const SafetensorsFile& file : files_) file.check_unchanged();
}

}  // namespace shardlm
