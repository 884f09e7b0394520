// `shardlm tokenize` and `shardlm detokenize`: text to ids and ids to text, exact for any bytes.
#pragma once

#include <iosfwd>

#include "launcher/options.h"

namespace shardlm {

// Both return the exit code 0, or throw Error: model_files for a folder without tokenizer files or
// with bad ones, usage for ids without token and for bad lines of --json-lines (named by number).

/// Ids of the text (of --text, else all bytes of `in`) as one line "1 2 3"; with --json
/// {"ids":[1,2,3],"count":3}; with --json-lines a JSON string a line in, its ids "[1,2,3]" a line
/// out, written before the next line is waited for.
int run_tokenize(const TokenizeOptions& options, std::istream& in, std::ostream& out);

/// The bytes of the ids (of the command line, else of `in`: numbers with blanks or commas between
/// them), nothing added; with --json {"text":"…"}, and with --json-lines an array of ids a line in,
/// its JSON string a line out; in JSON an invalid part of UTF-8 becomes U+FFFD.
int run_detokenize(const DetokenizeOptions& options, std::istream& in, std::ostream& out);

}  // namespace shardlm
