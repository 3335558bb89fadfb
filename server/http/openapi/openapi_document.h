// OpenAPI 3.1 of services in protobuf, as the HTTP port serves them.
#ifndef MEMORYD_SERVER_HTTP_OPENAPI_OPENAPI_DOCUMENT_H_
#define MEMORYD_SERVER_HTTP_OPENAPI_OPENAPI_DOCUMENT_H_

#include <google/protobuf/descriptor.h>

#include <nlohmann/json.hpp>
#include <string>

namespace memoryd {

class OpenApiDocument {
 public:
  OpenApiDocument();

  // Its methods, without those that stream in both directions. Comments become descriptions.
  void Add(const google::protobuf::ServiceDescriptor& service);

  // A line for each example that is no request of its method.
  const std::string& wrong_examples() const { return wrong_examples_; }
  std::string Text() const;

 private:
  using Json = nlohmann::ordered_json;

  void AddMethod(const google::protobuf::MethodDescriptor& method);
  Json Operation(const google::protobuf::MethodDescriptor& method) const;
  Json Example(const google::protobuf::MethodDescriptor& method);
  void AddGet(const google::protobuf::MethodDescriptor& method, const Json& example, Json& path);
  // Adds its schema and those of its fields.
  void AddMessage(const google::protobuf::Descriptor& message);
  void AddEnum(const google::protobuf::EnumDescriptor& type);
  Json Field(const google::protobuf::FieldDescriptor& field);
  Json Value(const google::protobuf::FieldDescriptor& field);

  Json document_;
  std::string wrong_examples_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_OPENAPI_OPENAPI_DOCUMENT_H_
