#include <algorithm>
#include <cctype>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "core/llm/model.h"
#include "core/llm/model_settings.h"
#include "core/llm/openai_protocol.h"
#include "core/model/body_reader.h"

namespace memoryd {
namespace {

// Keeps the order of keys: caches of prompts on the other side compare from the first byte.
using Json = nlohmann::ordered_json;
using Kind = StoredPart::Kind;

constexpr std::string_view kImageType = "image/png";
constexpr std::size_t kMaxName = 64;

// Never throws: a byte that is not UTF-8 is replaced.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Named(std::string_view what, std::string_view first, std::string_view second = {}) {
  std::string text = "[";
  text += what;
  for (const std::string_view word : {first, second}) {
    if (word.empty()) continue;
    text += ' ';
    text += word;
  }
  return text + "]";
}

std::string NamedMedia(std::string_view what, const StoredPart& part) {
  return Named(what, part.mime_type, part.url.starts_with("data:") ? "" : part.url);
}

std::string NamedCall(const StoredPart& call) {
  return Named("tool call", call.tool_name, call.arguments_json);
}

std::string NamedResult(const StoredPart& result) {
  return Named("tool result", result.tool_name) + " " + result.text;
}

// Of a message or a part beside its texts.
constexpr std::size_t kMessageBytes = 64;

// Of a text within JSON.
std::size_t EscapedBytes(std::string_view text) {
  std::size_t bytes = text.size();
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      bytes += 5;
    } else if (c == '"' || c == '\\') {
      ++bytes;
    }
  }
  return bytes;
}

// Empty where the API has no form for it.
std::string ImageUrl(const StoredPart& image) {
  if (!image.data.empty()) {
    std::string url = "data:";
    url += image.mime_type.empty() ? kImageType : std::string_view(image.mime_type);
    url += ";base64,";
    return url + absl::Base64Escape(image.data);
  }
  for (const std::string_view scheme : {"http://", "https://", "data:image/"}) {
    if (image.url.starts_with(scheme)) return image.url;
  }
  return {};
}

// Of the characters that the API takes in a name.
bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-');
         });
}

// The ids of the calls that an assistant makes and a later message answers. The API refuses a call
// without an answer, and an answer without a call.
std::set<std::string> AnsweredCalls(const std::vector<StoredMessage>& messages) {
  std::set<std::string> made;
  std::set<std::string> answered;
  for (const StoredMessage& message : messages) {
    for (const StoredPart& part : message.parts) {
      if (part.call_id.empty() || IsIdAlone(message, part)) continue;
      if (part.kind == Kind::kToolResult && made.contains(part.call_id)) {
        answered.insert(part.call_id);
      } else if (part.kind == Kind::kToolCall && message.role == "assistant") {
        made.insert(part.call_id);
      }
    }
  }
  return answered;
}

// The text and the images of one message.
class Content {
 public:
  void AddText(std::string_view text) {
    if (has_text_) text_ += '\n';
    has_text_ = true;
    text_ += text;
  }

  // Text that came before an image stays before it.
  void AddImage(std::string url) {
    CloseText();
    parts_.push_back({{"type", "image_url"}, {"image_url", {{"url", std::move(url)}}}});
  }

  bool empty() const { return !has_text_ && parts_.empty(); }

  Json Take() {
    if (parts_.empty()) return std::move(text_);
    CloseText();
    return std::move(parts_);
  }

 private:
  void CloseText() {
    if (has_text_) parts_.push_back({{"type", "text"}, {"text", std::move(text_)}});
    text_.clear();
    has_text_ = false;
  }

  bool has_text_ = false;
  std::string text_;
  Json parts_ = Json::array();
};

class Conversation {
 public:
  Conversation(bool takes_images, const std::vector<StoredMessage>& messages)
      : takes_images_(takes_images), answered_(AnsweredCalls(messages)) {}

