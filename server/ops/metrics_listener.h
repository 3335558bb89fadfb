// Metrics and probes over HTTP/1.1.
#ifndef MEMORYD_SERVER_OPS_METRICS_LISTENER_H_
#define MEMORYD_SERVER_OPS_METRICS_LISTENER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace prometheus {
class Collectable;
}  // namespace prometheus

namespace memoryd {

// Answers GET and HEAD while it lives:
//   /metrics   what `metrics` collects, in Prometheus' text form
//   /healthz   200 as long as the process answers
//   /readyz    200 while `ready` says true, else 503
// On one thread of its own. At most 64 connections are open: one more closes the one that has
// waited longest. A request that has not come within 10 seconds, or has headers of over 8 KiB, ends
// its connection.
class MetricsListener {
 public:
  // `address` is IP:PORT; port 0 picks a free one. `metrics` and `ready` are asked on the
  // listener's thread. UNAVAILABLE in one line when it can't listen there.
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(
      const std::string& address, std::shared_ptr<prometheus::Collectable> metrics,
      std::function<bool()> ready);
  ~MetricsListener();
  MetricsListener(const MetricsListener&) = delete;
  MetricsListener& operator=(const MetricsListener&) = delete;

  // With the port that was picked.
  const std::string& address() const { return address_; }

 private:
  class Server;

  MetricsListener() = default;

  std::string address_;
  std::unique_ptr<Server> server_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_METRICS_LISTENER_H_
