// An HTTP server on loopback that says what a test wants, right or wrong.
#ifndef MEMORYD_TESTS_SUPPORT_FAKE_HTTP_SERVER_H_
#define MEMORYD_TESTS_SUPPORT_FAKE_HTTP_SERVER_H_

#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/mutex.h"

namespace memoryd {

struct FakeRequest {
  std::string line;                            // Such as `POST /v1/embeddings HTTP/1.1`.
  std::map<std::string, std::string> headers;  // Names in lower case.
  std::string body;
};

struct FakeReply {
  std::string bytes;  // All of it, status line and headers too.
  // Sent again and again after `bytes`, until the client has enough.
  std::string endless;
  bool hold = false;   // Then says nothing more until the client goes.
  bool close = false;  // Then closes the connection.
};

inline FakeReply Reply(int code, std::string_view body, std::string_view headers = "") {
  FakeReply reply;
  reply.bytes = fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\n{}\r\n{}", code, body.size(),
                            headers, body);
  return reply;
}

class FakeHttpServer {
 public:
  // Called once for each request, on a thread of the server.
  using Handler = std::function<FakeReply(const FakeRequest& request)>;

  // With `tls`, which outlives the server, it speaks HTTPS.
  explicit FakeHttpServer(Handler handler, SSL_CTX* tls = nullptr)
      : handler_(std::move(handler)), tls_(tls) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, generic, size) != 0 || listen(listener_, 128) != 0 ||
        getsockname(listener_, generic, &size) != 0) {
      std::abort();
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }

  // Cuts off whatever is still open.
  ~FakeHttpServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    {
      MutexLock lock(mutex_);
      for (const Connection& connection : connections_) shutdown(connection.socket, SHUT_RDWR);
    }
    // Nobody adds any more.
    for (Connection& connection : connections_) {
      connection.thread.join();
      close(connection.socket);
    }
  }
  FakeHttpServer(const FakeHttpServer&) = delete;
  FakeHttpServer& operator=(const FakeHttpServer&) = delete;

  int port() const { return port_; }
  std::string url() const { return fmt::format("http://127.0.0.1:{}/v1", port_); }

  std::vector<FakeRequest> requests() {
    MutexLock lock(mutex_);
    return requests_;
  }
  // Returns once there are `count` requests.
  void WaitForRequests(std::size_t count) {
    MutexLock lock(mutex_);
    while (requests_.size() < count) arrived_.Wait(mutex_);
  }

 private:
  struct Connection {
    int socket = -1;
    std::thread thread;
  };

  void Accept() {
    for (;;) {
      const int accepted = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (accepted < 0) return;
      MutexLock lock(mutex_);
      Connection& connection = connections_.emplace_back();
      connection.socket = accepted;
      connection.thread = std::thread([this, accepted] { Serve(accepted); });
    }
  }

  // A connection, with or without TLS.
  struct Stream {
    int socket = -1;
    SSL* ssl = nullptr;
  };

  static bool Send(Stream stream, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = stream.ssl != nullptr
                               ? SSL_write(stream.ssl, bytes.data(), static_cast<int>(bytes.size()))
                               : send(stream.socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // False at the end of the connection.
  static bool Receive(Stream stream, std::string& buffer) {
    char bytes[65536];
    const ssize_t count = stream.ssl != nullptr
                              ? SSL_read(stream.ssl, bytes, static_cast<int>(sizeof bytes))
                              : recv(stream.socket, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    buffer.append(bytes, static_cast<std::size_t>(count));
    return true;
  }

  static bool ReadRequest(Stream stream, std::string& buffer, FakeRequest& request) {
    std::size_t end = 0;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
      if (!Receive(stream, buffer)) return false;
    }
    std::size_t begin = buffer.find("\r\n");
    request.line = buffer.substr(0, begin);
    while (begin < end) {
      const std::size_t line_begin = begin + 2;
      begin = buffer.find("\r\n", line_begin);
      const std::string line = buffer.substr(line_begin, begin - line_begin);
      const std::size_t colon = line.find(": ");
      std::string name = line.substr(0, colon);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      request.headers[name] = line.substr(colon + 2);
    }
    const std::size_t size = std::stoul(request.headers["content-length"]);
    while (buffer.size() < end + 4 + size) {
      if (!Receive(stream, buffer)) return false;
    }
    request.body = buffer.substr(end + 4, size);
    buffer.erase(0, end + 4 + size);
    return true;
  }

  void Serve(int socket) {
    if (tls_ == nullptr) return ServeStream({socket, nullptr});
    // OpenSSL writes to clients that have gone.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    SSL* const ssl = SSL_new(tls_);
    SSL_set_fd(ssl, socket);
    if (SSL_accept(ssl) == 1) ServeStream({socket, ssl});
    SSL_free(ssl);
    shutdown(socket, SHUT_RDWR);
  }

  void ServeStream(Stream stream) {
    std::string buffer;
    for (;;) {
      FakeRequest request;
      if (!ReadRequest(stream, buffer, request)) return;
      {
        MutexLock lock(mutex_);
        requests_.push_back(request);
        arrived_.NotifyAll();
      }
      const FakeReply reply = handler_(request);
      if (!Send(stream, reply.bytes)) return;
      while (!reply.endless.empty()) {
        if (!Send(stream, reply.endless)) return;
      }
      if (reply.hold) {
        while (Receive(stream, buffer)) {
        }
        return;
      }
      if (reply.close) {
        shutdown(stream.socket, SHUT_RDWR);
        return;
      }
    }
  }

  const Handler handler_;
  SSL_CTX* const tls_;
  int listener_ = -1;
  int port_ = 0;
  std::thread acceptor_;
  Mutex mutex_;
  CondVar arrived_;
  std::list<Connection> connections_;
  std::vector<FakeRequest> requests_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_FAKE_HTTP_SERVER_H_
