#include "server/http/openapi/openapi_document.h"

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace memoryd {
namespace {

using Json = nlohmann::ordered_json;
namespace protobuf = google::protobuf;
using protobuf::FieldDescriptor;

// What a field of a request holds in examples, by its name. Those of the same name mean the same.
constexpr auto kSamples = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"session_id", R"("chat-7")"},
    {"new_session_id", R"("chat-8")"},
    {"message_id", R"("m1")"},
    {"content_id", R"("c1")"},
    {"job_id", R"("5f0c6a1b2c3d4e5f-7-facts")"},
    {"block", R"("facts")"},
    {"change", R"("3")"},
    {"fact_id", R"("1")"},
    {"subject", R"("user-7")"},
    {"query", R"("Where does she live?")"},
    {"text", R"("She lives in Lisbon.")"},
    {"messages", R"([{"role": "user", "text": "I moved to Lisbon."}])"},
    {"namespace", R"(["users", "7"])"},
    {"new_namespace", R"(["users", "8"])"},
    {"namespace_prefix", R"(["users"])"},
    {"puts", R"([{"sessionId": "chat-7", "messages": [{"role": "user", "text": "Hello!"}]}])"},
    {"put", R"({"key": "home", "json": "{\"city\": \"Lisbon\"}"})"},
    {"get", R"({"key": "home"})"},
    {"delete", R"({"key": "home"})"},
    {"batches", R"([{"namespace": ["users", "7"], "operations": [{"get": {"key": "home"}}]}])"},
});

template <typename Descriptor>
std::string CommentOf(const Descriptor& descriptor) {
  protobuf::SourceLocation location;
  if (!descriptor.GetSourceLocation(&location)) return {};
  std::string text;
  // Each line begins with the blank behind its slashes.
  bool begins_line = true;
  for (const char c : location.leading_comments + location.trailing_comments) {
    if (!(begins_line && c == ' ')) text += c;
    begins_line = c == '\n';
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Up to its first full stop.
std::string FirstSentence(const std::string& text) {
  const std::size_t end = std::min(text.find(".\n"), text.find(". "));
  std::string sentence = text.substr(0, end == std::string::npos ? text.size() : end);
  for (char& c : sentence) {
    if (c == '\n') c = ' ';
  }
  return sentence;
}

template <typename Descriptor>
std::string NameOf(const Descriptor& type) {
  return type.full_name().substr(type.file()->package().size() + 1);
}

Json Reference(const std::string& name) { return {{"$ref", "#/components/schemas/" + name}}; }

bool IsOfGoogle(const protobuf::Descriptor& message) {
  return message.file()->package() == "google.protobuf";
}

// Streams, which no schema describes.
constexpr char kLines[] = "application/x-ndjson";
constexpr char kEnvelopes[] = "application/connect+json";

Json LinesOf(const std::string& name) {
  return {{"schema",
           {{"type", "string"},
            {"contentMediaType", kLines},
            {"description", "Lines, each of them JSON of " + name + "."}}}};
}

Json EnvelopesOf(const std::string& name) {
  return {{"schema",
           {{"type", "string"},
            {"contentMediaType", kEnvelopes},
            {"description",
             "Envelopes: a byte of flags, four of the size, and JSON of " + name + "."}}}};
}

// The bodies of a method, by their content types.
Json Requests(const protobuf::MethodDescriptor& method, const Json& example) {
  const std::string name = NameOf(*method.input_type());
  if (method.client_streaming()) return {{kLines, LinesOf(name)}};
  Json requests = {{"application/json", {{"schema", Reference(name)}, {"example", example}}}};
  if (method.server_streaming()) requests[kEnvelopes] = EnvelopesOf(name);
  return requests;
}

Json Replies(const protobuf::MethodDescriptor& method) {
  const std::string name = NameOf(*method.output_type());
  if (!method.server_streaming()) return {{"application/json", {{"schema", Reference(name)}}}};
  Json lines = LinesOf(name);
  lines["schema"]["description"] =
      lines["schema"]["description"].get<std::string>() +
      " A last line `{\"error\": …}` has an Error. Sent to requests in "
      "application/json that accept it.";
  return {{kLines, lines}, {kEnvelopes, EnvelopesOf(name)}};
}

Json ErrorSchema() {
  return Json::parse(R"({
    "type": "object",
    "description": "An error. Programs tell errors apart by the reason of the ErrorInfo.",
    "required": ["code"],
    "properties": {
      "code": {"type": "string", "examples": ["not_found"]},
      "message": {"type": "string"},
      "details": {"type": "array", "items": {
        "type": "object",
        "required": ["type", "value"],
        "properties": {
          "type": {"type": "string", "examples": ["google.rpc.ErrorInfo"]},
          "value": {"type": "string", "contentEncoding": "base64",
                    "description": "The detail as protobuf's bytes, without padding."},
          "debug": {"type": "object",
                    "description": "The detail in JSON, with `reason` and `metadata`."}}}}}})");
}

}  // namespace

