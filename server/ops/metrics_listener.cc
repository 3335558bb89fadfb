#include "server/ops/metrics_listener.h"

#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/exception.h"
#include "server/http2/listening_socket.h"

namespace memoryd {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::chrono::seconds kRequestTime(10);
constexpr std::size_t kMaxHeaders = 8 << 10;
constexpr std::size_t kMaxConnections = 64;

}  // namespace

// All but the constructor and destructor on its thread.
class MetricsListener::Server {
 public:
  Server(ListeningSocket socket, std::shared_ptr<prometheus::Collectable> metrics,
         std::function<bool()> ready, const asio::ip::tcp& protocol)
      : metrics_(std::move(metrics)),
        ready_(std::move(ready)),
        socket_(std::move(socket)),
        acceptor_(context_),
        again_(context_) {
    acceptor_.assign(protocol, ::dup(socket_.descriptor()));
    Accept();
    thread_ = std::thread([this] { Run(); });
  }

  ~Server() {
    asio::post(context_, [this] { context_.stop(); });
    thread_.join();
  }

 private:
  // A connection, which asks one thing after the other.
  class Session : public std::enable_shared_from_this<Session> {
   public:
    Session(Server* server, asio::ip::tcp::socket socket)
        : server_(*server), stream_(std::move(socket)) {}

    void Read() {
      parser_.emplace();
      parser_->header_limit(kMaxHeaders);
      parser_->body_limit(0);
      stream_.expires_after(kRequestTime);
      http::async_read(stream_, buffer_, *parser_,
                       [self = shared_from_this()](beast::error_code error, std::size_t) {
                         if (error) {
                           self->Close();
                         } else {
                           self->Answer();
                         }
                       });
    }

    void Close() {
      beast::error_code ignored;
      static_cast<void>(stream_.socket().close(ignored));
      server_.Forget(this);
    }

   private:
    void Answer() {
      response_ = {};
      try {
        server_.Respond(parser_->get(), response_);
      } catch (...) {
        // Whoever asks is told nothing of it, and asks again.
        response_ = {};
        response_.result(http::status::internal_server_error);
      }
      response_.keep_alive(parser_->get().keep_alive());
      response_.prepare_payload();
      if (parser_->get().method() == http::verb::head) response_.body().clear();
      stream_.expires_after(kRequestTime);
      http::async_write(stream_, response_,
                        [self = shared_from_this()](beast::error_code error, std::size_t) {
                          if (error || !self->response_.keep_alive()) {
                            self->Close();
                          } else {
                            self->Read();
                          }
                        });
    }

    Server& server_;
    beast::tcp_stream stream_;
    beast::flat_buffer buffer_{kMaxHeaders};
    std::optional<http::request_parser<http::empty_body>> parser_;
    http::response<http::string_body> response_;
  };

  // An exception, such as memory that runs out, ends the connection that it met: nothing waits for
  // that any more.
  void Run() {
    for (;;) {
      try {
        if (!waiting_) WaitToAccept();
        context_.run();
        return;
      } catch (...) {
        // Whoever asks is told nothing of it, and asks again.
        continue;
      }
    }
  }

  void Accept() {
    acceptor_.async_accept([this](beast::error_code error, asio::ip::tcp::socket socket) {
      waiting_ = false;
      if (error == asio::error::operation_aborted) return;
      if (!error) {
        if (sessions_.size() >= kMaxConnections) {
          const std::shared_ptr<Session> oldest = sessions_.front();
          oldest->Close();
        }
        sessions_.push_back(std::make_shared<Session>(this, std::move(socket)));
        sessions_.back()->Read();
        Accept();
        return;
      }
      WaitToAccept();
    });
    waiting_ = true;
  }

  void WaitToAccept() {
    again_.expires_after(kAcceptAgain);
    again_.async_wait([this](beast::error_code cancelled) {
      waiting_ = false;
      if (!cancelled) Accept();
    });
    waiting_ = true;
  }

  void Forget(const Session* session) {
    sessions_.remove_if([session](const auto& each) { return each.get() == session; });
  }

  void Respond(const http::request<http::empty_body>& request,
               http::response<http::string_body>& response) const {
    response.set(http::field::content_type, "text/plain; charset=utf-8");
    if (request.method() != http::verb::get && request.method() != http::verb::head) {
      response.result(http::status::method_not_allowed);
      response.set(http::field::allow, "GET, HEAD");
      return;
    }
    const auto target = request.target().substr(0, request.target().find('?'));
    if (target == "/metrics") {
      response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
      response.body() = prometheus::TextSerializer().Serialize(metrics_->Collect());
    } else if (target == "/healthz") {
      response.body() = "ok\n";
    } else if (target == "/readyz") {
      const bool ready = ready_();
      if (!ready) response.result(http::status::service_unavailable);
      response.body() = ready ? "ok\n" : "not serving\n";
    } else {
      response.result(http::status::not_found);
      response.body() = "/metrics, /healthz and /readyz are here\n";
    }
  }

  const std::shared_ptr<prometheus::Collectable> metrics_;
  const std::function<bool()> ready_;
  const ListeningSocket socket_;
  asio::io_context context_{1};
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer again_;
  bool waiting_ = false;  // For a caller, or to accept again.
  // The one that came first in front.
  std::list<std::shared_ptr<Session>> sessions_;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(
    const std::string& address, std::shared_ptr<prometheus::Collectable> metrics,
    std::function<bool()> ready) {
  auto listener = std::unique_ptr<MetricsListener>(new MetricsListener());
  listener->address_ = address;
  auto sockets = ListeningSocket::Open(listener->address_, 0600);
  if (!sockets.ok()) {
    return absl::UnavailableError(
        fmt::format("metrics_listen: {}", std::string(sockets.status().message())));
  }
  try {
    listener->server_ = std::make_unique<Server>(
        std::move(sockets->front()), std::move(metrics), std::move(ready),
        address.starts_with('[') ? asio::ip::tcp::v6() : asio::ip::tcp::v4());
  } catch (...) {
    return CaughtException();
  }
  return listener;
}

MetricsListener::~MetricsListener() = default;

}  // namespace memoryd
