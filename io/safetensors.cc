#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "io/json.h"
#include "io/printable.h"

namespace shardlm {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int kMaxDepth = 16;
constexpr std::string_view kMetadata = "__metadata__";

// A tensor and its range of the data, not yet known to fit in with the others.
struct Entry {
  HostTensor tensor;
  std::uint64_t begin = 0, end = 0;

  std::string name() const { return "tensor " + in_quotes(tensor.name); }
  std::string range() const { return fmt::format("[{}, {})", begin, end); }
};

std::string_view header_text(std::span<const std::byte> bytes, const std::string& file) {
  const auto refuse = [&file](const std::string& what, std::string expected, std::string found) {
    fail(ExitCode::model_files, {.what = "not a safetensors file: " + what,
                                 .expected = std::move(expected),
                                 .found = std::move(found),
                                 .where = file});
  };
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) {
    refuse("too short", "at least 8 bytes", fmt::format("{}", bytes.size()));
  }
  std::memcpy(&length, bytes.data(), sizeof length);
  const std::uint64_t rest = bytes.size() - sizeof length;
  const std::uint64_t limit = std::min(rest, kMaxSafetensorsHeader);
  if (length > limit) {
    refuse("header length",
           fmt::format("at most {} ({})", limit, limit == rest ? "the rest of the file" : "limit"),
           fmt::format("{}", length));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof length, length);
  if (!text.starts_with('{')) {
    refuse("first byte of the header", "'{'",
           text.empty() ? "an empty header" : in_quotes(text.substr(0, 1)));
  }
  return text;
}

std::map<std::string, std::string> read_metadata(const json& value, const std::string& file) {
  const auto refuse = [&file](const std::string& what, std::string expected, const json& found) {
    fail(
        ExitCode::model_files,
        {.what = what, .expected = std::move(expected), .found = found.type_name(), .where = file});
  };
  if (!value.is_object()) refuse("__metadata__", "an object", value);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) refuse("__metadata__: value of " + in_quotes(key), "a string", text);
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

// Reads one member of the header object: {"dtype": …, "shape": […], "data_offsets": [begin, end]}.
class EntryReader {
 public:
  EntryReader(const std::string& name, const json& value, const std::string& file)
      : name_(name), value_(value), file_(file) {}

  Entry read(std::span<const std::byte> data) const {
    if (!value_.is_object()) refuse("its entry", "an object", value_.type_name());
    Entry entry;
    entry.tensor = {.name = name_, .dtype = dtype(), .shape = shape(), .bytes = {}, .file = file_};
    std::tie(entry.begin, entry.end) = offsets(data.size());
    const std::uint64_t size = byte_count(entry.tensor);
    if (entry.end - entry.begin != size) {
      refuse("data_offsets",
             fmt::format("{} bytes for {} {}", size, shardlm::name(entry.tensor.dtype),
                         shape_text(entry.tensor.shape)),
             fmt::format("{} in {}", entry.end - entry.begin, entry.range()));
    }
    entry.tensor.bytes = data.subspan(entry.begin, size);
    return entry;
  }

 private:
  const json& member(const char* key) const {
    const auto found = value_.find(key);
    if (found == value_.end()) refuse(key, "to be given", "nothing");
    return *found;
  }

  DType dtype() const {
    const json& text = member("dtype");
    if (!text.is_string()) refuse("dtype", "a string", text.type_name());
    const auto dtype = parse_dtype(text.get_ref<const std::string&>());
    if (!dtype) {
      refuse("dtype", fmt::format("one of {}", float_dtype_names()),
             in_quotes(text.get_ref<const std::string&>()));
    }
    return *dtype;
  }

  std::vector<std::int64_t> shape() const {
    const json& dims = member("shape");
    if (!dims.is_array()) refuse("shape", "an array", dims.type_name());
    std::vector<std::int64_t> shape;
    for (const json& dim : dims) {
      shape.push_back(static_cast<std::int64_t>(
          whole_number("shape", dim, std::numeric_limits<std::int64_t>::max())));
    }
    return shape;
  }

  std::pair<std::uint64_t, std::uint64_t> offsets(std::uint64_t data_size) const {
    const json& pair = member("data_offsets");
    if (!pair.is_array() || pair.size() != 2) {
      refuse("data_offsets", "two numbers", printable(pair.dump()));
    }
    constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t begin = whole_number("data_offsets", pair[0], kMax);
    const std::uint64_t end = whole_number("data_offsets", pair[1], kMax);
    if (end < begin) refuse("data_offsets", "begin <= end", printable(pair.dump()));
    if (end > data_size) {
      refuse("data_offsets", fmt::format("an end within the {} bytes of data", data_size),
             fmt::format("[{}, {}); the file is cut short or damaged", begin, end));
    }
    return {begin, end};
  }

