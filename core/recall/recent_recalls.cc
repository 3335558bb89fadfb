#include "core/recall/recent_recalls.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/sha256.h"
#include "core/model/session.h"
#include "core/recall/update_context.h"

namespace memoryd {
namespace {

// 16 bytes of the SHA-256: whoever writes a question must not find one that another's is taken for.
std::string Digest(std::string_view text) {
  const Sha256Digest digest = Sha256(text);
  return std::string(digest.begin(), digest.begin() + 16);
}

std::string NameOf(const SessionKey& key, std::uint64_t generation, const Question& question) {
  return Digest(fmt::format("{} {} {} {}{}{}", key.tenant.size(), key.session.size(), generation,
                            key.tenant, key.session, question.text));
}

std::string BeforeOf(const Question& question) {
  return question.before.empty() ? std::string() : Digest(question.before);
}

}  // namespace

std::optional<std::vector<RecentRecalls::Recalled>> RecentRecalls::Find(const SessionKey& key,
                                                                        std::uint64_t generation,
                                                                        const Question& question,
                                                                        std::int64_t now_us) {
  const std::string name = NameOf(key, generation, question);
  const std::string before = BeforeOf(question);
  MutexLock lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = *found->second;
  const bool is_same =
      question.humans <= entry.humans && (before.empty() || before == entry.before);
  if (!is_same || now_us - entry.used_us > kKeptForUs) return std::nullopt;
  entry.humans = question.humans;
  entry.used_us = now_us;
  order_.splice(order_.begin(), order_, found->second);
  return entry.recalled;
}

void RecentRecalls::Keep(const SessionKey& key, std::uint64_t generation, const Question& question,
                         std::int64_t now_us, std::vector<Recalled> recalled) {
  recalled.shrink_to_fit();
  Entry entry{NameOf(key, generation, question), BeforeOf(question), question.humans, now_us,
              std::move(recalled)};
  MutexLock lock(mutex_);
  if (const auto old = entries_.find(entry.name); old != entries_.end()) Drop(old->second);
  order_.push_front(std::move(entry));
  entries_.emplace(order_.front().name, order_.begin());
  if (order_.size() > kMaxQuestions) Drop(std::prev(order_.end()));
}

std::size_t RecentRecalls::size() {
  MutexLock lock(mutex_);
  return order_.size();
}

void RecentRecalls::Drop(Order::iterator entry) {
  entries_.erase(entry->name);
  order_.erase(entry);
}

}  // namespace memoryd
