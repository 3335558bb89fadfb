// Bytes of an UpdateContextRequest, and of a QueryRequest, through parsing, checking and
// conversion: whatever comes is refused in order or answered, and the update of an updated context
// is that context.
#include <google/protobuf/arena.h>
#include <google/protobuf/util/message_differencer.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/model/body_reader.h"
#include "core/model/session_config.h"
#include "core/recall/recall.h"
#include "core/recall/update_context.h"
#include "memoryd/v1/memory_service.pb.h"
#include "server/rpc/parse_request.h"
#include "server/rpc/recall_call.h"
#include "server/wire/stored_body.h"
#include "tests/fuzz/field_error.h"
#include "tests/fuzz/require.h"

namespace memoryd {
namespace {

// Memory that says what the request said, so that its texts are hostile as well.
struct Memory {
  std::vector<ContentValue> contents;
  std::vector<RecalledMessage> recalled;
  std::vector<StableBlock> blocks;
};

Memory MemoryFrom(const v1::UpdateContextRequest& request) {
  Memory memory;
  for (const v1::Message& message : request.messages()) {
    const auto kind = static_cast<ContentValue::Kind>(message.name().size() % 4);
    memory.contents.push_back({kind, message.role(), message.text()});
    if (kind == ContentValue::Kind::kText) {
      memory.blocks.push_back({message.role(), message.text()});
    }
    RecalledMessage recalled;
    recalled.message.role = message.role();
    recalled.message.text = WordsOf(message);
    recalled.time_us = message.create_time().seconds() * 1'000'000;
    memory.recalled.push_back(std::move(recalled));
  }
  return memory;
}

v1::UpdateContextResponse Update(v1::UpdateContextRequest& request, InsertMethod method,
                                 const Memory& memory) {
  const auto context = FromProto(request);
  Require(context.ok());
  const ContextRules rules{method, request.alternate_roles(),
                           !memory.blocks.empty() || !memory.contents.empty()};
  BareContext bare = RemoveMemory(context->messages, rules);
  UpdatedContext updated;
  updated.insertions = InsertMemory(bare, rules, memory.blocks, memory.contents, memory.recalled);
  updated.kept = std::move(bare.kept);
  const auto reply = UpdateContextReply(updated, request);
  v1::UpdateContextResponse response;
  Require(reply.ok() && response.ParseFromString(*reply));
  for (const v1::Insertion& insertion : response.insertions()) {
    Require(insertion.index() >= 0 && insertion.index() < response.messages_size());
  }
  return response;
}

void RunUpdate(const std::string& bytes) {
  google::protobuf::Arena arena;
  auto& request = *google::protobuf::Arena::CreateMessage<v1::UpdateContextRequest>(&arena);
  if (!request.ParseFromString(bytes)) return;
  if (const auto status = FromProto(request).status(); !status.ok()) {
    return RequireNamesField(status);
  }
  const Memory memory = MemoryFrom(request);
  (void)ListMemoryText(memory.contents);
  for (const InsertMethod method : {InsertMethod::kSystem, InsertMethod::kUser}) {
    v1::UpdateContextRequest once = request;
    const v1::UpdateContextResponse first = Update(once, method, memory);
    v1::UpdateContextRequest again;
    again.set_session_id("s");
    again.set_alternate_roles(request.alternate_roles());
    *again.mutable_messages() = first.messages();
    again.set_known_prefix_hash(first.stable_prefix_hash());
    const v1::UpdateContextResponse second = Update(again, method, memory);
    v1::UpdateContextResponse expected = first;
    expected.set_unchanged(!first.stable_prefix_hash().empty());
    Require(google::protobuf::util::MessageDifferencer::Equals(second, expected));
  }
}

void RunQuery(const std::string& bytes) {
  v1::QueryRequest request;
  if (!request.ParseFromString(bytes)) return;
  const auto query = FromProto(request);
  if (!query.ok()) return RequireNamesField(query.status());
  Require(query->top_k >= 1 && query->top_k <= 1000 && query->shape.neighbours <= 10);
}

}  // namespace
}  // namespace memoryd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool captured = [] {
    memoryd::CaptureProtobufLog();
    return true;
  }();
  (void)captured;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  memoryd::RunUpdate(bytes);
  memoryd::RunQuery(bytes);
  return 0;
}
