// Broadcast, gather and barrier by messages.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/meetings.h"
#include "comm/messages.h"

namespace shardlm {

/// Every message goes straight from the rank that has it to the rank that wants it, also in
/// broadcast and barrier, so that a rank that waits knows which rank is missing. `messages` must
/// outlive it; sent_bytes() is that of `messages`, whoever else sends by it.
std::unique_ptr<Meetings> make_message_meetings(Messages& messages);

}  // namespace shardlm
