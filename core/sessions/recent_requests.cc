#include "core/sessions/recent_requests.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "core/storage/store.h"

namespace memoryd {
namespace {

std::size_t HashOf(std::string_view request_id) {
  return std::hash<std::string_view>()(request_id);
}

std::size_t BytesOf(const RequestRecord& record) {
  return sizeof(RequestRecord) + record.request_id.size() + record.fingerprint.size() +
         record.reply.size();
}

}  // namespace

void RecentRequests::Add(RequestRecord record) {
  const std::size_t hash = HashOf(record.request_id);
  auto kept = std::make_shared<const RequestRecord>(std::move(record));
  if (records_.size() == records_.capacity() && records_.size() < kMost) {
    const std::size_t more = std::min(kMost, 2 * records_.size() + 2);
    hashes_.reserve(more);
    records_.reserve(more);
  }
  // Nothing throws from here on.
  bytes_ += BytesOf(*kept);
  if (records_.size() < kMost) {
    hashes_.push_back(hash);
    records_.push_back(std::move(kept));
    return;
  }
  bytes_ -= BytesOf(*records_[next_]);
  hashes_[next_] = hash;
  records_[next_] = std::move(kept);
  next_ = (next_ + 1) % kMost;
}

const RequestRecord* RecentRequests::Find(std::string_view request_id) const {
  const std::size_t hash = HashOf(request_id);
  for (std::size_t i = 0; i < hashes_.size(); ++i) {
    if (hashes_[i] == hash && records_[i]->request_id == request_id) return records_[i].get();
  }
  return nullptr;
}

void RecentRequests::Clear() {
  hashes_.clear();
  records_.clear();
  next_ = bytes_ = 0;
}

}  // namespace memoryd
