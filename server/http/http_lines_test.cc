// Streams as lines of JSON.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/http/http_server.h"
#include "server/http/http_server_test_support.h"
#include "server/rpc/parse_request.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kImport = "/memoryd.v1.SessionService/ImportSession";
constexpr std::string_view kStream = "/memoryd.v1.MemoryService/StreamAll";
constexpr std::string_view kBegin = "{\"begin\": {\"sessionId\": \"s\"}}\n";
constexpr std::string_view kItem = "{\"items\": {\"messages\": [{\"text\": \"hé\"}]}}\n";
constexpr std::string_view kEnd = "{\"end\": {}}\n";

// Counts messages until the end. Of the session "held" it asks for nothing after its first request,
// and hands the call to the test.
class Importing final : public RpcHandler {
 public:
  Importing(RpcCallPtr rpc, std::promise<RpcCallPtr>* held) : rpc_(std::move(rpc)), held_(*held) {}

  void OnMessage(std::string_view bytes) override {
    v1::ImportSessionRequest request;
    if (const absl::Status status = Parse(bytes, request); !status.ok()) {
      rpc_->Finish(status, {});
      return;
    }
    messages_ += request.items().messages_size();
    if (request.items().messages_size() > 0 && request.items().messages(0).text() == "wrong") {
      rpc_->Finish(Error(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", "items: is wrong"),
                   {});
    } else if (request.has_end()) {
      v1::ImportSessionResponse response;
      response.mutable_session()->set_revision(messages_);
      rpc_->SendLast(response.SerializeAsString(), {});
    } else if (request.begin().session_id() == "held") {
      held_.set_value(rpc_);
    } else {
      rpc_->Read();
    }
  }
  void OnReadEnd(const absl::Status& status) override {
    rpc_->Finish(status.ok() ? absl::InvalidArgumentError("no end") : status, {});
  }

 private:
  const RpcCallPtr rpc_;
  std::promise<RpcCallPtr>& held_;
  int messages_ = 0;
};

class HttpLinesTest : public HttpServerTest {
 protected:
  void SetUp() override {
    methods_.Add(std::string(kImport), [this](const RpcCallPtr& rpc) {
      ++started_;
      Begin(rpc, std::make_shared<Importing>(rpc, &held_));
    });
    HttpServerTest::SetUp();
  }

  Answer Import(const std::string& lines) {
    return Ask(Post(kImport, "application/x-ndjson", lines));
  }

  std::promise<RpcCallPtr> held_;
};

std::string Lines(std::string_view line, int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) lines.append(line);
  return lines;
}

std::string StreamLines(std::string_view body) {
  return Post(kStream, "application/json", body,
              "Host: localhost\r\nAccept: text/html, Application/X-NDJSON; q=0.5\r\n");
}

TEST_F(HttpLinesTest, EachLineIsARequest) {
  const std::string lines = std::string(kBegin) + "\n \r\n" + Lines(kItem, 2) + std::string(kEnd);
  const Answer answer = Import(lines);
  EXPECT_EQ(answer.status, 200) << answer.head << answer.body;
  EXPECT_THAT(answer.head, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_EQ(Json::parse(answer.body, nullptr, false)["session"]["revision"], "2");
  // The last needs no end of its line.
  EXPECT_EQ(Import(lines.substr(0, lines.size() - 1)).status, 200);
  ExpectAllGivenBack();
}

TEST_F(HttpLinesTest, PiecesAndChunksDoNotMatter) {
  const std::string lines = std::string(kBegin) + Lines(kItem, 3) + std::string(kEnd);
  auto connection = std::make_unique<RawConnection>(target());
  for (const char byte : Post(kImport, "application/x-ndjson", lines)) connection->Send({&byte, 1});
  const Answer whole = connection->Read();
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.head.find("Connection: close"), std::string::npos) << whole.head;
  // On the same connection, in chunks that end within lines.
  connection->Send("POST " + std::string(kImport) +
                   " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n");
  for (std::size_t at = 0; at < lines.size(); at += 7) {
    const std::string chunk = lines.substr(at, 7);
    connection->Send(std::to_string(chunk.size()) + "\r\n" + chunk + "\r\n");
  }
  connection->Send("0\r\n\r\n");
  const Answer answer = connection->Read();
  EXPECT_EQ(Json::parse(answer.body, nullptr, false)["session"]["revision"], "3") << answer.body;
  connection.reset();
  ExpectAllGivenBack();
}

TEST_F(HttpLinesTest, AnErrorNamesTheLine) {
  const std::string begin(kBegin);
  const auto message = [](const Answer& answer) {
    EXPECT_EQ(answer.status, 400) << answer.body;
    return Json::parse(answer.body, nullptr, false).value("message", "");
  };
  const std::string unknown = message(Import(begin + "\n{\"items\": {\"mesages\": []}}\n"));
  EXPECT_THAT(unknown, StartsWith("line 3: the request is no ImportSessionRequest in JSON"));
  EXPECT_THAT(unknown, HasSubstr("mesages"));
  EXPECT_THAT(message(Import(begin + "[]\n")), StartsWith("line 2: "));
  const std::string wrong = "{\"items\": {\"messages\": [{\"text\": \"wrong\"}]}}\n";
  EXPECT_EQ(message(Import(begin + std::string(kItem) + wrong + std::string(kEnd))),
            "line 3: items: is wrong");
  EXPECT_EQ(message(Import(begin + std::string(kItem))), "line 2: no end");
  EXPECT_EQ(message(Import("")), "no end");
  ExpectAllGivenBack();
}

