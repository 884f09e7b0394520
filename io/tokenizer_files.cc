#include "io/tokenizer_files.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/merges.h"
#include "io/special_tokens.h"
#include "io/tokenizer_json.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;

void require(const fs::path& file, const fs::path& beside) {
  if (is_there(file)) return;
  fail(ExitCode::model_files, {.what = file.filename().string() + " is missing",
                               .where = file.parent_path(),
                               .remedy = "it belongs to " + beside.filename().string()});
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void read_vocab_and_merges(const fs::path& folder, TokenizerFiles& files) {
  const fs::path vocab = folder / "vocab.json";
  const fs::path merges = folder / "merges.txt";
  require(vocab, merges);
  require(merges, vocab);
  const MappedFile vocab_file(vocab);
  files.vocab.add_all_of_text(text_of(vocab_file), vocab);
  const MappedFile merges_file(merges);
  files.merges = parse_merges_text(text_of(merges_file), files.vocab, merges);
  if (const fs::path path = folder / "tokenizer.json"; is_there(path)) {
    read_added_tokens_array(read_json_file(path), path, files);
  }
}

}  // namespace

std::optional<TokenizerFiles> read_tokenizer_files(const fs::path& folder) {
  TokenizerFiles files;
  files.folder = folder;
  if (is_there(folder / "vocab.json") || is_there(folder / "merges.txt")) {
    read_vocab_and_merges(folder, files);
  } else if (const fs::path path = folder / "tokenizer.json"; is_there(path)) {
    files.source = TokenizerFiles::Source::tokenizer_json;
    read_tokenizer_json(read_json_file(path), path, files);
  } else {
    return std::nullopt;
  }
  read_special_token_files(folder, files);
  if (files.source == TokenizerFiles::Source::vocab_and_merges) add_unlisted_special_tokens(files);
  return files;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

}  // namespace shardlm
