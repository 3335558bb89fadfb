// Models that answer as tests want, and say what they were asked.
#ifndef MEMORYD_TESTS_SUPPORT_FAKE_MODELS_H_
#define MEMORYD_TESTS_SUPPORT_FAKE_MODELS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/llm/model.h"

namespace memoryd {

// Answers with what `replies` holds, in order; an empty queue is UNAVAILABLE. Every answer counts
// one call, 10 prompt and 2 completion tokens. Single-threaded.
class ScriptedChatModel final : public ChatModel {
 public:
  struct Call {
    ModelCaller caller;
    ChatRequest request;
  };

  void Complete(const ModelCaller& caller, ChatRequest request, ModelDeadline /*deadline*/,
                Done done) override {
    calls.push_back({caller, std::move(request)});
    if (replies.empty()) {
      done(absl::UnavailableError("the script is at its end"));
      return;
    }
    absl::StatusOr<std::string> reply = std::move(replies.front());
    replies.pop_front();
    std::string finish_reason;
    if (!finish_reasons.empty()) {
      finish_reason = std::move(finish_reasons.front());
      finish_reasons.pop_front();
    }
    if (!reply.ok()) {
      done(reply.status());
      return;
    }
    if (echoes) *reply = Prompt(calls.size() - 1) + "\n\n" + *reply;
    done(ChatReply{*std::move(reply), Usage{1, 10, 2}, std::move(finish_reason)});
  }

  // The text of the last message of a call.
  const std::string& Prompt(std::size_t call) const {
    return calls.at(call).request.messages.back().parts.at(0).text;
  }

  std::deque<absl::StatusOr<std::string>> replies;
  std::deque<std::string> finish_reasons;  // Of `replies`; empty: "" for each.
  bool echoes = false;                     // Whether each reply begins with the prompt.
  std::vector<Call> calls;
};

// Counts words: v[0] = 1, and each run of [a-z0-9] in the text, ASCII letters in lower case, adds 1
// to v[1 + FNV-1a(run) % 15]. Whole numbers, so that similarities are exact.
inline std::vector<float> HashEmbedding(std::string_view text) {
  std::vector<float> vector(16, 0.0F);
  vector[0] = 1;
  constexpr std::uint64_t kOffset = 0xCBF29CE484222325ULL;
  std::uint64_t hash = kOffset;
  bool in_word = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    char c = i < text.size() ? text[i] : ' ';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
      in_word = true;
      continue;
    }
    if (in_word) vector[1 + hash % 15] += 1;
    hash = kOffset;
    in_word = false;
  }
  return vector;
}

class HashEmbedder final : public Embedder {
 public:
  struct Call {
    EmbedPurpose purpose;
    std::vector<std::string> texts;
  };

  void Embed(const ModelCaller& /*caller*/, EmbedPurpose purpose, std::vector<std::string> texts,
             ModelDeadline /*deadline*/, Done done) override {
    EmbedReply reply;
    for (const std::string& text : texts) {
      const auto said = meanings.find(text);
      std::vector<float>& vector =
          reply.vectors.emplace_back(HashEmbedding(said == meanings.end() ? text : said->second));
      if (model == kReversed) std::reverse(vector.begin(), vector.end());
    }
    reply.usage = Usage{1, 5, 0};
    reply.model = model;
    calls.push_back({purpose, std::move(texts)});
    if (!error.ok()) {
      done(error);
    } else {
      done(std::move(reply));
    }
  }

  // The model whose vectors are as like each other as those of the others, but not like theirs.
  static constexpr std::string_view kReversed = "reversed";

  std::string model;
  absl::Status error;
  std::map<std::string, std::string> meanings;  // Texts that have the vectors of others.
  std::vector<Call> calls;
};

// Knows the chat model `chat` and the embedders `hash` and `other`, of the server and of any
// worker.
class FakeModels final : public ModelDirectory {
 public:
  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view /*tenant*/,
                                                           std::string_view /*worker*/,
                                                           std::string_view model) override {
    if (model != "chat") return absl::NotFoundError("there is no such model");
    return chat;
  }
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view /*tenant*/,
                                                         std::string_view /*worker*/,
                                                         std::string_view name) override {
    if (name == "other") return other;
    if (name != "hash") return absl::NotFoundError("there is no such embedder");
    return embedder;
  }

  std::shared_ptr<ScriptedChatModel> chat = std::make_shared<ScriptedChatModel>();
  std::shared_ptr<HashEmbedder> embedder = std::make_shared<HashEmbedder>();
  std::shared_ptr<HashEmbedder> other = std::make_shared<HashEmbedder>();
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_FAKE_MODELS_H_
