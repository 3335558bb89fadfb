// The columns of a session or message row that hold more than one value.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_ROW_FORMAT_H_
#define MEMORYD_CORE_STORAGE_SQLITE_ROW_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/message.h"

namespace memoryd::sqlite {

// Positions as decimal numbers with commas between: readable in a shell.
std::string EncodePositions(const std::vector<std::int64_t>& positions);
// False when `text` is not of that form.
bool DecodePositions(std::string_view text, std::vector<std::int64_t>& positions);

// call_ids and result_ids: for each id 'c' or 'r', its size (4 bytes, least significant first) and
// its bytes. Empty when the message has none.
std::string EncodeToolIds(const Message& message);
// False when `bytes` are not of that form.
bool DecodeToolIds(std::string_view bytes, Message& message);

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_ROW_FORMAT_H_
