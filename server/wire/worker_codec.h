// What workers and the server say to each other, on the wire and in the core.
#ifndef MEMORYD_SERVER_WIRE_WORKER_CODEC_H_
#define MEMORYD_SERVER_WIRE_WORKER_CODEC_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/workers/worker_call.h"
#include "memoryd/v1/worker_service.pb.h"

namespace memoryd {

inline constexpr int kMaxWorkerCalls = 256;
inline constexpr int kDefaultWorkerCalls = 8;

// INVALID_ARGUMENT that names the field.
absl::StatusOr<WorkerOffer> FromProto(const v1::WorkerHello& hello);

// The error that the worker reports, with the reason `WORKER_FAILED`; DATA_LOSS `WORKER_ANSWER` for
// an answer that can't be taken. Takes from `result` what it can.
absl::StatusOr<WorkerReply> FromProto(v1::WorkerResult& result);

// A serialized AttachResponse.
std::string EncodeCall(std::int64_t call_id, const WorkerCall& call,
                       std::chrono::steady_clock::time_point now);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_WORKER_CODEC_H_
