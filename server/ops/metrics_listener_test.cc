#include "server/ops/metrics_listener.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace memoryd {
namespace {

class OneGauge final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    prometheus::MetricFamily family;
    family.name = "cups";
    family.help = "Of tea.";
    family.type = prometheus::MetricType::Gauge;
    family.metric.emplace_back().gauge.value = 3;
    return {family};
  }
};

class MetricsListenerTest : public ::testing::Test {
 protected:
  MetricsListenerTest() {
    auto started = MetricsListener::Start("127.0.0.1:0", std::make_shared<OneGauge>(),
                                          [this] { return ready_.load(); });
    EXPECT_TRUE(started.ok()) << started.status();
    listener_ = *std::move(started);
  }

  int Connect() {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    Connect(socket);
    return socket;
  }

  void Connect(int socket) {
    const std::string& address = listener_->address();
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_port =
        htons(static_cast<in_port_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  }

  // What comes until the server closes.
  static std::string ReadAll(int socket) {
    std::string all;
    char part[4096];
    for (ssize_t size = 0; (size = ::read(socket, part, sizeof(part))) > 0;) {
      all.append(part, static_cast<std::size_t>(size));
    }
    ::close(socket);
    return all;
  }

  std::string Ask(const std::string& line) {
    const int socket = Connect();
    const std::string request = line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(::write(socket, request.data(), request.size()),
              static_cast<ssize_t>(request.size()));
    return ReadAll(socket);
  }

  std::atomic<bool> ready_{true};
  std::unique_ptr<MetricsListener> listener_;
};

TEST_F(MetricsListenerTest, TellsMetricsInPrometheusForm) {
  const std::string answer = Ask("GET /metrics");
  EXPECT_NE(answer.find("200 OK"), std::string::npos) << answer;
  EXPECT_NE(answer.find("text/plain; version=0.0.4"), std::string::npos);
  EXPECT_NE(answer.find("\ncups 3\n"), std::string::npos);
}

TEST_F(MetricsListenerTest, ProbesTellLivenessAndReadiness) {
  EXPECT_NE(Ask("GET /healthz").find("200 OK"), std::string::npos);
  EXPECT_NE(Ask("GET /readyz").find("200 OK"), std::string::npos);
  ready_ = false;
  EXPECT_NE(Ask("GET /healthz").find("200 OK"), std::string::npos);
  EXPECT_NE(Ask("GET /readyz").find("503"), std::string::npos);
}

TEST_F(MetricsListenerTest, OtherPathsAndMethodsAreRefused) {
  EXPECT_NE(Ask("GET /").find("404"), std::string::npos);
  EXPECT_NE(Ask("POST /metrics").find("405"), std::string::npos);
  EXPECT_NE(Ask("HEAD /metrics").find("200 OK"), std::string::npos);
  EXPECT_EQ(Ask("HEAD /metrics").find("cups"), std::string::npos);
}

TEST_F(MetricsListenerTest, HalfRequestsKeepNobodyOut) {
  std::vector<int> half;
  for (int i = 0; i < 200; ++i) {
    half.push_back(Connect());
    ASSERT_EQ(::write(half.back(), "GET /met", 8), 8);
  }
  EXPECT_NE(Ask("GET /metrics").find("\ncups 3\n"), std::string::npos);
  for (const int socket : half) ::close(socket);
}

// Lets the process open no more files while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    // The lowest one that is free: what is open stays so.
    const int free = ::dup(STDERR_FILENO);
    ::close(free);
    const rlimit none{static_cast<rlim_t>(free), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_ = {};
};

TEST_F(MetricsListenerTest, WithoutDescriptorsItWaitsAndThenAccepts) {
  // Accepted, so that the listener waits for the next one.
  EXPECT_NE(Ask("GET /healthz").find("200 OK"), std::string::npos);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  {
    const NoDescriptors none;
    Connect(socket);
    ASSERT_EQ(::write(socket, request.data(), request.size()),
              static_cast<ssize_t>(request.size()));
    char byte = 0;
    EXPECT_EQ(::recv(socket, &byte, 1, MSG_DONTWAIT), -1) << "nobody can have accepted it";
  }
  EXPECT_NE(ReadAll(socket).find("200 OK"), std::string::npos);
}

TEST_F(MetricsListenerTest, LargeHeadersEndTheConnection) {
  const int socket = Connect();
  const std::string request = "GET /metrics HTTP/1.1\r\nX: " + std::string(20'000, 'x');
  static_cast<void>(::send(socket, request.data(), request.size(), MSG_NOSIGNAL));
  EXPECT_EQ(ReadAll(socket).find("cups"), std::string::npos);
}

TEST_F(MetricsListenerTest, AnAddressInUseIsNamed) {
  EXPECT_FALSE(listener_->address().ends_with(":0"));
  const auto second = MetricsListener::Start(listener_->address(), std::make_shared<OneGauge>(),
                                             [] { return true; });
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_NE(second.status().message().find("in use"), absl::string_view::npos);
}

}  // namespace
}  // namespace memoryd
