#include "cli/session_watch.h"

#include <gtest/gtest.h>

namespace memoryd::cli {
namespace {

TEST(SessionWatch, SaysWhatIsNew) {
  v1::WatchSessionResponse news;
  EXPECT_EQ(NewsText(news), "");
  news.add_changes(v1::SESSION_CHANGE_MESSAGES_PUT);
  news.set_first_new_position(5);
  news.set_next_position(6);
  EXPECT_EQ(NewsText(news), "message 5 put");
  news.set_next_position(8);
  news.add_changes(v1::SESSION_CHANGE_BLOCKS);
  news.add_blocks("facts");
  news.add_blocks("a\nb");
  news.add_changes(static_cast<v1::SessionChange>(77));
  const std::string text = NewsText(news);
  EXPECT_EQ(text.find("messages 5 to 7 put, blocks changed: facts "), 0U) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(", change 77")) << text;
}

}  // namespace
}  // namespace memoryd::cli
