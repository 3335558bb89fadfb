#include "core/sessions/recent_requests.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "core/storage/store.h"

namespace memoryd {
namespace {

TEST(RecentRequestsTest, TheOldestGivesWayToTheLatest) {
  RecentRequests requests;
  EXPECT_EQ(requests.Find("0"), nullptr);
  for (std::size_t i = 0; i < 3 * RecentRequests::kMost; ++i) {
    requests.Add({std::to_string(i), "fingerprint", "reply " + std::to_string(i), 1});
    const std::size_t first = i < RecentRequests::kMost ? 0 : i + 1 - RecentRequests::kMost;
    EXPECT_EQ(requests.size(), i + 1 - first);
    for (std::size_t known = 0; known <= i; ++known) {
      const RequestRecord* const found = requests.Find(std::to_string(known));
      ASSERT_EQ(found != nullptr, known >= first) << known << " of " << i;
      EXPECT_TRUE(found == nullptr || found->reply == "reply " + std::to_string(known));
    }
  }
}

TEST(RecentRequestsTest, BytesAreThoseOfWhatIsThere) {
  RecentRequests requests;
  requests.Add({"id", "12345678", std::string(100, 'x'), 1});
  EXPECT_EQ(requests.bytes(), sizeof(RequestRecord) + 110);
  const RecentRequests copy = requests;
  for (std::size_t i = 0; i < RecentRequests::kMost; ++i) requests.Add({"ab", "", "", 1});
  EXPECT_EQ(requests.bytes(), RecentRequests::kMost * (sizeof(RequestRecord) + 2));
  requests.Clear();
  EXPECT_EQ(requests.bytes(), 0U);
  EXPECT_EQ(requests.size(), 0U);
  EXPECT_NE(copy.Find("id"), nullptr);
}

}  // namespace
}  // namespace memoryd
