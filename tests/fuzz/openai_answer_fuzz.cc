// Any bytes as the answer of a model behind HTTP, beside nlohmann's parser.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/json_check.h"
#include "core/llm/openai_protocol.h"
#include "core/model/job.h"
#include "tests/fuzz/require.h"

namespace memoryd {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kTexts = 2;

void CheckUsage(const Usage& usage) {
  Require(usage.calls == 0);
  Require(usage.prompt_tokens >= 0 && usage.prompt_tokens <= 1'000'000'000'000);
  Require(usage.completion_tokens >= 0 && usage.completion_tokens <= 1'000'000'000'000);
}

// The text parts of content, joined.
std::string TextOf(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content) {
    if (part.is_object() && part.contains("text") && part["text"].is_string()) {
      text += part["text"].get<std::string>();
    }
  }
  return text;
}

void RunChat(std::string_view answer, bool has_keys_once) {
  const auto reply = ParseChatAnswer(answer);
  if (!reply.ok()) {
    Require(absl::IsDataLoss(reply.status()));
    return;
  }
  CheckUsage(reply->usage);
  Require(reply->text.size() <= answer.size());
  const Json json = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  Require(json.is_object());
  if (!has_keys_once) return;
  const Json& message = json.at("choices").at(0).at("message");
  Require(reply->text == (message.contains("content") ? TextOf(message["content"]) : ""));
}

void RunEmbedding(std::string_view answer, std::size_t dimensions) {
  const auto reply = ParseEmbeddingAnswer(answer, kTexts, dimensions);
  if (!reply.ok()) {
    Require(absl::IsDataLoss(reply.status()));
    return;
  }
  CheckUsage(reply->usage);
  Require(reply->vectors.size() == kTexts);
  for (const std::vector<float>& vector : reply->vectors) {
    Require(!vector.empty() && vector.size() == reply->vectors[0].size());
    Require(dimensions == 0 || vector.size() == dimensions);
    for (const float number : vector) Require(std::isfinite(number));
  }
}

}  // namespace
}  // namespace memoryd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view answer(reinterpret_cast<const char*>(data), size);
  memoryd::RunChat(answer, memoryd::CheckJsonObject(answer).ok());
  memoryd::RunEmbedding(answer, 0);
  memoryd::RunEmbedding(answer, 3);
  return 0;
}