  void Add(const StoredMessage& message) {
    const bool is_assistant = message.role == "assistant";
    const bool is_known = is_assistant || message.role == "user" || message.role == "system" ||
                          message.role == "developer";
    const std::string role = is_known ? message.role : "user";
    Json results = Json::array();
    Json calls = Json::array();
    Content content;
    if (!is_known && !HasOnlyResults(message)) content.AddText(message.role + ":");
    for (const StoredPart& part : message.parts) {
      if (IsIdAlone(message, part)) continue;
      if (part.kind == Kind::kToolCall && is_assistant && Opens(part.call_id)) {
        calls.push_back(
            {{"id", part.call_id},
             {"type", "function"},
             {"function", {{"name", part.tool_name}, {"arguments", part.arguments_json}}}});
      } else if (part.kind == Kind::kToolResult && open_.erase(part.call_id) > 0) {
        results.push_back(
            {{"role", "tool"}, {"tool_call_id", part.call_id}, {"content", part.text}});
      } else {
        AddPart(part, role == "user" && takes_images_, content);
      }
    }
    // Answers stand next to their calls.
    const bool has_results = !results.empty();
    for (Json& result : results) messages_.push_back(std::move(result));
    if (has_results && content.empty() && calls.empty()) return;
    Json& sent = messages_.emplace_back(Json{{"role", role}});
    if (is_known && IsName(message.name)) sent["name"] = message.name;
    if (content.empty() && !calls.empty()) {
      sent["content"] = nullptr;
    } else {
      sent["content"] = content.Take();
    }
    if (!calls.empty()) sent["tool_calls"] = std::move(calls);
  }

  Json Take() { return std::move(messages_); }

 private:
  // Whether every part is the answer to an open call, so that nothing is left to be said by a role.
  bool HasOnlyResults(const StoredMessage& message) const {
    return !message.parts.empty() &&
           std::all_of(message.parts.begin(), message.parts.end(), [this](const StoredPart& part) {
             return part.kind == Kind::kToolResult && open_.contains(part.call_id);
           });
  }

  // Whether a call by this id can be said, which then waits for its answer.
  bool Opens(const std::string& call_id) {
    return answered_.contains(call_id) && made_.insert(call_id).second &&
           open_.insert(call_id).second;
  }

  static void AddPart(const StoredPart& part, bool takes_images, Content& content) {
    switch (part.kind) {
      case Kind::kText:
      case Kind::kCitation:
      case Kind::kJson:
        content.AddText(part.text);
        break;
      case Kind::kImage:
        if (std::string url = takes_images ? ImageUrl(part) : ""; !url.empty()) {
          content.AddImage(std::move(url));
        } else {
          content.AddText(NamedMedia("image", part));
        }
        break;
      case Kind::kAudio:
        content.AddText(NamedMedia("audio", part));
        break;
      case Kind::kVideo:
        content.AddText(NamedMedia("video", part));
        break;
      case Kind::kDocument:
        content.AddText(NamedMedia("document", part));
        break;
      case Kind::kToolCall:
        content.AddText(NamedCall(part));
        break;
      case Kind::kToolResult:
        content.AddText(NamedResult(part));
        break;
      case Kind::kThinking:
      case Kind::kOpaque:
        break;
    }
  }

  const bool takes_images_;
  const std::set<std::string> answered_;
  std::set<std::string> made_;
  std::set<std::string> open_;  // Made, and not answered yet.
  Json messages_ = Json::array();
};

}  // namespace

std::size_t ChatBodyBytes(const ChatRequest& request) {
  std::size_t bytes = 0;
  for (const StoredMessage& message : request.messages) {
    bytes += kMessageBytes + message.role.size() + message.name.size();
    for (const StoredPart& part : message.parts) {
      bytes += kMessageBytes + EscapedBytes(part.text) + EscapedBytes(part.arguments_json) +
               EscapedBytes(part.url) + part.data.size() / 3 * 4 + part.tool_name.size() +
               2 * part.call_id.size();
    }
  }
  return bytes;
}

std::string ChatBody(const ModelSettings& settings, const ChatRequest& request) {
  Conversation conversation(settings.takes_images, request.messages);
  for (const StoredMessage& message : request.messages) conversation.Add(message);
  Json body = {{"model", settings.model}};
  body["messages"] = conversation.Take();
  if (request.max_tokens > 0) body[settings.max_tokens_key] = request.max_tokens;
  if (settings.temperature.has_value()) body["temperature"] = *settings.temperature;
  return Dump(body);
}

std::string EmbeddingBody(const ModelSettings& settings, EmbedPurpose purpose,
                          std::span<const std::string> texts) {
  const std::string& prefix =
      purpose == EmbedPurpose::kQuery ? settings.query_prefix : settings.text_prefix;
  Json input = Json::array();
  for (const std::string& text : texts) {
    std::string sent = prefix + text;
    input.push_back(sent.empty() ? " " : std::move(sent));
  }
  Json body = {{"model", settings.model}};
  body["input"] = std::move(input);
  body["encoding_format"] = "float";
  return Dump(body);
}

}  // namespace memoryd
