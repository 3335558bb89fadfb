// What is asked of a worker, and what it answers.
#ifndef MEMORYD_CORE_WORKERS_WORKER_CALL_H_
#define MEMORYD_CORE_WORKERS_WORKER_CALL_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/memory_budget.h"
#include "core/blocks/block.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/model/trace_context.h"

namespace memoryd {

struct WorkerPut {
  std::string state;
  std::vector<BlockMessage> messages;
  std::string options_json;
  std::int64_t attempt = 1;
};

struct WorkerGet {
  std::string state;
  std::vector<BlockMessage> messages;
  std::string options_json;
};

struct WorkerTruncate {
  BlockContent content;
  std::int64_t tokens = 0;
  std::string options_json;
};

struct WorkerComplete {
  std::string model;
  ChatRequest request;
};

struct WorkerEmbed {
  std::string embedder;
  std::vector<std::string> texts;
  EmbedPurpose purpose = EmbedPurpose::kText;
};

using WorkerRequest =
    std::variant<WorkerPut, WorkerGet, WorkerTruncate, WorkerComplete, WorkerEmbed>;

// In the order of WorkerRequest.
inline constexpr std::array<std::string_view, std::variant_size_v<WorkerRequest>> kWorkerCallKinds =
    {"put", "get", "truncate", "complete", "embed"};

struct WorkerCall {
  std::string session;
  std::string block;
  std::string job_id;
  std::chrono::steady_clock::time_point deadline;
  WorkerRequest request;
  TracePtr trace = nullptr;
  // Of a job; of others the registry takes it.
  MemoryBudget::Hold memory = {};
};

// Absent: the state stays.
struct WorkerPutReply {
  std::optional<std::string> state;
};

struct WorkerTextReply {
  std::string text;
  std::string finish_reason = {};  // As in ChatReply.
};

struct WorkerVectorsReply {
  std::vector<std::vector<float>> vectors;
};

struct WorkerReply {
  std::variant<std::monostate, WorkerPutReply, BlockContent, WorkerTextReply, WorkerVectorsReply>
      result;
  Usage usage;
};

// A block that a worker serves.
struct WorkerBlockOffer {
  std::string name;
  bool takes_messages = false;
  bool truncates = false;
};

// Who a worker is and what it serves; checked.
struct WorkerOffer {
  std::string name;
  std::vector<WorkerBlockOffer> blocks;
  std::vector<std::string> models;
  std::vector<std::string> embedders;
  int max_concurrent_calls = 1;
};

// About what the call takes in memory and on the wire.
std::size_t ByteSize(const WorkerCall& call);

}  // namespace memoryd

#endif  // MEMORYD_CORE_WORKERS_WORKER_CALL_H_
