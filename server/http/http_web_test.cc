// gzip, GET, and pages of other sites.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/http/gzip.h"
#include "server/http/http_server_test_support.h"
#include "server/rpc/parse_request.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kGetSession = "/memoryd.v1.SessionService/GetSession";
constexpr std::string_view kHost = "Host: localhost\r\n";

class Sessions final : public RpcHandler {
 public:
  explicit Sessions(RpcCallPtr rpc) : rpc_(std::move(rpc)) {}
  void OnMessage(std::string_view bytes) override {
    v1::GetSessionRequest request;
    if (const absl::Status status = Parse(bytes, request); !status.ok()) {
      rpc_->Finish(status, {});
      return;
    }
    v1::GetSessionResponse response;
    response.mutable_session()->set_session_id(request.session_id());
    rpc_->SendLast(response.SerializeAsString(), {});
  }
  void OnReadEnd(const absl::Status& status) override { rpc_->Finish(status, {}); }

 private:
  const RpcCallPtr rpc_;
};

class HttpWebTest : public HttpServerTest {
 protected:
  void SetUp() override {
    methods_.Add(std::string(kGetSession),
                 [](const RpcCallPtr& rpc) { Begin(rpc, std::make_shared<Sessions>(rpc)); });
    HttpServerTest::SetUp();
  }

  Answer Get(std::string_view query, std::string_view headers = kHost) {
    return Ask("GET " + std::string(kGetSession) + std::string(query) + " HTTP/1.1\r\n" +
               std::string(headers) + "\r\n");
  }

  static std::string SessionOf(const Answer& answer) {
    const Json json = Json::parse(answer.body, nullptr, false);
    return answer.status == 200 ? json["session"]["sessionId"].get<std::string>() : answer.body;
  }
};

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

TEST_F(HttpWebTest, AMethodWithoutSideEffectsMayBeAGet) {
  EXPECT_EQ(SessionOf(Get("?connect=v1&encoding=json&message=%7B%22sessionId%22%3a%22a%20b%22%7D")),
            "a b");
  v1::GetSessionRequest request;
  request.set_session_id("\xC3\xA9");
  std::string base64;
  absl::WebSafeBase64Escape(Gzip(request.SerializeAsString()), &base64);
  const Answer proto = Get("?encoding=proto&base64=1&compression=gzip&message=" + base64);
  EXPECT_EQ(proto.status, 200) << proto.body;
  EXPECT_NE(proto.head.find("Content-Type: application/proto\r\n"), std::string::npos);
  v1::GetSessionResponse response;
  ASSERT_TRUE(response.ParseFromString(proto.body));
  EXPECT_EQ(response.session().session_id(), "\xC3\xA9");
  // Its body, if there is one, is nobody's.
  const std::string with_body = "GET " + std::string(kGetSession) +
                                "?encoding=json&message=%7B%7D HTTP/1.1\r\nHost: localhost\r\n"
                                "Content-Length: 3\r\n\r\nxyz";
  EXPECT_EQ(Ask(with_body).status, 200);
  ExpectAllGivenBack();
}

TEST_F(HttpWebTest, AGetThatIsNoneIsRefused) {
  for (const std::string_view query :
       {"", "?", "?message=%7B%7D", "?encoding=json", "?encoding=xml&message=%7B%7D",
        "?encoding=json&message=%7", "?encoding=json&message=%zz", "?encoding=json&message=%+1",
        "?encoding=json&message=%7B%7D&message=%7B%7D", "?encoding=json&message=x",
        "?encoding=json&message=%7B%7D&connect=v2", "?encoding=json&message=%7B%7D&base64=2",
        "?encoding=json&message=!&base64=1", "?encoding=json&message=%7B%7D&compression=gzip"}) {
    EXPECT_EQ(Get(query).status, 400) << query;
  }
  EXPECT_EQ(Get("?encoding=json&message=%7B%7D&compression=br").status, 501);
  const Answer other = Ask("GET " + std::string(kGet) +
                           "?encoding=json&message=%7B%7D HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(other.status, 405);
  EXPECT_EQ(started_, 0);
}

TEST_F(HttpWebTest, PagesOfNamedSitesMayCallAndOthersNot) {
  Serve(true, {"https://app.example"});
  const std::string site = std::string(kHost) + "Origin: https://app.example\r\n";
  Answer answer = Ask(PostJson("{}", site));
  EXPECT_EQ(answer.status, 200);
  const std::string allowed = "Access-Control-Allow-Origin: https://app.example\r\n";
  EXPECT_NE(answer.head.find(allowed), std::string::npos) << answer.head;
  // An error is read too.
  answer = Ask(PostJson(R"({"sessionId": "refused"})", site));
  EXPECT_EQ(answer.status, 404);
  EXPECT_NE(answer.head.find(allowed), std::string::npos);
  const std::string options = "OPTIONS " + std::string(kGet) + " HTTP/1.1\r\n";
  answer = Ask(options + site + "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.head.find(allowed), std::string::npos);
  EXPECT_NE(answer.head.find("Authorization"), std::string::npos);
  for (const std::string_view other : {"https://app.example.evil", "http://app.example", "null",
                                       "https://app.example:444", "https://APP.example"}) {
    const std::string headers = std::string(kHost) + "Origin: " + std::string(other) + "\r\n";
    answer = Ask(PostJson("{}", headers));
    EXPECT_EQ(answer.status, 403) << other;
    EXPECT_EQ(answer.head.find("Access-Control-Allow-Origin"), std::string::npos);
    EXPECT_EQ(Ask(options + headers + "\r\n").status, 403);
  }
  // Its own pages are read without.
  answer = Ask(PostJson("{}", std::string(kHost) + "Origin: http://localhost\r\n"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.head.find("Access-Control-Allow-Origin"), std::string::npos);
}

TEST_F(HttpWebTest, ALinkOfAnotherSiteIsNotFollowed) {
  constexpr std::string_view kQuery = "?encoding=json&message=%7B%7D";
  EXPECT_EQ(Get(kQuery, std::string(kHost) + "Sec-Fetch-Site: cross-site\r\n").status, 403);
  EXPECT_EQ(Get(kQuery, std::string(kHost) + "Sec-Fetch-Site: same-site\r\n").status, 403);
  EXPECT_EQ(Get(kQuery, std::string(kHost) + "Sec-Fetch-Site: same-origin\r\n").status, 200);
  EXPECT_EQ(Get(kQuery, std::string(kHost) + "Sec-Fetch-Site: none\r\n").status, 200);
}

}  // namespace
}  // namespace memoryd
