#ifndef MEMORYD_TESTS_BENCHMARK_LOAD_CLIENT_H_
#define MEMORYD_TESTS_BENCHMARK_LOAD_CLIENT_H_

#include <absl/status/statusor.h>
#include <grpcpp/generic/generic_stub.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/benchmark/workload.h"

namespace memoryd::benchmark {

struct LoadOptions {
  std::size_t outstanding = 32;  // Calls in flight, at most; at least 1.
  std::size_t threads = 1;       // Threads that complete calls, 1 to `outstanding`.
  // A run lasts `warmup` uncounted and `duration` counted seconds, or for `count` calls when that
  // is above 0: all of them are counted.
  std::chrono::nanoseconds warmup{};
  std::chrono::nanoseconds duration{};
  std::uint64_t count = 0;
  // Calls per second of an open loop: arrivals are a Poisson process that a slow server does not
  // slow down, and a call's latency runs from its arrival. 0 for a closed loop. Not with `count`.
  double rate = 0;
  std::chrono::nanoseconds call_timeout = std::chrono::seconds(10);
  std::string token{};  // A bearer token that every call brings; none when empty.
};

// What was counted. `latencies_ns` are those of calls that were answered OK, `refused_ns` those of
// calls answered RESOURCE_EXHAUSTED, unordered. Failed calls count even in the warm-up.
struct LoadResult {
  std::vector<std::int64_t> latencies_ns;
  std::vector<std::int64_t> refused_ns;
  std::array<std::uint64_t, 17> by_code{};  // Calls by grpc::StatusCode.
  std::uint64_t reply_bytes = 0;            // Of the calls answered OK.
  std::string first_error;                  // Message of one that was not.
  double seconds = 0;      // From the begin of what is counted to its end or its last reply.
  double cpu_seconds = 0;  // Of this process over these seconds.
};

// Connections to one server over which any number of runs can be made, one at a time.
class LoadClient {
 public:
  // Connects at once. `target` is what gRPC takes, such as 127.0.0.1:50051 or unix:PATH; with
  // `ca_pem`, the certificates of authorities, over TLS. DEADLINE_EXCEEDED when the server can't be
  // reached within `timeout`.
  static absl::StatusOr<LoadClient> Connect(
      const std::string& target, std::size_t connections,
      std::chrono::nanoseconds timeout = std::chrono::seconds(10), const std::string& ca_pem = {});

  // Makes calls 0, 1, ... of `workload` as `options` say and returns when all are answered.
  LoadResult Run(const Workload& workload, const LoadOptions& options);

 private:
  explicit LoadClient(std::vector<std::unique_ptr<grpc::GenericStub>> stubs)
      : stubs_(std::move(stubs)) {}

  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;  // One connection each.
};

}  // namespace memoryd::benchmark

#endif  // MEMORYD_TESTS_BENCHMARK_LOAD_CLIENT_H_