OpenApiDocument::OpenApiDocument() {
  document_ = Json::parse(R"({
    "openapi": "3.1.0",
    "info": {
      "title": "memoryd",
      "version": "v1",
      "description": "Memory for agents, by the Connect protocol: a call is a POST with JSON."},
    "servers": [{"url": "/"}],
    "security": [{}, {"bearer": []}],
    "tags": [],
    "paths": {},
    "components": {
      "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
      "parameters": {"timeout": {
        "name": "Connect-Timeout-Ms", "in": "header", "schema": {"type": "integer", "minimum": 0},
        "description": "Milliseconds until the server gives the call up."}},
      "responses": {"Error": {
        "description": "An error.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}},
      "schemas": {}}})");
  document_["components"]["schemas"]["Error"] = ErrorSchema();
}

void OpenApiDocument::Add(const protobuf::ServiceDescriptor& service) {
  document_["tags"].push_back({{"name", service.name()}, {"description", CommentOf(service)}});
  for (int i = 0; i < service.method_count(); ++i) {
    const protobuf::MethodDescriptor& method = *service.method(i);
    if (!method.client_streaming() || !method.server_streaming()) AddMethod(method);
  }
}

Json OpenApiDocument::Operation(const protobuf::MethodDescriptor& method) const {
  const std::string comment = CommentOf(method);
  Json operation = {{"operationId", method.service()->name() + "." + method.name()},
                    {"tags", {method.service()->name()}},
                    {"summary", FirstSentence(comment)},
                    {"description", comment}};
  operation["parameters"].push_back({{"$ref", "#/components/parameters/timeout"}});
  return operation;
}

void OpenApiDocument::AddMethod(const protobuf::MethodDescriptor& method) {
  AddMessage(*method.input_type());
  AddMessage(*method.output_type());
  const Json example = Example(method);
  Json post = Operation(method);
  post["requestBody"] = {{"required", true}, {"content", Requests(method, example)}};
  const Json reply = {{"description", "The reply."}, {"content", Replies(method)}};
  post["responses"] = {{"200", reply}, {"default", {{"$ref", "#/components/responses/Error"}}}};
  Json path = {{"post", post}};
  AddGet(method, example, path);
  document_["paths"]["/" + method.service()->full_name() + "/" + method.name()] = path;
}

void OpenApiDocument::AddGet(const protobuf::MethodDescriptor& method, const Json& example,
                             Json& path) {
  if (method.server_streaming() ||
      method.options().idempotency_level() != protobuf::MethodOptions::NO_SIDE_EFFECTS) {
    return;
  }
  Json get = path["post"];
  get["operationId"] = get["operationId"].get<std::string>() + ".get";
  get.erase("requestBody");
  get["parameters"].push_back({{"name", "encoding"},
                               {"in", "query"},
                               {"required", true},
                               {"schema", {{"type", "string"}, {"enum", {"json"}}}}});
  get["parameters"].push_back(
      {{"name", "message"},
       {"in", "query"},
       {"required", true},
       {"description", "The request in JSON."},
       {"content",
        {{"application/json",
          {{"schema", Reference(NameOf(*method.input_type()))}, {"example", example}}}}}});
  path["get"] = get;
}

Json OpenApiDocument::Example(const protobuf::MethodDescriptor& method) {
  Json example = Json::object();
  for (const auto& [name, sample] : kSamples) {
    const FieldDescriptor* const field = method.input_type()->FindFieldByName(std::string(name));
    if (field != nullptr) example[field->json_name()] = Json::parse(sample);
  }
  protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<protobuf::Message> message(
      factory.GetPrototype(method.input_type())->New());
  const auto status = protobuf::util::JsonStringToMessage(example.dump(), message.get());
  if (!status.ok()) {
    wrong_examples_ += method.full_name() + ": the example " + example.dump() + ": " +
                       std::string(status.message().data(), status.message().size()) + "\n";
  }
  return example;
}

void OpenApiDocument::AddMessage(const protobuf::Descriptor& message) {
  const std::string name = NameOf(message);
  if (IsOfGoogle(message) || document_["components"]["schemas"].contains(name)) return;
  // Before its fields, which may hold it again.
  document_["components"]["schemas"][name] = Json::object();
  Json properties = Json::object();
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    properties[field.json_name()] = Field(field);
  }
  document_["components"]["schemas"][name] = {{"type", "object"},
                                              {"description", CommentOf(message)},
                                              {"properties", properties},
                                              {"additionalProperties", false}};
}

