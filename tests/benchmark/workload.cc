#include "tests/benchmark/workload.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "memoryd/v1/memory_service.pb.h"

namespace memoryd::benchmark {
namespace {

// Lengths and frequencies as in chat: most are one token with the space before them.
constexpr std::array<std::string_view, 48> kWords = {
    "the",   "what",   "is",        "capital", "of",       "France",   "please",  "book",
    "a",     "table",  "for",       "two",     "tomorrow", "evening",  "my",      "sister",
    "likes", "hiking", "in",        "autumn",  "and",      "remember", "that",    "I",
    "moved", "to",     "Hamburg",   "last",    "year",     "because",  "work",    "changed",
    "could", "you",    "summarise", "our",     "plan",     "before",   "meeting", "at",
    "half",  "past",   "nine",      "with",    "Dr.",      "Okafor,",  "thanks!", "perhaps"};

std::string Text(std::size_t bytes, std::minstd_rand& random) {
  std::string text;
  std::uniform_int_distribution<std::size_t> word(0, kWords.size() - 1);
  while (text.size() < bytes) {
    if (!text.empty()) text += ' ';
    text += kWords[word(random)];
  }
  text.resize(bytes);
  return text;
}

std::string PutBytes(const WorkloadOptions& options, const std::string& session,
                     std::minstd_rand& random) {
  v1::PutRequest request;
  request.set_session_id(session);
  for (std::size_t i = 0; i < options.messages_per_put; ++i) {
    v1::Message& message = *request.add_messages();
    message.set_role(i % 2 == 0 ? "user" : "assistant");
    message.set_text(Text(options.message_bytes, random));
  }
  if (!options.profile.empty()) request.mutable_config()->set_profile(options.profile);
  if (options.token_limit > 0) request.mutable_config()->set_token_limit(options.token_limit);
  if (options.token_flush_size > 0) {
    request.mutable_config()->set_token_flush_size(options.token_flush_size);
  }
  return request.SerializeAsString();
}

const std::string kPutMethod = "/memoryd.v1.MemoryService/Put";
const std::string kPutBatchMethod = "/memoryd.v1.MemoryService/PutBatch";
const std::string kGetMethod = "/memoryd.v1.MemoryService/Get";
const std::string kGetAllMethod = "/memoryd.v1.MemoryService/GetAll";

}  // namespace

Workload::Workload(const WorkloadOptions& options)
    : options_(options), request_id_prefix_(fmt::format("{:08x}", std::random_device{}())) {
  using Kind = WorkloadOptions::Kind;
  // A fixed seed: two runs send the same bytes.
  std::minstd_rand random(1);
  for (std::size_t i = 0; i < options_.sessions; ++i) {
    const std::string session =
        fmt::format("{}-{}", options_.session_prefix, options_.first_session + i);
    if (options_.kind == Kind::kPut || options_.kind == Kind::kPutBatch ||
        options_.kind == Kind::kMix) {
      puts_.emplace_back(PutBytes(options_, session, random));
    }
    if (options_.kind == Kind::kGetAll) {
      v1::GetAllRequest request;
      request.set_session_id(session);
      reads_.emplace_back(request.SerializeAsString());
    } else if (options_.kind == Kind::kGet || options_.kind == Kind::kMix) {
      v1::GetRequest request;
      request.set_session_id(session);
      reads_.emplace_back(request.SerializeAsString());
    }
  }
}

grpc::ByteBuffer Workload::WithRequestId(const grpc::Slice& request, std::uint64_t number) const {
  // Messages concatenated on the wire are merged by the parser, so the field may come last.
  const std::array<grpc::Slice, 2> slices = {request, grpc::Slice(RequestId(number))};
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Workload::RequestId(std::uint64_t number) const {
  v1::PutRequest tail;
  tail.set_request_id(fmt::format("{}-{:x}", request_id_prefix_, number));
  return tail.SerializeAsString();
}

grpc::ByteBuffer Workload::PutBatch(std::uint64_t number) const {
  std::vector<grpc::Slice> slices;
  for (std::size_t i = 0; i < options_.puts_per_call; ++i) {
    const std::uint64_t put = number * options_.puts_per_call + i;
    const grpc::Slice& request = puts_[put % options_.sessions];
    const std::string tail = options_.with_request_id ? RequestId(put) : std::string();
    std::string begin = {'\n'};  // PutBatchRequest.puts, and its length.
    std::size_t size = request.size() + tail.size();
    for (; size >= 0x80; size >>= 7) begin += static_cast<char>(size | 0x80);
    begin += static_cast<char>(size);
    slices.emplace_back(begin);
    slices.push_back(request);
    if (!tail.empty()) slices.emplace_back(tail);
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

Workload::Call Workload::Make(std::uint64_t number) const {
  using Kind = WorkloadOptions::Kind;
  if (options_.kind == Kind::kPutBatch) return {&kPutBatchMethod, PutBatch(number)};
  bool put = options_.kind == Kind::kPut;
  if (options_.kind == Kind::kMix) {
    // Fibonacci hashing spreads Puts evenly over the calls, whatever the number of sessions.
    const auto hash = static_cast<std::uint32_t>((number * 0x9E3779B97F4A7C15U) >> 32);
    put = hash < options_.put_share * 4294967296.0;
  }
  const std::size_t session = number % options_.sessions;
  if (!put) {
    return {options_.kind == Kind::kGetAll ? &kGetAllMethod : &kGetMethod,
            grpc::ByteBuffer(&reads_[session], 1)};
  }
  return {&kPutMethod, options_.with_request_id ? WithRequestId(puts_[session], number)
                                                : grpc::ByteBuffer(&puts_[session], 1)};
}

}  // namespace memoryd::benchmark
