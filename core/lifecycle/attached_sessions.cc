#include "core/lifecycle/attached_sessions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/mutex.h"
#include "core/blocks/block.h"
#include "core/blocks/block_traits.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session_cache.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

// Tells `done` that `work` has thrown. The executor, which counts exceptions, gets it too.
template <typename T, typename Work>
void Guarded(const std::function<void(absl::StatusOr<T>)>& done, const Work& work) {
  try {
    work();
  } catch (...) {
    done(CaughtException());
    throw;
  }
}

}  // namespace

// ---- what another session's blocks say ----

class AttachedSessions::Showing : public std::enable_shared_from_this<Showing> {
 public:
  Showing(RenderRequest request, bool stable_only, Block::Done<BlockContent> done)
      : request_(std::move(request)), stable_only_(stable_only), done_(std::move(done)) {}

  void Start(CachedSession& other, const Options& options) {
    std::shared_ptr<const SessionConfig> config;
    std::map<std::string, std::shared_ptr<const BlockState>> states;
    {
      MutexLock lock(other.mutex);
      if (other.session.exists()) {
        config = other.session.config;
        states = other.session.blocks;
      }
    }
    if (config == nullptr || config->blocks.empty()) {
      done_(BlockContent());
      return;
    }
    auto blocks = options.blocks->Of(other, config);
    if (!blocks.ok()) {
      done_(blocks.status());
      return;
    }
    for (std::size_t i = 0; i < config->blocks.size(); ++i) {
      const std::shared_ptr<const Block>& block = (**blocks)[i];
      if (config->blocks[i].traits->other_session().has_value()) continue;
      if (block->stable() || !stable_only_) blocks_.push_back(block);
    }
    if (blocks_.empty()) {
      done_(BlockContent());
      return;
    }
    {
      MutexLock lock(mutex_);
      contents_.resize(blocks_.size(), absl::UnknownError("the block has not answered"));
      left_ = blocks_.size();
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      RenderRequest render = request_;
      render.session = {other.key, config->counting.profile, request_.session.trace,
                        config->zone()};
      const auto state = states.find(blocks_[i]->name());
      render.state = state == states.end() ? nullptr : state->second;
      blocks_[i]->Render(std::move(render),
                         [self = shared_from_this(), i](absl::StatusOr<BlockContent> content) {
                           self->Answered(i, std::move(content));
                         });
    }
  }

 private:
  void Answered(std::size_t i, absl::StatusOr<BlockContent> content) {
    {
      MutexLock lock(mutex_);
      contents_[i] = std::move(content);
      if (--left_ > 0) return;
    }
    done_(Whole());
  }

  // What is to be left out first has the lowest rank: of the blocks with the highest priority
  // number, and in a block what that ranks lowest.
  BlockContent Whole() {
    MutexLock lock(mutex_);
    BlockContent whole;
    std::vector<std::pair<std::int64_t, std::int64_t>> ranks;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (!contents_[i].ok()) {
        whole.missing.emplace_back(blocks_[i]->name(), contents_[i].status());
        continue;
      }
      const std::int64_t priority = blocks_[i]->priority();
      for (BlockPart& part : contents_[i]->parts) {
        ranks.emplace_back(priority == 0 ? 1 : -priority, part.rank);
        whole.parts.push_back(std::move(part));
      }
      std::move(contents_[i]->messages.begin(), contents_[i]->messages.end(),
                std::back_inserter(whole.messages));
    }
    auto order = ranks;
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      whole.parts[i].rank = std::lower_bound(order.begin(), order.end(), ranks[i]) - order.begin();
    }
    return whole;
  }

  const RenderRequest request_;
  const bool stable_only_;
  const Block::Done<BlockContent> done_;
  BlockSet blocks_;
  Mutex mutex_;
  std::vector<absl::StatusOr<BlockContent>> contents_ MEMORYD_GUARDED_BY(mutex_);
  std::size_t left_ MEMORYD_GUARDED_BY(mutex_) = 0;
};

void AttachedSessions::Show(const SessionKey& other, RenderRequest request,
                            Block::Done<BlockContent> done) {
  Show(other, std::move(request), false, std::move(done));
}

