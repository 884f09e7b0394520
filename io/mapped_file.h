// A file as read-only memory.
#pragma once

#include <cstddef>
#include <ctime>
#include <filesystem>
#include <span>
#include <string>

namespace shardlm {

/// Maps a whole regular file: pages are read when they are touched, so a file of any size costs
/// only what is looked at. bytes() keeps its address when the object is moved.
///
/// A file that another program cuts short while it is mapped cannot be read safely: touching a page
/// past its new end kills the process (SIGBUS), as with every mapped file. Replace a model's file
/// by renaming a new one over it, as write_safetensors() does: the mapping then keeps the old
/// bytes. check_unchanged() finds a file that was changed in place.
class MappedFile {
 public:
  /// Error(model_files) with the system's reason for a file that is missing, unreadable, a folder,
  /// or no regular file. An empty file is allowed: bytes() is empty.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  /// Error(model_files) if the file's size or time of change differ from those when it was mapped.
  void check_unchanged() const;

 private:
  MappedFile() = default;
  void swap(MappedFile& other) noexcept;

  std::string path_;
  int descriptor_ = -1;  // kept for check_unchanged(), whatever stands at path_ by then
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::timespec changed_ = {};
};

/// Gives the memory of whole pages inside these bytes of a MappedFile back to the system. They may
/// be read again: the file stands behind them.
void release_pages(std::span<const std::byte> bytes);

/// Error(model_files) if the bytes are the short text that stands for a large file in a Git clone
/// made without large-file support ("version …", "oid …", "size …").
void refuse_pointer_text(std::span<const std::byte> bytes, const std::string& file);

}  // namespace shardlm
