// A chat model whose answers a test holds back.
#ifndef MEMORYD_TESTS_SUPPORT_HELD_MODELS_H_
#define MEMORYD_TESTS_SUPPORT_HELD_MODELS_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/mutex.h"
#include "core/llm/model.h"
#include "tests/support/fake_models.h"

namespace memoryd {

// Takes calls and lets the test answer them.
class HeldChatModel final : public ChatModel {
 public:
  void Complete(const ModelCaller& /*caller*/, ChatRequest request, ModelDeadline /*deadline*/,
                Done done) override {
    MutexLock lock(mutex_);
    calls_.push_back({request.messages.back().parts.at(0).text, std::move(done)});
    called_.NotifyAll();
  }

  // Answers the oldest call, once there is one, and returns its prompt.
  std::string Answer(std::string text) {
    const auto [prompt, done] = Take();
    done(ChatReply{std::move(text), Usage{1, 10, 2}});
    return prompt;
  }
  struct Call {
    std::string prompt;
    Done done;
  };
  Call Take() {
    MutexLock lock(mutex_);
    while (calls_.empty()) called_.Wait(mutex_);
    Call call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }
  // Of the oldest call; none when there is none.
  std::optional<Call> TryTake() {
    MutexLock lock(mutex_);
    if (calls_.empty()) return std::nullopt;
    Call call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }

 private:
  Mutex mutex_;
  CondVar called_;
  std::deque<Call> calls_ MEMORYD_GUARDED_BY(mutex_);
};

class HeldModels final : public ModelDirectory {
 public:
  absl::StatusOr<std::shared_ptr<ChatModel>> FindChatModel(std::string_view /*tenant*/,
                                                           std::string_view /*worker*/,
                                                           std::string_view /*model*/) override {
    return chat;
  }
  absl::StatusOr<std::shared_ptr<Embedder>> FindEmbedder(std::string_view /*tenant*/,
                                                         std::string_view /*worker*/,
                                                         std::string_view /*name*/) override {
    return embedder;
  }
  std::shared_ptr<HeldChatModel> chat = std::make_shared<HeldChatModel>();
  std::shared_ptr<HashEmbedder> embedder = std::make_shared<HashEmbedder>();
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_HELD_MODELS_H_