void AttachedSessions::ShowStable(const SessionKey& other, RenderRequest request,
                                  Block::Done<BlockContent> done) {
  Show(other, std::move(request), true, std::move(done));
}

void AttachedSessions::Show(const SessionKey& other, RenderRequest request, bool stable_only,
                            Block::Done<BlockContent> done) {
  const std::shared_ptr<CachedSession> session = options_.cache->Acquire(other);
  auto showing = std::make_shared<Showing>(std::move(request), stable_only, done);
  options_.loader->WithCurrent(session, [this, session, showing = std::move(showing),
                                         done = std::move(done)](const absl::Status& status) {
    if (!status.ok()) {
      done(Reported(status));
      return;
    }
    options_.calls->RunAdmitted(session->key.tenant, [this, session, showing, done] {
      Guarded(done, [&] { showing->Start(*session, options_); });
    });
  });
}

// ---- messages for another session ----

struct AttachedSessions::Handing {
  FeedRequest request;
  Block::Done<FeedResult> done;
  std::shared_ptr<CachedSession> other;
  std::shared_ptr<CachedSession> source;
  std::uint64_t generation = 0;  // Of the other session.

  void Done() { done(FeedResult{std::move(request.state.state), {}, {}}); }
};

void AttachedSessions::HandOn(const SessionKey& other, FeedRequest request,
                              Block::Done<FeedResult> done) {
  // Counted as a call, so that the engine stands until it has ended.
  const auto read = options_.calls->Begin<FeedResult>(request.session.key.tenant, request.deadline,
                                                      std::move(done));
  if (read == nullptr) return;
  auto call = std::make_shared<Handing>();
  call->other = options_.cache->Acquire(other);
  call->source = options_.cache->Acquire(request.session.key);
  call->request = std::move(request);
  call->done = [read](absl::StatusOr<FeedResult> result) { read->Finish(std::move(result)); };
  ConfirmOther(call);
}

void AttachedSessions::ConfirmOther(const std::shared_ptr<Handing>& call) {
  options_.loader->WithCurrent(call->other, [this, call](const absl::Status& status) {
    if (!status.ok()) {
      call->done(status);
      return;
    }
    bool exists = false;
    {
      MutexLock lock(call->other->mutex);
      exists = call->other->session.exists();
      call->generation = call->other->session.row.generation;
    }
    if (exists) {
      ConfirmSource(call);
    } else {
      call->done(Error(absl::StatusCode::kNotFound, "SESSION_NOT_FOUND",
                       "there is no session `" + call->other->key.session +
                           "` that messages could be handed on to"));
    }
  });
}

void AttachedSessions::ConfirmSource(const std::shared_ptr<Handing>& call) {
  options_.loader->WithCurrent(call->source, [this, call](const absl::Status& status) {
    if (!status.ok()) {
      call->done(status);
      return;
    }
    bool stands = false;
    {
      CachedSession& source = *call->source;
      MutexLock lock(source.mutex);
      stands = source.session.exists() &&
               source.session.row.block_generation == call->request.generation;
    }
    if (stands) {
      options_.calls->RunAdmitted(call->source->key.tenant,
                                  [this, call] { Guarded(call->done, [&] { Put(call); }); });
    } else {
      // The job is of nobody any more, and its end will not count.
      call->Done();
    }
  });
}

void AttachedSessions::Put(const std::shared_ptr<Handing>& call) {
  WriteRequest write;
  auto& put = write.command.emplace<commands::Put>();
  put.only_generation = call->generation;
  write.key = call->other->key;
  write.trace = call->request.session.trace;
  write.deadline = call->request.deadline;
  for (const BlockMessage& message : call->request.messages) {
    write.byte_size += message.row->body.size();
  }
  const HandedOn from{call->source->key.session, call->request.job_id, call->request.messages};
  if (absl::Status status = options_.encode(from, write); !status.ok()) {
    call->done(std::move(status));
    return;
  }
  options_.writes->Submit(std::move(write), [call](const absl::StatusOr<WriteReply>& reply) {
    if (reply.ok()) {
      call->Done();
    } else {
      call->done(reply.status());
    }
  });
}

}  // namespace memoryd
