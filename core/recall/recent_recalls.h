// What was recalled for questions lately, so that it stays as it is while a question is worked on.
#ifndef MEMORYD_CORE_RECALL_RECENT_RECALLS_H_
#define MEMORYD_CORE_RECALL_RECENT_RECALLS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "core/model/session.h"
#include "core/recall/update_context.h"

namespace memoryd {

// Where the messages stand that were recalled, and how well they answer; no text of theirs. Of all
// sessions the newest 4,096 questions are kept, some 1 MiB, each for an hour after it was last
// asked for: providers keep no prompt longer. Any thread may call any method.
class RecentRecalls {
 public:
  struct Recalled {
    std::int64_t position = 0;
    double score = 0;
    friend bool operator==(const Recalled&, const Recalled&) = default;
  };

  static constexpr std::size_t kMaxQuestions = 4096;
  static constexpr std::int64_t kKeptForUs = 3'600'000'000;

  // What was kept for the same human's message, which may be nothing; nullopt when none is kept.
  // The same are messages of equal words if no more human's messages lead up to this one, and the
  // message ahead of it is the same or, of a context that has been cut, gone.
  std::optional<std::vector<Recalled>> Find(const SessionKey& key, std::uint64_t generation,
                                            const Question& question, std::int64_t now_us)
      MEMORYD_EXCLUDES(mutex_);
  // Keeps it in place of what was kept for a question of equal words in the session.
  void Keep(const SessionKey& key, std::uint64_t generation, const Question& question,
            std::int64_t now_us, std::vector<Recalled> recalled) MEMORYD_EXCLUDES(mutex_);

  std::size_t size() MEMORYD_EXCLUDES(mutex_);

 private:
  struct Entry {
    std::string name;    // Digest of session and question.
    std::string before;  // Digest; empty without a message ahead of the question.
    std::size_t humans = 0;
    std::int64_t used_us = 0;
    std::vector<Recalled> recalled;
  };
  using Order = std::list<Entry>;  // Most recently used first.

  void Drop(Order::iterator entry) MEMORYD_REQUIRES(mutex_);

  Mutex mutex_;
  Order order_ MEMORYD_GUARDED_BY(mutex_);
  // The keys are views of the entries' names.
  std::unordered_map<std::string_view, Order::iterator> entries_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RECALL_RECENT_RECALLS_H_
