// A server on a free port, and a connection whose bytes are the test's own.
#ifndef MEMORYD_SERVER_HTTP_HTTP_SERVER_TEST_SUPPORT_H_
#define MEMORYD_SERVER_HTTP_HTTP_SERVER_TEST_SUPPORT_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/worker_service.pb.h"
#include "server/http/http_server.h"
#include "server/rpc/parse_request.h"

namespace memoryd {

// Answers a Get with a text of as many bytes as its `input` says. The session "held" gets none, and
// "refused" an error.
class Answering final : public RpcHandler, public std::enable_shared_from_this<Answering> {
 public:
  Answering(RpcCallPtr rpc, std::atomic<int>* started, std::atomic<int>* cancelled)
      : rpc_(std::move(rpc)), started_(*started), cancelled_(*cancelled) {}

  void OnMessage(std::string_view bytes) override {
    ++started_;
    v1::GetRequest request;
    if (const absl::Status status = Parse(bytes, request); !status.ok()) {
      rpc_->Finish(status, "an-id");
      return;
    }
    if (request.session_id() == "held") return;
    if (request.session_id() == "refused") {
      rpc_->Finish(Error(absl::StatusCode::kNotFound, "SESSION_UNKNOWN", "no such session",
                         {{"session_id", "refused"}}),
                   "an-id");
      return;
    }
    v1::GetResponse response;
    response.set_limit(static_cast<std::int64_t>(request.session_id().size()));
    if (request.has_input()) {
      response.add_messages()->set_text(
          std::string(static_cast<std::size_t>(std::atoi(request.input().c_str())), 'x'));
    }
    rpc_->SendLast(response.SerializeAsString(), {});
  }
  void OnReadEnd(const absl::Status& status) override {
    rpc_->Finish(status.ok() ? absl::InvalidArgumentError("no request") : status, "an-id");
  }
  void OnCancel() override { ++cancelled_; }

 private:
  const RpcCallPtr rpc_;
  std::atomic<int>& started_;
  std::atomic<int>& cancelled_;
};

// Sends two pages, then ends.
class Streaming final : public RpcHandler {
 public:
  explicit Streaming(RpcCallPtr rpc) : rpc_(std::move(rpc)) {}
  void OnMessage(std::string_view /*bytes*/) override { SendPage(); }
  void OnReadEnd(const absl::Status& status) override { rpc_->Finish(status, {}); }
  void OnSent() override {
    if (pages_ == 2) {
      rpc_->Finish(absl::OkStatus(), {});
    } else {
      SendPage();
    }
  }

 private:
  void SendPage() {
    ++pages_;
    v1::StreamAllResponse page;
    page.add_messages()->set_text("page");
    rpc_->Send(page.SerializeAsString(), {});
  }

  const RpcCallPtr rpc_;
  int pages_ = 0;
};

struct Answer {
  int status = 0;
  std::string head;
  std::string body;
};

// A connection whose bytes are the test's own.
class RawConnection {
 public:
  explicit RawConnection(const std::string& target)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    name.sin_port =
        htons(static_cast<std::uint16_t>(std::atoi(target.substr(target.rfind(':') + 1).c_str())));
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
    // So that a test fails where the server says nothing.
    const timeval patience{60, 0};
    EXPECT_EQ(::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
  }
  ~RawConnection() { ::close(socket_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // Until `end` has come, with it; what came of it when the server closes.
  std::string ReadTo(std::string_view end) {
    while (kept_.find(end) == std::string::npos) {
      if (!ReadMore()) return std::exchange(kept_, {});
    }
    const std::size_t size = kept_.find(end) + end.size();
    std::string taken = kept_.substr(0, size);
    kept_.erase(0, size);
    return taken;
  }

  // An answer with a Content-Length.
  Answer Read() {
    Answer answer;
    answer.head = ReadTo("\r\n\r\n");
    if (answer.head.size() < 12) return answer;
    answer.status = std::atoi(answer.head.substr(9, 3).c_str());
    const std::size_t at = answer.head.find("Content-Length: ");
    if (at == std::string::npos) return answer;
    const auto size = static_cast<std::size_t>(std::atoi(answer.head.c_str() + at + 16));
    while (kept_.size() < size && ReadMore()) {
    }
    answer.body = kept_.substr(0, size);
    kept_.erase(0, size);
    return answer;
  }

  bool IsClosedByServer() { return kept_.empty() && !ReadMore(); }

 private:
  bool ReadMore() {
    char buffer[4096];
    const ssize_t size = ::recv(socket_, buffer, sizeof(buffer), 0);
    if (size <= 0) return false;
    kept_.append(buffer, static_cast<std::size_t>(size));
    return true;
  }

  const int socket_;
  std::string kept_;
};

inline constexpr std::string_view kGet = "/memoryd.v1.MemoryService/Get";

inline std::string Post(std::string_view path, std::string_view type, std::string_view body,
                        std::string_view headers = "Host: localhost\r\n") {
  return "POST " + std::string(path) + " HTTP/1.1\r\n" + std::string(headers) +
         "Content-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

inline std::string PostJson(std::string_view body,
                            std::string_view headers = "Host: localhost\r\n") {
  return Post(kGet, "application/json", body, headers);
}

class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    methods_.Add(std::string(kGet), [this](RpcCallPtr rpc) {
      Begin(rpc, std::make_shared<Answering>(rpc, &started_, &cancelled_));
    });
    methods_.Add("/memoryd.v1.MemoryService/StreamAll",
                 [](const RpcCallPtr& rpc) { Begin(rpc, std::make_shared<Streaming>(rpc)); });
    // Its file is linked for its types alone.
    ASSERT_NE(v1::AttachRequest::descriptor(), nullptr);
    methods_.Add("/memoryd.v1.WorkerService/Attach", [](const RpcCallPtr& /*rpc*/) { FAIL(); });
    Serve(true);
  }

  void Serve(bool only_loopback_hosts, std::vector<std::string> allowed_origins = {}) {
    HttpServerOptions options;
    options.allowed_origins = std::move(allowed_origins);
    options.listener.addresses = {"127.0.0.1:0"};
    options.listener.max_message_bytes = 1 << 20;
    options.is_ready = [this] { return ready_.load(); };
    options.only_loopback_hosts = only_loopback_hosts;
    auto started = StartHttpServer(std::move(options), &methods_, &budget_);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }

  static void Begin(const RpcCallPtr& rpc, std::shared_ptr<RpcHandler> handler) {
    if (const absl::Status status = rpc->ChargeTo("tenant"); !status.ok()) {
      rpc->Finish(status, {});
      return;
    }
    rpc->SetHandler(std::move(handler));
    rpc->Read();
  }

  std::string target() const { return server_->addresses()[0]; }

  Answer Ask(const std::string& request) {
    RawConnection connection(target());
    connection.Send(request);
    return connection.Read();
  }

  // Waits until nobody holds anything, or for a minute.
  void ExpectAllGivenBack() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (server_->stats().open() + budget_.held() + server_->unauthenticated_held() > 0 &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(server_->stats().open(), 0);
    EXPECT_EQ(budget_.held(), 0);
    EXPECT_EQ(server_->unauthenticated_held(), 0);
    EXPECT_EQ(server_->stats().exceptions(), 0U);
  }

  RpcMethods methods_;
  MemoryBudget budget_{64 << 20};
  std::atomic<int> started_{0};
  std::atomic<int> cancelled_{0};
  std::atomic<bool> ready_{true};
  std::unique_ptr<Http2Server> server_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_HTTP_SERVER_TEST_SUPPORT_H_
