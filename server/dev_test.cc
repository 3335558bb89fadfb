#include "server/dev.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/announcement.h"
#include "server/command_line.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<CommandLine> Parse(const std::vector<std::string>& arguments) {
  DevDefaults defaults = UsualDevDefaults();
  defaults.commands = {"migrate", "sessions"};
  CommandLineParser parser(defaults);
  std::vector<const char*> argv = {"memoryd"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return parser.Parse(static_cast<int>(argv.size()), argv.data(), {});
}

TEST(Dev, ServesThisMachineOutOfMemory) {
  const auto line = Parse({});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.store, "sqlite::memory:");
  EXPECT_THAT(line->config.listen, ElementsAre("127.0.0.1:50051"));
  EXPECT_EQ(line->config.metrics_listen, "127.0.0.1:9464");
  EXPECT_THAT(line->config.http_listen, ElementsAre("127.0.0.1:50080"));
  EXPECT_EQ(line->config.log_level, "warning");
  EXPECT_EQ(line->config.drain_seconds, 1);
}

TEST(Dev, TakesAPathAsAStore) {
  EXPECT_EQ(Parse({"a/b.db"})->config.store, "sqlite:a/b.db");
  EXPECT_EQ(Parse({"--store", "b.db"})->config.store, "sqlite:b.db");
  EXPECT_EQ(Parse({"sqlite:c.db"})->config.store, "sqlite:c.db");
  const std::string folder = std::filesystem::temp_directory_path().string();
  EXPECT_EQ(Parse({folder})->config.store,
            "sqlite:" + (std::filesystem::path(folder) / "memoryd.db").string());
  EXPECT_TRUE(absl::IsInvalidArgument(Parse({"a.db", "--store=b.db"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Parse({"oracle://x"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Parse({"--store="}).status()));
}

TEST(Dev, TakesNoCommandForAPath) {
  EXPECT_EQ(Parse({"migrate"}).status().message(),
            "dev: migrate is a command of its own, memoryd migrate; a file or folder of that name "
            "is ./migrate");
  EXPECT_TRUE(absl::IsInvalidArgument(Parse({"--port=0", "sessions"}).status()));
  EXPECT_EQ(Parse({"./migrate"})->config.store, "sqlite:./migrate");
  EXPECT_EQ(Parse({"--store=migrate"})->config.store, "sqlite:migrate");
}

TEST(Dev, RefersToItsOwnHelp) {
  EXPECT_EQ(Parse({"--xyzzy"}).status().message(), "unknown flag --xyzzy: see memoryd help dev");
}

TEST(Dev, TakesAPortAndSettings) {
  const auto line = Parse({"--port=0", "--readers=7"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->config.listen, ElementsAre("127.0.0.1:0"));
  EXPECT_EQ(line->config.metrics_listen, "127.0.0.1:0");
  EXPECT_THAT(line->config.http_listen, ElementsAre("127.0.0.1:0"));
  EXPECT_EQ(line->config.readers, 7);
  EXPECT_THAT(Parse({"--port=0", "--http-listen=127.0.0.1:3"})->config.http_listen,
              ElementsAre("127.0.0.1:3"));
  EXPECT_TRUE(Parse({"--http-listen=off"})->config.http_listen.empty());
  EXPECT_EQ(Parse({"--port=1234"})->config.metrics_listen, "127.0.0.1:9464");
  EXPECT_TRUE(absl::IsInvalidArgument(Parse({"--port=1", "--listen=127.0.0.1:2"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Parse({"--port=65536"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Parse({"--listen=0.0.0.0:1"}).status()));
}

TEST(Dev, FindsPortsThatAreFree) {
  const DevDefaults defaults = FindDevDefaults();
  EXPECT_TRUE(defaults.settings.at("listen").starts_with("127.0.0.1:"));
  EXPECT_NE(defaults.settings.at("listen"), defaults.settings.at("metrics_listen"));
  EXPECT_TRUE(defaults.settings.at("http_listen").starts_with("127.0.0.1:"));
}

// An address of this machine that somebody has until the end of the test.
class TakenPort {
 public:
  explicit TakenPort(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // Taken by somebody else where this fails.
    if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      ::listen(socket_, 1);
    }
  }
  ~TakenPort() { ::close(socket_); }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;

 private:
  const int socket_;
};

TEST(Dev, GoesOnWithAnotherPortWhereTheUsualOneIsTaken) {
  const TakenPort taken(50080);
  EXPECT_NE(FindDevDefaults().settings.at("http_listen"), "127.0.0.1:50080");
}

TEST(Dev, SaysWhatToTryOverHttp) {
  const Config config = Parse({})->config;
  Listening listening = {.listen = {"127.0.0.1:1"}};
  EXPECT_THAT(DevGreeting(config, listening), Not(HasSubstr("curl")));
  listening.http = {"127.0.0.1:50081"};
  EXPECT_THAT(DevGreeting(config, listening),
              HasSubstr("curl -sS http://127.0.0.1:50081/memoryd.v1.MemoryService/Get "));
  listening.http = {"unix:/run/it's a.sock"};
  EXPECT_THAT(
      DevGreeting(config, listening),
      HasSubstr("curl -sS --unix-socket '/run/it'\\''s a.sock' http://localhost/memoryd.v1"));
}

TEST(Dev, SaysWhereTheInspectorIs) {
  const Config config = Parse({})->config;
  Listening listening = {.listen = {"127.0.0.1:1"}};
  EXPECT_THAT(DevGreeting(config, listening), Not(HasSubstr("/ui")));
  listening.http = {"127.0.0.1:50081"};
  EXPECT_THAT(DevGreeting(config, listening),
              HasSubstr("in a browser: http://127.0.0.1:50081/ui\n"));
  listening.http = {"unix:/run/a.sock"};
  EXPECT_THAT(DevGreeting(config, listening), Not(HasSubstr("/ui")));
}

TEST(Dev, SaysWhatToTryNext) {
  const Config config = Parse({})->config;
  const std::string usual = DevGreeting(config, {.listen = {"127.0.0.1:50051"}});
  EXPECT_THAT(usual, HasSubstr("memoryd put s1 "));
  EXPECT_THAT(usual, HasSubstr("in memory"));
  EXPECT_THAT(usual, HasSubstr("export MEMORYD_TARGET=127.0.0.1:50051\n"));
  EXPECT_THAT(DevGreeting(config, {.listen = {"unix:/run/it's a.sock"}}),
              HasSubstr("export MEMORYD_TARGET='unix:/run/it'\\''s a.sock'\n"));
  EXPECT_THAT(DevGreeting(Parse({"x.db"})->config, {.listen = {"127.0.0.1:4"}}),
              Not(HasSubstr("in memory")));
}

}  // namespace
}  // namespace memoryd
