// The driver of the C++ client in tests/client_conformance, whose run.py says what it reads and
// writes.

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cstddef>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "memoryd/client.h"
#include "memoryd/error_info.h"
#include "memoryd/options.h"

namespace {

namespace v1 = memoryd::v1;
using google::protobuf::ListValue;
using google::protobuf::Message;
using google::protobuf::Struct;
using google::protobuf::Value;
using memoryd::client::CallOptions;
using memoryd::client::Client;

// A result or an error, in JSON.
using Answer = absl::StatusOr<std::string>;

std::string JsonOf(const Message& message) {
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(message, &json).ok()) {
    throw std::runtime_error("a message that JSON can't hold");
  }
  return json;
}

void Parse(const std::string& json, Message& message) {
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  if (!status.ok()) throw std::runtime_error(std::string(status.message()) + ": " + json);
}

std::string Quoted(const std::string& text) {
  Value value;
  value.set_string_value(text);
  return JsonOf(value);
}

const Value* Find(const Struct& object, const std::string& key) {
  const auto found = object.fields().find(key);
  return found == object.fields().end() ? nullptr : &found->second;
}

std::string Listed(const std::vector<std::string>& items) {
  std::string list = "[";
  for (const std::string& item : items) list += (list.size() > 1 ? "," : "") + item;
  return list + "]";
}

std::string NameOf(absl::StatusCode code) {
  return code == absl::StatusCode::kCancelled ? "CANCELLED" : absl::StatusCodeToString(code);
}

std::string ErrorOf(const absl::Status& status) {
  const memoryd::client::ErrorInfo info = memoryd::client::GetErrorInfo(status);
  Struct details;
  for (const auto& [key, value] : info.details) {
    (*details.mutable_fields())[key].set_string_value(value);
  }
  return R"({"error":{"code":)" + Quoted(NameOf(status.code())) + R"(,"reason":)" +
         Quoted(info.reason) + R"(,"field":)" + Quoted(info.field) + R"(,"message":)" +
         Quoted(std::string(status.message())) + R"(,"details":)" + JsonOf(details) +
         R"(,"may_have_been_done":)" +
         (memoryd::client::MayHaveBeenDone(status) ? "true" : "false") + "}}";
}

template <typename Response>
Answer Told(const absl::StatusOr<Response>& response) {
  if (!response.ok()) return response.status();
  return JsonOf(*response);
}

// What a call is made with.
struct Call {
  const Client& client;
  std::string request;
  CallOptions options;
  // How many items of a stream are read; 0: all.
  std::size_t take = 0;
  std::vector<std::string> requests;
};

using Method = std::function<Answer(const Call&)>;

template <typename Request, typename Response, typename Given>
Method Made(absl::StatusOr<Response> (Client::*method)(Given, const CallOptions&) const) {
  return [method](const Call& call) {
    Request request;
    Parse(call.request, request);
    return Told((call.client.*method)(std::move(request), call.options));
  };
}

