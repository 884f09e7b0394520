// Fuzz entry of the safetensors and JSON readers. With libFuzzer (clang):
//   clang++ -std=c++20 -I. -fsanitize=fuzzer,address,undefined tests/fuzz/safetensors_fuzz.cc
//     io/{safetensors,json,mapped_file,printable}.cc base/{dtype,error,host_tensor}.cc -lfmt
//   ./a.out tests/data/safetensors
// In the test suite safetensors_fuzz_test.cc feeds it every prefix and every change of one byte.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace {

using shardlm::check;
using shardlm::HostTensor;
using shardlm::SafetensorsFile;

// What every accepted file must fulfil: the tensors tile the data, and all of them can be read.
void check_file(const SafetensorsFile& file, std::span<const std::byte> bytes) {
  check(file.file_bytes() == bytes.size(), "size");
  const std::byte* position = file.data().data();
  for (const HostTensor& tensor : file.tensors()) {
    check(tensor.bytes.data() == position, "a gap or an overlap");
    position += tensor.bytes.size();
    const auto elements = static_cast<std::uint64_t>(tensor.elements());
    check(elements * bits(tensor.dtype) == tensor.bytes.size() * 8, "size of a tensor");
    if (!is_float(tensor.dtype)) continue;
    std::vector<float> values(std::min<std::uint64_t>(elements, 1000));
    tensor.read(static_cast<std::int64_t>(elements - values.size()), values);
  }
  check(position == bytes.data() + bytes.size(), "bytes left over");
}

// Runs a reader: it succeeds, or throws an Error that blames the file and is short plain text.
template <typename Reader>
void accept_or_refuse(Reader reader) {
  try {
    reader();
  } catch (const shardlm::Error& error) {
    const std::string_view text = error.what();
    check(error.code() == shardlm::ExitCode::model_files, text);
    check(text.starts_with("fuzz") && text.size() < 2000, "message");
    check(std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; }), "plain text");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  accept_or_refuse([&] { check_file(SafetensorsFile::parse(bytes, "fuzz"), bytes); });
  accept_or_refuse([&] {
    const auto value = shardlm::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz", 16);
    check(value == shardlm::parse_json(value.dump(), "fuzz", 16) || !value.is_structured(), "dump");
  });
  return 0;
}
