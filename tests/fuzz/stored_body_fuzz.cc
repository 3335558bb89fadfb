// Any bytes as a stored message, content or part: what is read would be written as it was.
#include <google/protobuf/util/message_differencer.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/blocks/block.h"
#include "core/model/body_reader.h"
#include "memoryd/v1/memory.pb.h"
#include "server/rpc/parse_request.h"
#include "server/wire/stored_body.h"
#include "tests/fuzz/require.h"

namespace memoryd {
namespace {

using google::protobuf::util::MessageDifferencer;

void RunMessage(std::string_view body) {
  const StoredBodyReader reader;
  const auto text = reader.ReadMessage(body);
  const auto parts = reader.ReadParts(body);
  Require(text.ok() == parts.ok());
  if (!text.ok()) {
    Require(absl::IsDataLoss(text.status()));
    return;
  }
  v1::Message stored;
  Require(stored.ParseFromArray(body.data(), static_cast<int>(body.size())));
  Require(text->text == WordsOf(stored) && text->text.size() <= body.size());

  v1::Message written;
  FillMessage(*parts, written);
  const StoredMessage again = ToStoredMessage(written);
  Require(again.role == parts->role && again.name == parts->name);
  Require(again.metadata_json == parts->metadata_json);
  Require(again.parts.size() == parts->parts.size());
  for (std::size_t i = 0; i < again.parts.size(); ++i) {
    Require(again.parts[i].kind == parts->parts[i].kind);
    Require(again.parts[i].text == parts->parts[i].text);
    // Nothing at all is no part, and is not stored.
    if (!parts->parts[i].body.empty()) Require(again.parts[i].body == parts->parts[i].body);
  }
}

void RunPart(std::string_view body) {
  const auto part = StoredBodyReader().ReadPart(body);
  if (!part.ok()) {
    Require(absl::IsDataLoss(part.status()));
    return;
  }
  v1::Part stored;
  Require(stored.ParseFromArray(body.data(), static_cast<int>(body.size())));
  // What a block says of it keeps all that it had; of a text that is the text.
  if (stored.has_text()) stored.DiscardUnknownFields();
  v1::Part said;
  FillPart(ToBlockPart(*part, part->body), said);
  if (stored.kind_case() != v1::Part::KIND_NOT_SET) {
    Require(MessageDifferencer::Equals(said, stored));
  }
}

void RunContent(std::string_view body) {
  const auto content = StoredBodyReader().ReadContent(body);
  Require(content.ok() ? content->value.size() <= body.size() : absl::IsDataLoss(content.status()));
}

}  // namespace
}  // namespace memoryd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool captured = [] {
    memoryd::CaptureProtobufLog();
    return true;
  }();
  (void)captured;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  memoryd::RunMessage(body);
  memoryd::RunPart(body);
  memoryd::RunContent(body);
  return 0;
}
