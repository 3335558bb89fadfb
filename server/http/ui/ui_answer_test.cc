// The files of the inspector as a browser asks for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/http/gzip.h"
#include "server/http/http_server_test_support.h"
#include "server/http/ui/ui_files.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class UiAnswerTest : public HttpServerTest {
 protected:
  Answer Read(std::string_view path, std::string_view headers = {},
              std::string_view method = "GET") {
    return Ask(std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" +
               std::string(headers) + "\r\n");
  }

  static std::string EtagOf(const Answer& answer) {
    const std::size_t begin = answer.head.find("ETag: ") + 6;
    return answer.head.substr(begin, answer.head.find('\r', begin) - begin);
  }
};

TEST_F(UiAnswerTest, EachFileIsServedWithItsType) {
  ASSERT_GT(kUiFiles.size(), 3U);
  for (const UiFile& file : kUiFiles) {
    const Answer answer = Read("/ui/" + std::string(file.path));
    EXPECT_EQ(answer.status, 200) << file.path;
    EXPECT_EQ(answer.body, file.text) << file.path;
    EXPECT_THAT(answer.head, HasSubstr("Content-Type: " + std::string(file.content_type) + "\r\n"));
  }
  EXPECT_EQ(Read("/ui/").body, Read("/ui/index.html?a=b").body);
}

TEST_F(UiAnswerTest, AShorterAnswerIsSentToWhoTakesOne) {
  for (const UiFile& file : kUiFiles) {
    const Answer answer = Read("/ui/" + std::string(file.path), "Accept-Encoding: br, gzip\r\n");
    EXPECT_THAT(answer.head, HasSubstr("Content-Encoding: gzip\r\n"));
    EXPECT_THAT(answer.head, HasSubstr("Vary: Accept-Encoding\r\n"));
    const auto plain =
        Gunzip(answer.body, 1 << 20, [](std::size_t /*more*/) { return absl::OkStatus(); });
    ASSERT_TRUE(plain.ok()) << plain.status();
    EXPECT_EQ(*plain, file.text);
  }
}

TEST_F(UiAnswerTest, AllFilesTogetherHaveAtMost300Kilobytes) {
  std::size_t bytes = 0;
  for (const UiFile& file : kUiFiles) bytes += Gzip(file.text).size();
  EXPECT_LE(bytes, 300'000U);
}

TEST_F(UiAnswerTest, WhatTheBrowserHasIsNotSentAgain) {
  const Answer first = Read("/ui/");
  EXPECT_THAT(first.head, HasSubstr("Cache-Control: no-cache\r\n"));
  RawConnection connection(target());
  const std::string request = "GET /ui/ HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: ";
  connection.Send(request + EtagOf(first) + "\r\n\r\n" + request + "\"other\"\r\n\r\n");
  const std::string known = connection.ReadTo("\r\n\r\n");
  EXPECT_THAT(known, HasSubstr("304 Not Modified"));
  EXPECT_THAT(known, Not(HasSubstr("Content-Length")));
  // The next bytes are the next answer.
  const Answer changed = connection.Read();
  EXPECT_EQ(changed.status, 200);
  EXPECT_EQ(changed.body, first.body);
}

TEST_F(UiAnswerTest, NoCodeRunsButTheServersOwnFiles) {
  const std::string head = Read("/ui/").head;
  EXPECT_THAT(head, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self'; "
                              "style-src 'self'; "));
  EXPECT_THAT(head, HasSubstr("connect-src 'self'; "));
  EXPECT_THAT(head, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(head, HasSubstr("require-trusted-types-for 'script'"));
  EXPECT_THAT(head, Not(HasSubstr("unsafe")));
  EXPECT_THAT(head, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  for (const UiFile& file : kUiFiles) {
    EXPECT_THAT(file.text, Not(HasSubstr("innerHTML"))) << file.path;
    EXPECT_THAT(file.text, Not(HasSubstr("//cdn"))) << file.path;
    EXPECT_THAT(file.text, Not(HasSubstr(" style=\""))) << file.path;
  }
}

TEST_F(UiAnswerTest, ShorterAddressesLeadToThePage) {
  for (const std::string_view path : {"/", "/ui"}) {
    const Answer answer = Read(path);
    EXPECT_EQ(answer.status, 307);
    EXPECT_THAT(answer.head, HasSubstr("Location: ui/\r\n"));
  }
  EXPECT_EQ(Read("/ui/nothing.js").status, 404);
  EXPECT_EQ(Read("/ui/../server.js").status, 404);
  EXPECT_EQ(Read("/uix").status, 404);
}

TEST_F(UiAnswerTest, TheHostIsChecked) {
  // Else a site with a name for this machine would serve the page as its own.
  EXPECT_EQ(Ask("GET /ui/ HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 403);
  // The link of another site leads to a page without data.
  EXPECT_EQ(Read("/ui/", "Sec-Fetch-Site: cross-site\r\n").status, 200);
  EXPECT_EQ(Read("/openapi.json", "Sec-Fetch-Site: cross-site\r\n").status, 403);
}

TEST_F(UiAnswerTest, AHeadSaysTheSize) {
  RawConnection connection(target());
  connection.Send(
      "HEAD /ui/ HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(connection.ReadTo("\r\n\r\n"), Not(HasSubstr("Content-Length: 0\r\n")));
  EXPECT_EQ(connection.Read().body, "ok\n");
}

}  // namespace
}  // namespace memoryd
