#include "cli/listener.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace memoryd::cli {
namespace {

TEST(NothingListens, TellsAPortThatIsClosedFromOneThatIsOpen) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length), 0);
  // Held, so that nobody else listens there.
  const std::string target = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  EXPECT_TRUE(NothingListens(target));
  EXPECT_TRUE(NothingListens(fmt::format("localhost:{}", ntohs(address.sin_port))));
  ASSERT_EQ(::listen(socket, 1), 0);
  EXPECT_FALSE(NothingListens(target));
  ::close(socket);
}

TEST(NothingListens, TellsASocketThatIsNotThere) {
  EXPECT_TRUE(NothingListens("unix:/nowhere/socket"));
  EXPECT_TRUE(NothingListens("unix:///nowhere/socket"));
}

TEST(NothingListens, SaysNothingOfWhatItCannotTell) {
  for (const char* target : {"", "localhost", "unix:", "name.invalid:1", "127.0.0.1:no-port"}) {
    EXPECT_FALSE(NothingListens(target)) << target;
  }
  EXPECT_FALSE(NothingListens("unix:" + std::string(1000, 'a')));
}

}  // namespace
}  // namespace memoryd::cli
