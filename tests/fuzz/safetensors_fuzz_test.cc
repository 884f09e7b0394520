// Feeds the fuzz entry every prefix, changes of every byte and every lost byte of a small file that
// has each kind of thing in it. A violation is an exception that leaves the entry, or a
// sanitizer's report.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// A copy on the heap of just this size, so that a sanitizer sees a read beyond it.
void feed(const std::string& bytes) {
  const std::vector<std::uint8_t> copy(bytes.begin(), bytes.end());
  ASSERT_NO_THROW(LLVMFuzzerTestOneInput(copy.data(), copy.size()));
}

std::string small_file() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F16","shape":[3],"data_offsets":[0,6]},)"
      R"("b\u00e9":{"dtype":"F64","shape":[1,1],"data_offsets":[6,14],"x":[-1.5e1,null,true]},)"
      R"("c":{"dtype":"I8","shape":[0,2],"data_offsets":[6,6]}} )";
  return std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0} + header +
         std::string(14, '\x3c');
}

TEST(SafetensorsFuzz, the_file_itself_is_accepted) {
  const std::string file = small_file();
  const auto parsed = shardlm::SafetensorsFile::parse(std::as_bytes(std::span(file)), "fuzz");
  EXPECT_EQ(parsed.tensors().size(), 3U);
}

TEST(SafetensorsFuzz, every_prefix) {
  const std::string file = small_file();
  for (std::size_t n = 0; n <= file.size(); ++n) feed(file.substr(0, n));
}

TEST(SafetensorsFuzz, every_byte_changed) {
  const std::string file = small_file();
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string changed = file;
    for (int bit = 0; bit < 8; ++bit) {
      changed[i] = static_cast<char>(file[i] ^ (1 << bit));
      feed(changed);
    }
    for (const char value : std::string_view("\0\xff\x80\"\\{}[],: 019-.e\n", 19)) {
      changed[i] = value;
      feed(changed);
    }
  }
}

TEST(SafetensorsFuzz, every_lost_byte_with_the_length_made_to_fit) {
  const std::string file = small_file();
  for (std::size_t i = 8; i < file.size(); ++i) {
    std::string changed = file;
    changed.erase(i, 1);
    feed(changed);
    --changed[0];
    feed(changed);
    feed(changed.substr(8));  // and as plain JSON with a tail
  }
}

}  // namespace