  std::uint64_t whole_number(const char* what, const json& value, std::uint64_t max) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max) {
      refuse(what, fmt::format("whole numbers from 0 to {}", max), printable(value.dump()));
    }
    return value.get<std::uint64_t>();
  }

  // Products are taken from both sides: the element count from the left, the strides from the
  // right. A 0 must not hide an overflow that another order of multiplication would meet.
  std::uint64_t byte_count(const HostTensor& tensor) const {
    std::optional<std::int64_t> elements = 1, stride = 1;
    const std::size_t rank = tensor.shape.size();
    for (std::size_t i = 0; i < rank && elements && stride; ++i) {
      elements = checked_mul(*elements, tensor.shape[i]);
      stride = checked_mul(*stride, tensor.shape[rank - 1 - i]);
    }
    std::optional<std::uint64_t> n_bits;
    if (elements && stride) {
      n_bits =
          checked_mul<std::uint64_t>(static_cast<std::uint64_t>(*elements), bits(tensor.dtype));
    }
    if (!n_bits) {
      refuse("shape", "a size that 64 bits can hold", printable(shape_text(tensor.shape)));
    }
    if (*n_bits % 8 != 0) {
      refuse("shape", "a whole number of bytes",
             fmt::format("{} elements of {}", *elements, shardlm::name(tensor.dtype)));
    }
    return *n_bits / 8;
  }

  [[noreturn]] void refuse(const std::string& what, std::string expected, std::string found) const {
    fail(ExitCode::model_files, {.what = "tensor " + in_quotes(name_) + ": " + what,
                                 .expected = std::move(expected),
                                 .found = std::move(found),
                                 .where = file_});
  }

  const std::string& name_;
  const json& value_;
  const std::string& file_;
};

[[noreturn]] void refuse_neighbours(const Entry* before, const Entry& entry,
                                    const std::string& file) {
  const std::uint64_t free = before == nullptr ? 0 : before->end;
  if (before != nullptr && entry.begin < free) {
    fail(ExitCode::model_files, {.what = before->name() + " and " + entry.name() + " overlap",
                                 .expected = "ranges apart",
                                 .found = before->range() + " and " + entry.range(),
                                 .where = file});
  }
  fail(ExitCode::model_files, {.what = entry.name() + ": bytes before it belong to no tensor",
                               .expected = fmt::format("its data to begin at {}", free),
                               .found = entry.range(),
                               .where = file});
}

// The ranges, taken in order, must tile the data. An empty range sorts before a neighbour that
// begins where it does.
void check_layout(const std::vector<Entry>& sorted, std::uint64_t data_size,
                  const std::string& file) {
  const Entry* before = nullptr;
  for (const Entry& entry : sorted) {
    if (entry.begin != (before == nullptr ? 0 : before->end)) {
      refuse_neighbours(before, entry, file);
    }
    before = &entry;
  }
  const std::uint64_t used = before == nullptr ? 0 : before->end;
  if (used == data_size) return;
  fail(ExitCode::model_files, {.what = "bytes follow the last tensor" +
                                       (before ? ", " + in_quotes(before->tensor.name) : ""),
                               .expected = fmt::format("{} bytes of data", used),
                               .found = fmt::format("{}", data_size),
                               .where = file});
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  MappedFile mapping(path);
  SafetensorsFile file = parse(mapping.bytes(), mapping.path());
  file.mapping_ = std::move(mapping);
  return file;
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, std::string file_name) {
  SafetensorsFile file;
  file.path_ = std::move(file_name);
  refuse_pointer_text(bytes, file.path_);
  file.header_ = header_text(bytes, file.path_);
  file.data_ = bytes.subspan(8 + file.header_.size());
  const json header = parse_json(file.header_, file.path_ + ": header", kMaxDepth);
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      file.metadata_ = read_metadata(value, file.path_);
    } else {
      entries.push_back(EntryReader(name, value, file.path_).read(file.data_));
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_layout(entries, file.data_.size(), file.path_);
  for (Entry& entry : entries) file.tensors_.push_back(std::move(entry.tensor));
  return file;
}

void SafetensorsFile::check_unchanged() const {
  if (mapping_) mapping_->check_unchanged();
}

}  // namespace shardlm
