// Replies that a session's next requests may ask for again.
#ifndef MEMORYD_CORE_SESSIONS_RECENT_REQUESTS_H_
#define MEMORYD_CORE_SESSIONS_RECENT_REQUESTS_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "core/storage/store.h"

namespace memoryd {

// The latest requests with a request_id that this server committed for a session. What is not here
// may still be in the store. A copy shares the records.
class RecentRequests {
 public:
  static constexpr std::size_t kMost = 32;

  // In place of the oldest one where there are kMost.
  void Add(RequestRecord record);
  // Null where it is not among them.
  const RequestRecord* Find(std::string_view request_id) const;
  void Clear();

  std::size_t size() const { return records_.size(); }
  // Approximate memory that they take.
  std::size_t bytes() const { return bytes_; }

 private:
  // Each request looks for its id among all of them, so their hashes lie together.
  std::vector<std::size_t> hashes_;
  std::vector<std::shared_ptr<const RequestRecord>> records_;  // At the places of their hashes.
  std::size_t next_ = 0;  // The place of the oldest one, once there are kMost.
  std::size_t bytes_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_RECENT_REQUESTS_H_
