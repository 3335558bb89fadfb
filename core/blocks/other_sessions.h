// What a block of kind `session` needs of the sessions beside its own.
#ifndef MEMORYD_CORE_BLOCKS_OTHER_SESSIONS_H_
#define MEMORYD_CORE_BLOCKS_OTHER_SESSIONS_H_

#include "core/blocks/block.h"
#include "core/model/session.h"

namespace memoryd {

// Any thread; nothing waits. `done` runs once, on the calling or another thread, shortly after the
// request's deadline at the latest.
class OtherSessions {
 public:
  virtual ~OtherSessions() = default;

  // What the blocks of `other` say to the messages of the request, those of kind `session` left
  // out; nothing when there is no such session.
  virtual void Show(const SessionKey& other, RenderRequest request,
                    Block::Done<BlockContent> done) = 0;

  // As Show(), of those blocks alone that are stable().
  virtual void ShowStable(const SessionKey& other, RenderRequest request,
                          Block::Done<BlockContent> done) = 0;

  // Puts the messages of the job to `other`, once for the job however often it is asked for, unless
  // the session of the request has been cut meanwhile. The result has the request's state.
  // NOT_FOUND `SESSION_NOT_FOUND`; the errors of a Put.
  virtual void HandOn(const SessionKey& other, FeedRequest request,
                      Block::Done<FeedResult> done) = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_OTHER_SESSIONS_H_
