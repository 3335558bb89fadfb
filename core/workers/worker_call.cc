#include "core/workers/worker_call.h"

#include <cstddef>
#include <variant>
#include <vector>

#include "core/blocks/block.h"
#include "core/model/body_reader.h"

namespace memoryd {
namespace {

// Of a message, part or text beside its strings.
constexpr std::size_t kOverhead = 32;

std::size_t SizeOf(const StoredMessage& message) {
  std::size_t size =
      kOverhead + message.role.size() + message.name.size() + message.metadata_json.size();
  for (const StoredPart& part : message.parts) {
    size += kOverhead + part.text.size() + part.tool_name.size() + part.call_id.size() +
            part.arguments_json.size() + part.data.size() + part.url.size() + part.mime_type.size();
  }
  return size;
}

std::size_t SizeOf(const std::vector<BlockMessage>& messages) {
  std::size_t size = 0;
  for (const BlockMessage& message : messages) {
    size += message.row == nullptr ? SizeOf(message.parts) : kOverhead + message.row->body.size();
    size += message.id.size();
  }
  return size;
}

struct RequestSize {
  std::size_t operator()(const WorkerPut& put) const {
    return put.state.size() + SizeOf(put.messages) + put.options_json.size();
  }
  std::size_t operator()(const WorkerGet& get) const {
    return get.state.size() + SizeOf(get.messages) + get.options_json.size();
  }
  std::size_t operator()(const WorkerTruncate& truncate) const {
    std::size_t size = truncate.options_json.size();
    for (const BlockPart& part : truncate.content.parts) {
      size += kOverhead + part.text.size() + part.body.size();
    }
    for (const StoredMessage& message : truncate.content.messages) size += SizeOf(message);
    return size;
  }
  std::size_t operator()(const WorkerComplete& complete) const {
    std::size_t size = complete.model.size();
    for (const StoredMessage& message : complete.request.messages) size += SizeOf(message);
    return size;
  }
  std::size_t operator()(const WorkerEmbed& embed) const {
    std::size_t size = embed.embedder.size();
    for (const std::string& text : embed.texts) size += kOverhead + text.size();
    return size;
  }
};

}  // namespace

std::size_t ByteSize(const WorkerCall& call) {
  return sizeof(WorkerCall) + call.session.size() + call.block.size() + call.job_id.size() +
         std::visit(RequestSize(), call.request);
}

}  // namespace memoryd
