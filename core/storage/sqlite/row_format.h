// The column of a session row that holds more than one value.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_ROW_FORMAT_H_
#define MEMORYD_CORE_STORAGE_SQLITE_ROW_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memoryd::sqlite {

// Positions as decimal numbers with commas between: readable in a shell.
std::string EncodePositions(const std::vector<std::int64_t>& positions);
// False when `text` is not of that form.
bool DecodePositions(std::string_view text, std::vector<std::int64_t>& positions);

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_ROW_FORMAT_H_
