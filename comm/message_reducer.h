// All-reduces by messages.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "comm/all_reducer.h"
#include "comm/messages.h"

namespace shardlm {

/// `algorithm`: one of those by messages (direct … tree). Returns one sum, but for `direct` with
/// the wire format f32: all addends in rank order, so that the caller sums them on the way to where
/// they go. Fixed point wants the wire format f32. All ranks of `messages` take part; it and the
/// back end must outlive the reducer. sent_bytes() is that of `messages`, whoever else sends by it.
std::unique_ptr<AllReducer> make_message_reducer(Messages& messages, Backend& backend,
                                                 Algorithm algorithm, WireFormat wire);

}  // namespace shardlm
