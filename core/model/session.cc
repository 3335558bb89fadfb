#include "core/model/session.h"

namespace memoryd {

bool IsAppend(const SessionRow& before, const SessionRow& after) {
  // All else has to be equal, also what this file has not heard of.
  SessionRow appended = before;
  appended.revision = after.revision;
  appended.next_position = after.next_position;
  appended.active_count = after.active_count;
  appended.active_tokens = after.active_tokens;
  appended.message_bytes = after.message_bytes;
  appended.update_us = after.update_us;
  appended.commit_tag = after.commit_tag;
  return appended == after;
}

}  // namespace memoryd
