#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "memoryd/v1/memory_service.pb.h"
#include "server/http/http_server_test_support.h"

namespace memoryd {
namespace {

using Json = nlohmann::json;

TEST_F(HttpServerTest, AnswersJsonWithJson) {
  const Answer answer = Ask(PostJson(R"({"sessionId": "four", "input": "3"})"));
  EXPECT_EQ(answer.status, 200) << answer.head << answer.body;
  EXPECT_NE(answer.head.find("Content-Type: application/json\r\n"), std::string::npos);
  Json json = Json::parse(answer.body, nullptr, false);
  EXPECT_EQ(json["limit"], "4");
  EXPECT_EQ(json["messages"][0]["text"], "xxx");
  // Names as the proto has them are taken too.
  EXPECT_EQ(Ask(PostJson(R"({"session_id": "four"})")).status, 200);
}

TEST_F(HttpServerTest, AnswersProtoWithProto) {
  v1::GetRequest request;
  request.set_session_id("four");
  const Answer answer = Ask(Post(kGet, "application/proto", request.SerializeAsString()));
  EXPECT_EQ(answer.status, 200);
  v1::GetResponse response;
  ASSERT_TRUE(response.ParseFromString(answer.body));
  EXPECT_EQ(response.limit(), 4);
}

TEST_F(HttpServerTest, AnErrorNamesItsCodeReasonAndValues) {
  const Answer answer = Ask(PostJson(R"({"sessionId": "refused"})"));
  EXPECT_EQ(answer.status, 404);
  EXPECT_NE(answer.head.find("X-Request-Id: an-id\r\n"), std::string::npos);
  Json json = Json::parse(answer.body, nullptr, false);
  EXPECT_EQ(json["code"], "not_found");
  EXPECT_EQ(json["message"], "no such session");
  EXPECT_EQ(json["details"][0]["type"], "google.rpc.ErrorInfo");
  EXPECT_EQ(json["details"][0]["debug"]["reason"], "SESSION_UNKNOWN");
  EXPECT_EQ(json["details"][0]["debug"]["metadata"]["session_id"], "refused");
}

TEST_F(HttpServerTest, WrongJsonIsInvalidAndNamesTheField) {
  const Answer unknown = Ask(PostJson(R"({"sessionId": "a", "sesion": "b"})"));
  EXPECT_EQ(unknown.status, 400);
  EXPECT_NE(unknown.body.find("sesion"), std::string::npos) << unknown.body;
  for (const std::string_view body :
       {"", " ", "[]", "1", "null", "{", R"({"sessionId": 1e999})", R"({"limit": "x"})",
        R"({"limit": 123456789012345678901234567890})", "{} {}", "{\"sessionId\": \"\xff\"}"}) {
    const Answer answer = Ask(PostJson(body));
    EXPECT_EQ(answer.status, 400) << body << answer.body;
    EXPECT_EQ(Json::parse(answer.body, nullptr, false)["code"], "invalid_argument") << body;
  }
  // Cut within a character on both sides of the place.
  const std::string text(R"({"sessionId": "ééééééééééé" )");
  for (const std::string_view blank : {"", " ", "  "}) {
    const Answer answer = Ask(PostJson(text + std::string(blank) + "é é é é é é é é é é é}"));
    const Json json = Json::parse(answer.body, nullptr, false);
    EXPECT_EQ(json["details"][0]["debug"]["reason"], "MALFORMED_JSON") << answer.body;
    EXPECT_EQ(json["message"].get<std::string>().find('\n'), std::string::npos);
  }
  EXPECT_EQ(started_, 0);
}

TEST_F(HttpServerTest, RefusesWhatIsNoCall) {
  EXPECT_EQ(Ask(Post("/memoryd.v1.MemoryService/Gets", "application/json", "{}")).status, 404);
  EXPECT_EQ(Ask(Post("/x/../memoryd.v1.MemoryService/Get", "application/json", "{}")).status, 404);
  EXPECT_EQ(Ask(Post(kGet, "text/plain", "{}")).status, 415);
  EXPECT_EQ(Ask(Post(kGet, "application/connect+json", "{}")).status, 415);
  EXPECT_EQ(Ask(Post("/memoryd.v1.WorkerService/Attach", "application/connect+json", "")).status,
            501);
  const Answer get = Ask("GET " + std::string(kGet) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(get.status, 405);
  EXPECT_NE(get.head.find("Allow: POST\r\n"), std::string::npos);
  EXPECT_EQ(Ask("nonsense\r\n\r\n").status, 400);
  EXPECT_EQ(Ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status, 400);
  const std::string host = "Host: localhost\r\n";
  EXPECT_EQ(Ask(PostJson("{}", host + "Connect-Timeout-Ms: soon\r\n")).status, 400);
  EXPECT_EQ(Ask(PostJson("{}", host + "Connect-Protocol-Version: 2\r\n")).status, 400);
  EXPECT_EQ(Ask(PostJson("{}", host + "Content-Encoding: br\r\n")).status, 501);
  EXPECT_EQ(Ask(PostJson("{}", host + "X-Long: " + std::string(70'000, 'x') + "\r\n")).status, 431);
  EXPECT_EQ(started_, 0);
  ExpectAllGivenBack();
}

TEST_F(HttpServerTest, RefusesOtherHostsAndSites) {
  EXPECT_EQ(Ask(PostJson("{}", "Host: evil.example\r\n")).status, 403);
  EXPECT_EQ(Ask(PostJson("{}", "Host: 127.0.0.1.evil.example\r\n")).status, 403);
  EXPECT_EQ(Ask(PostJson("{}", "")).status, 400);
  EXPECT_EQ(Ask(PostJson("{}", "Host: localhost\r\nHost: localhost\r\n")).status, 400);
  const std::string host = "Host: localhost:8080\r\n";
  EXPECT_EQ(Ask(PostJson("{}", host + "Origin: http://evil.example\r\n")).status, 403);
  EXPECT_EQ(Ask(PostJson("{}", host + "Origin: null\r\n")).status, 403);
  EXPECT_EQ(started_, 0);
  EXPECT_EQ(Ask(PostJson("{}", host + "Origin: http://localhost:8080\r\n")).status, 200);
  EXPECT_EQ(Ask(PostJson("{}", "Host: [::1]:1\r\n")).status, 200);
  Serve(false);
  EXPECT_EQ(Ask(PostJson("{}", "Host: memoryd.example\r\n")).status, 200);
}

TEST_F(HttpServerTest, OneConnectionHasOneCallAfterTheOther) {
  RawConnection connection(target());
  // All ahead of the answers.
  connection.Send(PostJson(R"({"sessionId": "a"})") + PostJson(R"({"sessionId": "bb"})") +
                  PostJson(R"({"sessionId": "refused"})") + PostJson(R"({"sessionId": "ccc"})"));
  EXPECT_NE(connection.Read().body.find("\"1\""), std::string::npos);
  EXPECT_NE(connection.Read().body.find("\"2\""), std::string::npos);
  EXPECT_EQ(connection.Read().status, 404);
  EXPECT_NE(connection.Read().body.find("\"3\""), std::string::npos);
}

TEST_F(HttpServerTest, TakesBodiesInChunksAndByteByByte) {
  RawConnection connection(target());
  const std::string head = "POST " + std::string(kGet) +
                           " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n";
  const std::string request =
      head +
      "5\r\n{\"ses\r\n1e;x=y\r\nsionId\": \"four\", \"input\": \"1\"}\r\n0\r\n"
      "Authorization: Bearer late\r\n\r\n";
  for (const char c : request) connection.Send({&c, 1});
  const Answer answer = connection.Read();
  EXPECT_EQ(answer.status, 200) << answer.body;
  connection.Send(head + "xyz\r\n");
  EXPECT_TRUE(connection.IsClosedByServer());
  ExpectAllGivenBack();
}

TEST_F(HttpServerTest, TwoLengthsAreMalformed) {
  const std::string both = "POST " + std::string(kGet) +
                           " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           "Content-Length: 2\r\n";
  EXPECT_EQ(Ask(both + "Content-Length: 3\r\n\r\n{}").status, 400);
  EXPECT_EQ(Ask(both + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n").status, 400);
  EXPECT_EQ(started_, 0);
}

TEST_F(HttpServerTest, BoundsTheBody) {
  const std::string head = "POST " + std::string(kGet) +
                           " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           "Content-Length: 9999999\r\nExpect: 100-continue\r\n\r\n";
  RawConnection connection(target());
  connection.Send(head);
  const Answer answer = connection.Read();
  EXPECT_EQ(answer.status, 429);
  EXPECT_NE(answer.body.find("max_request_mib"), std::string::npos);
  EXPECT_NE(answer.head.find("Connection: close\r\n"), std::string::npos);
  EXPECT_EQ(started_, 0);
}

TEST_F(HttpServerTest, TellsWhoAsksToGoOn) {
  RawConnection connection(target());
  connection.Send("POST " + std::string(kGet) +
                  " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(connection.Read().status, 100);
  connection.Send("{}");
  EXPECT_EQ(connection.Read().status, 200);
}

TEST_F(HttpServerTest, ALargeReplyArrivesWhole) {
  const Answer answer = Ask(PostJson(R"({"sessionId": "a", "input": "3000000"})"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(
      Json::parse(answer.body, nullptr, false)["messages"][0]["text"].get<std::string>().size(),
      3'000'000U);
  ExpectAllGivenBack();
}

TEST_F(HttpServerTest, ACallerWhoLeavesCancelsHisCall) {
  {
    RawConnection connection(target());
    connection.Send(PostJson(R"({"sessionId": "held"})"));
    while (started_ == 0) std::this_thread::yield();
    RawConnection half(target());
    half.Send("POST " + std::string(kGet) + " HTTP/1.1\r\nHost: lo");
  }
  ExpectAllGivenBack();
  EXPECT_EQ(cancelled_, 1);
}

TEST_F(HttpServerTest, StreamsInEnvelopes) {
  RawConnection connection(target());
  const std::string message("\0\0\0\0\2{}", 7);
  connection.Send(Post("/memoryd.v1.MemoryService/StreamAll", "application/connect+json", message));
  const std::string answer = connection.ReadTo("0\r\n\r\n");
  EXPECT_NE(answer.find("200 OK"), std::string::npos);
  const std::size_t first = answer.find("page");
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(answer.find("page", first + 1), std::string::npos);
  EXPECT_NE(answer.find(std::string("\2\0\0\0\2{}", 7)), std::string::npos);
  // The connection takes the next.
  connection.Send(Post("/memoryd.v1.MemoryService/StreamAll", "application/connect+json", "{}"));
  const std::string refused = connection.ReadTo("0\r\n\r\n");
  EXPECT_NE(refused.find("invalid_argument"), std::string::npos) << refused;
}

TEST_F(HttpServerTest, SaysWhetherItIsReady) {
  const std::string host = "Host: 10.0.0.1:1\r\n\r\n";
  EXPECT_EQ(Ask("GET /healthz HTTP/1.1\r\n" + host).status, 200);
  EXPECT_EQ(Ask("GET /readyz HTTP/1.1\r\n" + host).status, 200);
  ready_ = false;
  EXPECT_EQ(Ask("GET /readyz HTTP/1.1\r\n" + host).status, 503);
  EXPECT_EQ(Ask("GET /healthz HTTP/1.1\r\n" + host).status, 200);
}

TEST_F(HttpServerTest, AnAnswerToHeadHasNoBody) {
  const std::string host = "Host: localhost\r\n\r\n";
  const std::vector<std::string> paths = {"/healthz", "/openapi.json", "/nothing",
                                          std::string(kGet)};
  for (const std::string& path : paths) {
    RawConnection connection(target());
    connection.Send("HEAD " + path + " HTTP/1.1\r\n" + host + "GET /healthz HTTP/1.1\r\n" + host);
    const std::string head = connection.ReadTo("\r\n\r\n");
    EXPECT_NE(head.find("Content-Length: "), std::string::npos) << head;
    EXPECT_EQ(head.find("Content-Length: 0\r\n"), std::string::npos) << head;
    // The next bytes are the next answer.
    const Answer next = connection.Read();
    EXPECT_EQ(next.status, 200) << path;
    EXPECT_EQ(next.body, "ok\n") << path;
  }
}

TEST_F(HttpServerTest, ShutdownLetsACallEndAndTakesNoMore) {
  RawConnection idle(target());
  RawConnection held(target());
  held.Send(PostJson(R"({"sessionId": "held"})"));
  while (started_ == 0) std::this_thread::yield();
  server_->Shutdown(std::chrono::steady_clock::now());
  EXPECT_TRUE(idle.IsClosedByServer());
  EXPECT_TRUE(held.IsClosedByServer());
  EXPECT_EQ(cancelled_, 1);
  EXPECT_EQ(budget_.held(), 0);
}

}  // namespace
}  // namespace memoryd