void OpenApiDocument::AddEnum(const protobuf::EnumDescriptor& type) {
  const std::string name = NameOf(type);
  std::string description = CommentOf(type);
  Json values = Json::array();
  for (int i = 0; i < type.value_count(); ++i) {
    values.push_back(type.value(i)->name());
    description += "\n- `" + type.value(i)->name() + "`: " + CommentOf(*type.value(i));
  }
  document_["components"]["schemas"][name] = {
      {"type", "string"}, {"description", description}, {"enum", values}};
}

Json OpenApiDocument::Field(const FieldDescriptor& field) {
  Json schema;
  if (field.is_map()) {
    schema = {{"type", "object"},
              {"additionalProperties", Value(*field.message_type()->FindFieldByNumber(2))}};
  } else if (field.is_repeated()) {
    schema = {{"type", "array"}, {"items", Value(field)}};
  } else {
    schema = Value(field);
  }
  std::string description = CommentOf(field);
  if (const auto* const choice = field.real_containing_oneof(); choice != nullptr) {
    description += description.empty() ? "" : "\n";
    description += "At most one of these is set:";
    for (int i = 0; i < choice->field_count(); ++i) {
      description += (i == 0 ? " `" : ", `") + choice->field(i)->json_name() + "`";
    }
    description += '.';
  }
  if (!description.empty()) schema["description"] = description;
  return schema;
}

Json OpenApiDocument::Value(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return {{"type", "boolean"}};
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_UINT32:
      return {{"type", "integer"}};
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
      // More digits than JavaScript's numbers have.
      return {{"type", {"string", "integer"}}, {"format", "int64"}};
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return {{"type", "number"}};
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.type() != FieldDescriptor::TYPE_BYTES) return {{"type", "string"}};
      return {{"type", "string"}, {"contentEncoding", "base64"}};
    case FieldDescriptor::CPPTYPE_ENUM:
      AddEnum(*field.enum_type());
      return Reference(NameOf(*field.enum_type()));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  const protobuf::Descriptor& message = *field.message_type();
  if (!IsOfGoogle(message)) {
    AddMessage(message);
    return Reference(NameOf(message));
  }
  if (message.name() == "Timestamp") return {{"type", "string"}, {"format", "date-time"}};
  if (message.name() == "Duration") {
    return {{"type", "string"}, {"pattern", "^-?[0-9]+(\\.[0-9]{1,9})?s$"}};
  }
  return Json::object();
}

std::string OpenApiDocument::Text() const { return document_.dump(); }

}  // namespace memoryd