TEST_F(HttpLinesTest, BoundsALineAndNotTheStream) {
  const std::string large =
      "{\"items\": {\"messages\": [{\"text\": \"" + std::string(300'000, 'x') + "\"}]}}\n";
  // Of a request, 1 MiB.
  EXPECT_EQ(Import(std::string(kBegin) + Lines(large, 10) + std::string(kEnd)).status, 200);
  for (const std::string_view end : {"", "\n"}) {
    const Answer answer =
        Import(std::string(kBegin) + std::string((1 << 20) + 1, 'x') + std::string(end));
    EXPECT_EQ(answer.status, 429);
    EXPECT_THAT(answer.body, HasSubstr("line 2: "));
    EXPECT_THAT(answer.body, HasSubstr("REQUEST_TOO_LARGE"));
  }
  ExpectAllGivenBack();
}

TEST_F(HttpLinesTest, ManySmallLinesNeedNoStack) {
  EXPECT_EQ(Import(std::string(kBegin) + Lines("{}\n", 50'000) + std::string(kEnd)).status, 200);
  EXPECT_EQ(Import(std::string(kBegin) + Lines("\n", 1'000'000) + std::string(kEnd)).status, 200);
  ExpectAllGivenBack();
}

TEST_F(HttpLinesTest, NothingIsReadAheadOfTheLineThatIsHandled) {
  auto connection = std::make_unique<RawConnection>(target());
  const std::string lines =
      "{\"begin\": {\"sessionId\": \"held\"}}\n" + Lines(kItem, 100'000) + std::string(kEnd);
  std::thread sender([&] { connection->Send(Post(kImport, "application/x-ndjson", lines)); });
  std::future<RpcCallPtr> held = held_.get_future();
  ASSERT_EQ(held.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  // Other connections of the same loops have their turn many times, and it holds as little.
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(Ask(PostJson(R"({"sessionId": "four"})")).status, 200);
    EXPECT_LT(budget_.held(), 256 << 10);
  }
  held.get()->Read();
  const Answer answer = connection->Read();
  sender.join();
  EXPECT_EQ(Json::parse(answer.body, nullptr, false)["session"]["revision"], "100000")
      << answer.head << answer.body;
  connection.reset();
  ExpectAllGivenBack();
}

TEST_F(HttpLinesTest, ALineThatStaysHalfThereIsGivenUp) {
  HttpServerOptions options;
  options.listener.addresses = {"127.0.0.1:0"};
  options.listener.max_message_bytes = 1 << 20;
  options.listener.times.body_idle = std::chrono::seconds(0);
  auto started = StartHttpServer(std::move(options), &methods_, &budget_);
  ASSERT_TRUE(started.ok()) << started.status();
  server_ = *std::move(started);
  RawConnection connection(target());
  connection.Send("POST " + std::string(kImport) +
                  " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
                  "Content-Length: 1000\r\n\r\n" +
                  std::string(kBegin) + "{\"items\"");
  const Answer answer = connection.Read();
  EXPECT_EQ(answer.status, 504);
  EXPECT_THAT(answer.body, HasSubstr("REQUEST_STALLED"));
  ExpectAllGivenBack();
}

TEST_F(HttpLinesTest, RefusesStreamsOfOtherForms) {
  for (const std::string_view type :
       {"application/json", "application/connect+json", "application/proto", "text/plain"}) {
    const Answer answer = Ask(Post(kImport, type, kBegin));
    EXPECT_EQ(answer.status, 415) << type;
    EXPECT_THAT(answer.head, HasSubstr("Accept-Post: application/x-ndjson\r\n"));
  }
  EXPECT_EQ(Ask(Post(kGet, "application/x-ndjson", "{}")).status, 415);
  EXPECT_EQ(Ask(Post(kStream, "application/x-ndjson", "{}")).status, 415);
  EXPECT_EQ(Ask(Post(kStream, "application/json", "{}")).status, 415);
  EXPECT_EQ(Ask(Post(kImport, "application/x-ndjson", kBegin,
                     "Host: localhost\r\nContent-Encoding: gzip\r\n"))
                .status,
            501);
  const Answer get = Ask("GET " + std::string(kImport) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(get.status, 405);
  EXPECT_EQ(started_, 0);
  ExpectAllGivenBack();
}

TEST_F(HttpLinesTest, TellsWhoAsksToGoOnOnce) {
  RawConnection connection(target());
  connection.Send("POST " + std::string(kImport) +
                  " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
                  "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(connection.ReadTo("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  for (const std::string_view line : {kBegin, kEnd}) {
    connection.Send(fmt::format("{:x}\r\n{}\r\n", line.size(), line));
  }
  EXPECT_EQ(connection.Read().status, 200);
}

TEST_F(HttpLinesTest, StreamsALineForEachReply) {
  RawConnection connection(target());
  connection.Send(StreamLines("{}"));
  const std::string answer = connection.ReadTo("0\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/x-ndjson\r\n"));
  const std::string page = "{\"messages\":[{\"text\":\"page\"}]}\n";
  const std::string chunk = fmt::format("{:x}\r\n{}\r\n", page.size(), page);
  EXPECT_TRUE(answer.ends_with("\r\n\r\n" + chunk + chunk + "0\r\n\r\n")) << answer;
  // An error comes before the first with its own status of HTTP.
  connection.Send(StreamLines("{\"sesionId\": 1}"));
  const Answer error = connection.Read();
  EXPECT_EQ(error.status, 400);
  EXPECT_THAT(error.body, HasSubstr("MALFORMED_JSON"));
  connection.Send(Post(kStream, "application/json", "{}",
                       "Host: localhost\r\nAccept: application/x-ndjson;q=0\r\n"));
  EXPECT_EQ(connection.Read().status, 415);
}

}  // namespace
}  // namespace memoryd
