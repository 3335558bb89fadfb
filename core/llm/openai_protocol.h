// The bodies of OpenAI's API for chat and embeddings, as many servers speak it.
#ifndef MEMORYD_CORE_LLM_OPENAI_PROTOCOL_H_
#define MEMORYD_CORE_LLM_OPENAI_PROTOCOL_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/llm/model.h"
#include "core/llm/model_settings.h"

namespace memoryd {

// What is sent to /chat/completions. Every message can be said: what the API has no form for is
// named in text, such as a role of its own, a document, or a tool's answer to a call that is not
// among the messages.
std::string ChatBody(const ModelSettings& settings, const ChatRequest& request);

// About how long ChatBody() is, without making it.
std::size_t ChatBodyBytes(const ChatRequest& request);

// What is sent to /embeddings. `texts` must not be empty; an empty text is sent as a space, since
// some servers refuse it.
std::string EmbeddingBody(const ModelSettings& settings, EmbedPurpose purpose,
                          std::span<const std::string> texts);

// What came back, without Usage::calls. DATA_LOSS for what is not an answer; unknown keys and a
// missing usage don't matter. Memory grows with what is kept, not with what was sent.
absl::StatusOr<ChatReply> ParseChatAnswer(std::string_view answer);

// As ParseChatAnswer, also for anything but one embedding for each of `count` texts, all of one
// size
// (`dimensions`, unless that is 0) and of finite numbers.
absl::StatusOr<EmbedReply> ParseEmbeddingAnswer(std::string_view answer, std::size_t count,
                                                std::size_t dimensions);

}  // namespace memoryd

#endif  // MEMORYD_CORE_LLM_OPENAI_PROTOCOL_H_
