// gzip.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "server/http/gzip.h"
#include "server/http/http_server_test_support.h"

namespace memoryd {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kHost = "Host: localhost\r\n";

class HttpWebTest : public HttpServerTest {};

std::string Gunzipped(std::string_view bytes) {
  const auto plain = Gunzip(bytes, 8 << 20, [](std::size_t) { return absl::OkStatus(); });
  return plain.ok() ? *plain : plain.status().ToString();
}

TEST(GzipTest, GivesBackWhatItTook) {
  for (const std::size_t size : {0U, 1U, 65'535U, 65'536U, 65'537U, 1'000'000U}) {
    EXPECT_EQ(Gunzipped(Gzip(std::string(size, 'x'))), std::string(size, 'x')) << size;
  }
}

TEST(GzipTest, RefusesWhatIsNoWholeMember) {
  const std::string bytes = Gzip(std::string(1000, 'x'));
  std::string wrong = bytes;
  wrong[wrong.size() - 5] ^= 1;  // Of the checksum.
  for (const std::string& bad : {std::string(), std::string("x"), bytes + "x", bytes + bytes, wrong,
                                 bytes.substr(0, bytes.size() - 1), bytes.substr(0, 3)}) {
    const auto plain = Gunzip(bad, 8 << 20, [](std::size_t) { return absl::OkStatus(); });
    EXPECT_TRUE(absl::IsInvalidArgument(plain.status())) << plain.status();
  }
}

TEST(GzipTest, TakesNoMoreThanItMay) {
  const std::string bytes = Gzip(std::string(1'000'000, 'x'));
  std::size_t taken = 0;
  const auto count = [&taken](std::size_t more) {
    taken += more;
    return absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsOutOfRange(Gunzip(bytes, 100'000, count).status()));
  EXPECT_LE(taken, 100'001U);
  EXPECT_TRUE(Gunzip(bytes, 1'000'000, count).ok());
  const auto refuse = [](std::size_t) { return absl::ResourceExhaustedError("short"); };
  EXPECT_TRUE(absl::IsResourceExhausted(Gunzip(bytes, 1'000'000, refuse).status()));
}

TEST_F(HttpWebTest, TakesAndGivesGzip) {
  const std::string headers = std::string(kHost) + "Content-Encoding: gzip\r\n";
  const std::string request = Gzip(R"({"sessionId": "four", "input": "5000"})");
  Answer answer = Ask(PostJson(request, headers));
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.head.find("Content-Encoding"), std::string::npos);
  EXPECT_EQ(Json::parse(answer.body, nullptr, false)["limit"], "4");
  answer = Ask(PostJson(request, headers + "Accept-Encoding: br, gzip;q=0.5\r\n"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.head.find("Content-Encoding: gzip\r\n"), std::string::npos);
  EXPECT_LT(answer.body.size(), 500U);
  EXPECT_EQ(Json::parse(Gunzipped(answer.body), nullptr, false)["limit"], "4");
  answer = Ask(PostJson(request, headers + "Accept-Encoding: gzip;q=0\r\n"));
  EXPECT_EQ(answer.head.find("Content-Encoding"), std::string::npos);
  // A short one isn't worth it.
  answer = Ask(PostJson("{}", std::string(kHost) + "Accept-Encoding: gzip\r\n"));
  EXPECT_EQ(answer.head.find("Content-Encoding"), std::string::npos);
  EXPECT_EQ(Ask(PostJson("{}", headers)).status, 400);
  EXPECT_EQ(Ask(PostJson("{}", std::string(kHost) + "Content-Encoding: br\r\n")).status, 501);
  ExpectAllGivenBack();
}

TEST_F(HttpWebTest, AFewBytesThatStandForTooManyAreRefused) {
  const std::string bomb = Gzip(R"({"sessionId": ")" + std::string(8 << 20, 'x') + "\"}");
  ASSERT_LT(bomb.size(), 100'000U);
  const Answer answer = Ask(PostJson(bomb, std::string(kHost) + "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(answer.status, 429);
  EXPECT_NE(answer.body.find("REQUEST_TOO_LARGE"), std::string::npos) << answer.body;
  EXPECT_EQ(started_, 0);
  ExpectAllGivenBack();
}

TEST_F(HttpWebTest, StreamsGzipMessageByMessage) {
  const std::string zipped = Gzip("{}");
  std::string message("\1\0\0\0", 4);
  message += static_cast<char>(zipped.size());
  message += zipped;
  constexpr std::string_view kStream = "/memoryd.v1.MemoryService/StreamAll";
  const std::string headers = std::string(kHost) + "Connect-Content-Encoding: gzip\r\n";
  RawConnection connection(target());
  connection.Send(Post(kStream, "application/connect+json", message, headers));
  const std::string answer = connection.ReadTo("0\r\n\r\n");
  EXPECT_NE(answer.find("page"), std::string::npos) << answer;
  // An envelope that says more than the headers.
  connection.Send(Post(kStream, "application/connect+json", message));
  EXPECT_NE(connection.ReadTo("0\r\n\r\n").find("internal"), std::string::npos);
}

}  // namespace
}  // namespace memoryd
