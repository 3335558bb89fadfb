#ifndef MEMORYD_TESTS_BENCHMARK_WORKLOAD_H_
#define MEMORYD_TESTS_BENCHMARK_WORKLOAD_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace memoryd::benchmark {

// What the calls of one run ask for. Sessions are `<session_prefix>-<number>`, the numbers from
// `first_session` on.
struct WorkloadOptions {
  enum class Kind { kPut, kPutBatch, kGet, kGetAll, kMix };

  Kind kind = Kind::kPut;
  std::string session_prefix = "load";
  std::size_t sessions = 1000;  // At least 1. Calls go over them in turn.
  std::size_t first_session = 0;
  std::size_t message_bytes = 88;    // Text of one message.
  std::size_t messages_per_put = 1;  // At least 1.
  std::size_t puts_per_call = 32;    // For kPutBatch, at least 1; over the sessions in turn.
  double put_share = 0.5;            // For kMix: which share of the calls are Puts, 0 to 1.
  // Of sessions that a Put creates; empty and 0 for the defaults.
  std::string profile = {};
  std::int64_t token_limit = 0;
  std::int64_t token_flush_size = 0;
  bool with_request_id = false;  // Puts carry a request_id that is never used twice.
};

// Makes requests. Their bytes are built once, so that a call costs the client no serialisation.
// Immutable: any thread may ask.
class Workload {
 public:
  struct Call {
    const std::string* method;  // Full name of the RPC; outlives the workload.
    grpc::ByteBuffer request;
  };

  explicit Workload(const WorkloadOptions& options);

  // The call with this number, from 0. The same number gives the same call.
  Call Make(std::uint64_t number) const;

 private:
  // A Put's bytes are shared between calls; only the request_id behind them is new.
  grpc::ByteBuffer WithRequestId(const grpc::Slice& request, std::uint64_t number) const;
  std::string RequestId(std::uint64_t number) const;
  grpc::ByteBuffer PutBatch(std::uint64_t number) const;

  WorkloadOptions options_;
  std::string request_id_prefix_;  // Different in every process.
  std::vector<grpc::Slice> puts_;  // By session; empty when no call is a Put.
  std::vector<grpc::Slice> reads_;
};

}  // namespace memoryd::benchmark

#endif  // MEMORYD_TESTS_BENCHMARK_WORKLOAD_H_
