// Blocks over fake models and entries in memory.
#ifndef MEMORYD_TESTS_SUPPORT_BLOCK_FIXTURE_H_
#define MEMORYD_TESTS_SUPPORT_BLOCK_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/entry_index_cache.h"
#include "core/blocks/other_sessions.h"
#include "core/model/job.h"
#include "tests/support/fake_models.h"
#include "tests/support/plain_body_reader.h"

namespace memoryd {

// Splits at white space, as the server's counter of that name does.
class WordCounter final : public TokenCounter {
 public:
  std::int64_t Count(std::string_view text) const override {
    std::int64_t words = 0;
    bool in_word = false;
    for (const char c : text) {
      const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
      if (!space && !in_word) ++words;
      in_word = !space;
    }
    return words;
  }
};

// Another session that says `said` and takes in all that is handed on to it.
class FakeOtherSessions final : public OtherSessions {
 public:
  void Show(const SessionKey& other, RenderRequest /*request*/,
            Block::Done<BlockContent> done) override {
    asked.push_back(other);
    done(said);
  }
  void ShowStable(const SessionKey& other, RenderRequest request,
                  Block::Done<BlockContent> done) override {
    Show(other, std::move(request), std::move(done));
  }
  void HandOn(const SessionKey& other, FeedRequest request, Block::Done<FeedResult> done) override {
    asked.push_back(other);
    for (const BlockMessage& message : request.messages) taken.push_back(message.id);
    done(FeedResult{std::move(request.state.state), {}, {}});
  }

  BlockContent said;
  std::vector<SessionKey> asked;
  std::vector<std::string> taken;  // Ids of messages.
};

// Settings of a block of this kind with all that the kind says is required, and nothing else. The
// models of the fixture are named so that it finds them.
inline BlockSettings LeastSettings(std::string kind, Profile profile = Profile::kDefault) {
  BlockSettings settings;
  settings.name = "block";
  settings.kind = std::move(kind);
  std::string options;
  for (int i = 0; i < 10; ++i) {
    const std::string refusal(TraitsOf(settings, profile)->status().message());
    if (refusal.find(".worker: is required") != std::string::npos) settings.worker = "w";
    const std::size_t begin = refusal.find("option `");
    const std::size_t end = refusal.find("` is required");
    if (begin == std::string::npos || end == std::string::npos) continue;
    const std::string option = refusal.substr(begin + 8, end - begin - 8);
    const std::string value = option == "model" ? "chat" : option == "embedder" ? "hash" : "other";
    options += (options.empty() ? "\"" : ",\"") + option + "\":\"" + value + "\"";
    settings.options_json = "{" + options + "}";
  }
  return settings;
}

// A session with one block, as an engine would run it, without its threads.
class BlockFixture {
 public:
  static BlockMessage Text(std::string role, std::string text, std::string metadata = {}) {
    BlockMessage message;
    message.parts.role = std::move(role);
    message.parts.metadata_json = std::move(metadata);
    message.parts.parts.emplace_back().text = std::move(text);
    return message;
  }

  BlockEnvironment Environment() {
    BlockEnvironment environment;
    environment.models = &models;
    environment.bodies = &bodies;
    environment.entries = &entries;
    environment.stats = &stats;
    environment.sessions = &other_sessions;
    environment.run = [this](std::string_view /*tenant*/, std::function<void()> task) {
      ++tasks;
      task();
    };
    return environment;
  }

  absl::StatusOr<std::shared_ptr<const Block>> TryMake(BlockSettings settings, Profile profile) {
    session.profile = profile;
    return MakeBlock(settings, "config.blocks[0]", profile, Environment());
  }

  void Make(std::string kind, std::string options, Profile profile = Profile::kDefault) {
    BlockSettings settings;
    settings.name = "block";
    settings.kind = std::move(kind);
    settings.options_json = std::move(options);
    block = TryMake(std::move(settings), profile).value();
  }

  // Runs a job; what it returns is kept if it succeeds.
  absl::Status Feed(std::vector<BlockMessage> messages) {
    FeedRequest request;
    request.session = session;
    request.state = state;
    request.job_id = "job-" + std::to_string(++jobs);
    const auto asked = std::make_shared<UsageCount>();
    request.usage = asked;
    request.now_us = now_us;
    for (BlockMessage& message : messages) {
      MessageDraft row;
      row.position = next_position++;
      message.row = row;
      message.id = "m" + std::to_string(row.position);
    }
    request.messages = std::move(messages);
    std::optional<absl::StatusOr<FeedResult>> result;
    block->Feed(std::move(request),
                [&result](absl::StatusOr<FeedResult> r) { result = std::move(r); });
    usage += asked->Total();
    if (!result.has_value()) return absl::InternalError("no answer");
    if (!result->ok()) return result->status();
    state.state = (*result)->state;
    for (const std::string& body : (*result)->entries) {
      state.entry_generation = 7;
      MessageDraft row;
      row.position = state.next_entry++;
      row.body = body;
      rows.push_back(row);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<BlockContent> Render(std::vector<BlockMessage> messages = {}) {
    RenderRequest request;
    request.session = session;
    request.state = std::make_shared<const BlockState>(state);
    request.messages = std::move(messages);
    std::optional<absl::StatusOr<BlockContent>> result;
    block->Render(std::move(request),
                  [&result](absl::StatusOr<BlockContent> r) { result = std::move(r); });
    return result.value();
  }

  // What the block knows; a T for its kind.
  template <typename T>
  T Known() {
    return std::get<T>(block->Known(state).value().of_kind);
  }

  // The one text that the block says, "" for nothing; its parts as lines.
  std::string Said(std::vector<BlockMessage> messages = {}) {
    std::string text;
    const BlockContent content = Render(std::move(messages)).value();
    for (const BlockPart& part : content.parts) {
      if (!text.empty()) text += '\n';
      text += part.text;
    }
    return text;
  }

  BlockContent Truncate(BlockContent content, std::int64_t tokens) {
    std::optional<BlockContent> result;
    block->Truncate(session, std::move(content), tokens, WordCounter(), {},
                    [&result](absl::StatusOr<BlockContent> r) { result = *std::move(r); });
    return result.value();
  }

  FakeModels models;
  PlainBodyReader bodies;
  BlockStats stats;
  FakeOtherSessions other_sessions;
  std::vector<MessagePtr> rows;
  int reads = 0;
  MemoryBudget budget{0};
  EntryIndexCache entries{
      [this](const SessionKey&, std::uint64_t, std::int64_t begin, std::int64_t end,
             std::int64_t max_rows, std::int64_t) -> absl::StatusOr<std::vector<MessagePtr>> {
        ++reads;
        std::vector<MessagePtr> found;
        for (const MessagePtr& row : rows) {
          if (row->position < begin || row->position >= end) continue;
          if (static_cast<std::int64_t>(found.size()) == max_rows) break;
          found.push_back(row);
        }
        return found;
      },
      std::size_t{1} << 20, &budget};
  BlockSession session{{"tenant", "session-1"}, Profile::kDefault};
  std::shared_ptr<const Block> block;
  BlockState state;
  Usage usage;
  int jobs = 0;
  int tasks = 0;
  std::int64_t next_position = 1;
  std::int64_t now_us = 1'000'000;
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_BLOCK_FIXTURE_H_
