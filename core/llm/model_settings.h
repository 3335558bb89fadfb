// A model that the server reaches over HTTP, as the operator describes it.
#ifndef MEMORYD_CORE_LLM_MODEL_SETTINGS_H_
#define MEMORYD_CORE_LLM_MODEL_SETTINGS_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "core/llm/address_rules.h"

namespace memoryd {

enum class ModelKind { kChat, kEmbedding };

// docs/SETTINGS.md has the table.
struct ModelSettings {
  std::string name;  // What blocks call it.
  ModelKind kind = ModelKind::kChat;
  std::string url;    // Of the API, such as https://api.example.org/v1, without a slash at its end.
  std::string model;  // What the API calls it.
  std::string key_file;  // Empty: no key is sent.
  std::string ca_file;
  std::string proxy;
  std::map<std::string, std::string> headers;
  AddressRules addresses;
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds timeout{60'000};  // Of one attempt.
  std::size_t max_answer_bytes = 0;           // 0: DefaultMaxAnswerBytes().
  int max_calls = 8;                          // At a time.
  int max_waiting = 256;                      // Beyond those.
  int retries = 2;

  // Of a chat model.
  std::optional<double> temperature;
  std::string max_tokens_key = "max_tokens";  // Or `max_completion_tokens`.
  bool takes_images = true;

  // Of an embedder.
  int dimensions = 0;  // Numbers of an embedding; 0: any.
  int batch_size = 64;
  std::string text_prefix;   // Put before each text,
  std::string query_prefix;  // and before each query.
};

inline std::size_t DefaultMaxAnswerBytes(ModelKind kind) {
  return (kind == ModelKind::kChat ? std::size_t{8} : std::size_t{64}) << 20;
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_LLM_MODEL_SETTINGS_H_