Answer AllMessages(const Call& call) {
  v1::GetAllRequest request;
  Parse(call.request, request);
  std::vector<std::string> messages;
  do {
    const auto page = call.client.GetAll(request, call.options);
    if (!page.ok()) return page.status();
    for (const v1::Message& message : page->messages()) messages.push_back(JsonOf(message));
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return Listed(messages);
}

Answer StreamAll(const Call& call) {
  v1::StreamAllRequest request;
  Parse(call.request, request);
  std::vector<std::string> messages;
  const auto is_wanted = [&] { return call.take == 0 || messages.size() < call.take; };
  const absl::Status status = call.client.StreamAll(
      request,
      [&](const v1::StreamAllResponse& page) {
        for (const v1::Message& message : page.messages()) {
          if (is_wanted()) messages.push_back(JsonOf(message));
        }
        return is_wanted();
      },
      call.options);
  if (!status.ok()) return status;
  return Listed(messages);
}

Answer WatchSession(const Call& call) {
  v1::WatchSessionRequest request;
  Parse(call.request, request);
  std::vector<std::string> news;
  const absl::Status status = call.client.WatchSession(
      request,
      [&](const v1::WatchSessionResponse& reply) {
        news.push_back(JsonOf(reply));
        return news.size() != call.take;
      },
      call.options);
  if (!status.ok()) return status;
  return Listed(news);
}

Answer ImportSession(const Call& call) {
  std::size_t sent = 0;
  return Told(call.client.ImportSession(
      [&](v1::ImportSessionRequest& request) {
        if (sent == call.requests.size()) return false;
        Parse(call.requests[sent++], request);
        return true;
      },
      call.options));
}

Answer GetSession(const Call& call) {
  v1::GetSessionRequest request;
  Parse(call.request, request);
  return Told(call.client.GetSession(request.session_id(), call.options));
}

Answer PutItem(const Call& call) {
  v1::PutItemRequest request;
  Parse(call.request, request);
  const auto reply = call.client.PutItem(request, call.options);
  if (!reply.ok()) return reply.status();
  return JsonOf(reply->write());
}

Answer GetItem(const Call& call) {
  v1::GetItemRequest request;
  Parse(call.request, request);
  const auto reply = call.client.GetItem(request, call.options);
  if (!reply.ok()) return reply.status();
  return reply->has_item() ? JsonOf(reply->item()) : "null";
}

Answer DeleteItem(const Call& call) {
  v1::DeleteItemRequest request;
  Parse(call.request, request);
  const auto reply = call.client.DeleteItem(request, call.options);
  if (!reply.ok()) return reply.status();
  return reply->existed() ? "true" : "false";
}

absl::StatusOr<v1::PutResponse> Put(const Client& client, v1::PutRequest request,
                                    const CallOptions& options) {
  return client.Put(std::move(request), options);
}

const std::map<std::string, Method>& Methods() {
  static const auto* const methods = new std::map<std::string, Method>{
      {"Put",
       [](const Call& call) {
         v1::PutRequest request;
         Parse(call.request, request);
         return Told(Put(call.client, std::move(request), call.options));
       }},
      {"Get",
       [](const Call& call) {
         v1::GetRequest request;
         Parse(call.request, request);
         return Told(call.client.Get(request, call.options));
       }},
      {"AllMessages", AllMessages},
      {"StreamAll", StreamAll},
      {"WatchSession", WatchSession},
      {"ImportSession", ImportSession},
      {"GetSession", GetSession},
      {"PutItem", PutItem},
      {"GetItem", GetItem},
      {"DeleteItem", DeleteItem},
      {"Set", Made<v1::SetRequest>(&Client::Set)},
      {"Reset", Made<v1::ResetRequest>(&Client::Reset)},
      {"UpdateMessage", Made<v1::UpdateMessageRequest>(&Client::UpdateMessage)},
      {"DeleteMessage", Made<v1::DeleteMessageRequest>(&Client::DeleteMessage)},
      {"UpdateContent", Made<v1::UpdateContentRequest>(&Client::UpdateContent)},
      {"DeleteContent", Made<v1::DeleteContentRequest>(&Client::DeleteContent)},
      {"Query", Made<v1::QueryRequest>(&Client::Query)},
      {"CreateSession", Made<v1::CreateSessionRequest>(&Client::CreateSession)},
      {"UpdateSession", Made<v1::UpdateSessionRequest>(&Client::UpdateSession)},
      {"DeleteSession", Made<v1::DeleteSessionRequest>(&Client::DeleteSession)},
      {"ForkSession", Made<v1::ForkSessionRequest>(&Client::ForkSession)},
      {"AddFact", Made<v1::AddFactRequest>(&Client::AddFact)},
      {"UpdateFact", Made<v1::UpdateFactRequest>(&Client::UpdateFact)},
      {"DeleteFact", Made<v1::DeleteFactRequest>(&Client::DeleteFact)},
      {"UndoBlockChange", Made<v1::UndoBlockChangeRequest>(&Client::UndoBlockChange)},
      {"PutBatch", Made<v1::PutBatchRequest>(&Client::PutBatch)},
      {"BatchItems", Made<v1::BatchItemsRequest>(&Client::BatchItems)},
      {"CopyNamespace", Made<v1::CopyNamespaceRequest>(&Client::CopyNamespace)},
      {"RetryJob", Made<v1::RetryJobRequest>(&Client::RetryJob)},
      {"CancelJob", Made<v1::CancelJobRequest>(&Client::CancelJob)},
  };
  return *methods;
}

std::unique_ptr<Client> Open(const Struct& given) {
  memoryd::client::Options options;
  options.target = Find(given, "target")->string_value();
  options.timeout = absl::Seconds(Find(given, "timeout")->number_value());
  options.wait_for_ready = Find(given, "wait_for_ready")->bool_value();
  if (const Value* tokens = Find(given, "tokens"); tokens != nullptr) {
    // Calls are made one after the other.
    options.token = [list = tokens->list_value(), next = 0]() mutable {
      const int at = next < list.values_size() ? next++ : list.values_size() - 1;
      return list.values(at).string_value();
    };
  }
  return std::make_unique<Client>(options);
}

std::string Do(const Client& client, const Struct& command) {
  const auto method = Methods().find(Find(command, "call")->string_value());
  if (method == Methods().end() || Find(command, "cancel_after") != nullptr) {
    return R"({"unsupported":true})";
  }
  Call call{.client = client, .request = "{}", .options = {}, .take = 0, .requests = {}};
  if (const Value* request = Find(command, "request")) call.request = JsonOf(*request);
  if (const Value* timeout = Find(command, "timeout")) {
    call.options.timeout = absl::Seconds(timeout->number_value());
  }
  if (const Value* take = Find(command, "take")) {
    call.take = static_cast<std::size_t>(take->number_value());
  }
  if (const Value* requests = Find(command, "requests")) {
    for (const Value& one : requests->list_value().values()) call.requests.push_back(JsonOf(one));
  }
  const Answer answer = method->second(call);
  return answer.ok() ? R"({"ok":)" + *answer + "}" : ErrorOf(answer.status());
}

}  // namespace

int main() {
  std::unique_ptr<Client> client;
  for (std::string line; std::getline(std::cin, line);) {
    Struct command;
    Parse(line, command);
    std::string answer = "{}";
    if (const Value* opened = Find(command, "open")) {
      client = Open(opened->struct_value());
    } else if (Find(command, "close") != nullptr) {
      client.reset();
    } else {
      answer = Do(*client, command);
    }
    std::cout << answer << std::endl;
  }
  return 0;
}
