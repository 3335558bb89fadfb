#include "server/announcement.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "absl/status/status.h"

namespace memoryd {
namespace {

TEST(Announcement, SaysWhereAServerListens) {
  const Listening all = {.listen = {"127.0.0.1:1", "unix:/a"},
                         .health = {"127.0.0.1:2"},
                         .http = {"127.0.0.1:4"},
                         .metrics = "127.0.0.1:3"};
  EXPECT_EQ(ListeningLines(all),
            "metrics on 127.0.0.1:3\nhttp on 127.0.0.1:4\nlistening on 127.0.0.1:1\nlistening on "
            "unix:/a\n"
            "health on 127.0.0.1:2\n");
  EXPECT_EQ(ListeningJson(all),
            R"({"target":"127.0.0.1:1","listen":["127.0.0.1:1","unix:/a"],)"
            R"("metrics":"127.0.0.1:3","health":["127.0.0.1:2"],"http":["127.0.0.1:4"]})"
            "\n");
  EXPECT_EQ(ListeningJson({.listen = {"unix:/\xff\n"}}),
            "{\"target\":\"unix:/\xEF\xBF\xBD\\n\",\"listen\":[\"unix:/\xEF\xBF\xBD\\n\"]}\n");
}

TEST(Announcement, NamesASocketByItsWholePath) {
  EXPECT_EQ(TargetOf({.listen = {"unix:a b.sock"}}),
            "unix:" + (std::filesystem::current_path() / "a b.sock").string());
  EXPECT_EQ(TargetOf({.listen = {"unix:/a.sock"}}), "unix:/a.sock");
}

TEST(Announcement, SaysWhatWasChecked) {
  EXPECT_EQ(CheckedJson(absl::OkStatus(), {}), "{\"valid\":true,\"warnings\":[]}\n");
  EXPECT_EQ(CheckedJson(absl::OkStatus(), {"listen: \"x\""}),
            R"({"valid":true,"warnings":["listen: \"x\""]})"
            "\n");
  EXPECT_EQ(CheckedJson(absl::InvalidArgumentError("store: gone"), {}),
            "{\"valid\":false,\"error\":\"store: gone\"}\n");
}

TEST(Announcement, SaysWhatWasMigrated) {
  EXPECT_EQ(MigratedJson("sqlite", 12), "{\"kind\":\"sqlite\",\"schema_version\":12}\n");
}

}  // namespace
}  // namespace memoryd
