// What servers of schema 11 and before expect of what is stored, and leave there: they may run
// beside newer ones, and after them (docs/adr/0068-flags-and-lists.md). It goes with the step that
// they can't work on.
#ifndef MEMORYD_CORE_STORAGE_BEFORE_SCHEMA_12_H_
#define MEMORYD_CORE_STORAGE_BEFORE_SCHEMA_12_H_

#include <cstdint>

#include "core/model/session.h"

namespace memoryd {

// They have no column for `has_timed_items`: drop_us is odd where it is true.
inline std::int64_t StoredDropUs(const SessionRow& row) {
  return row.has_timed_items && row.drop_us > 0 ? row.drop_us | 1 : row.drop_us;
}

// From both columns. Where one of these servers wrote last, only the time tells whether there are
// such items: the other column is not written, and may still say that there are some.
inline void ReadDropUs(std::int64_t drop_us, bool has_timed_items, SessionRow& row) {
  row.drop_us = drop_us & ~std::int64_t{1};
  row.has_timed_items = drop_us > 0 && (has_timed_items || (drop_us & 1) != 0);
}

// They have no memoryd_forgotten: what is forgotten is garbage of this generation for them, with
// the time as its end.
inline constexpr std::uint64_t kForgottenGeneration = 0;

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_BEFORE_SCHEMA_12_H_
