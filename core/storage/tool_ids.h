// The column tool_ids of a message row, the same in every store: what few messages have besides an
// id of their own.
#ifndef MEMORYD_CORE_STORAGE_TOOL_IDS_H_
#define MEMORYD_CORE_STORAGE_TOOL_IDS_H_

#include <string>
#include <string_view>

#include "core/model/message.h"

namespace memoryd {

// call_ids, then result_ids: of each list the number of ids, then each one's size and bytes. Then
// expire_us, unless that is 0. Numbers have seven bits a byte, low bits first, the eighth set in
// all but the last. Empty when the message has nothing of it.
std::string EncodeToolIds(const Message& message);

// Adds to what `message` has. False when `bytes` are not of that form.
bool DecodeToolIds(std::string_view bytes, MessageDraft& message);

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_TOOL_IDS_H_
