#include "core/blocks/fact_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/histogram.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/block_text.h"
#include "core/blocks/fact_changes.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/fact_text.h"
#include "core/blocks/fact_traits.h"
#include "core/blocks/fact_ttl.h"
#include "core/blocks/latest_state.h"
#include "core/blocks/memory_text.h"
#include "core/blocks/model_answer.h"
#include "core/blocks/model_calls.h"
#include "core/blocks/same_facts.h"
#include "core/llm/model.h"
#include "core/model/body_reader.h"
#include "core/model/job.h"
#include "core/model/session_config.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

using Json = nlohmann::ordered_json;

// Of messages in one call.
constexpr std::size_t kPieceBytes = std::size_t{24} << 10;
constexpr std::array<std::string_view, 2> kTags = {"fact", "facts"};

class FactBlockBase : public Block {
 public:
  FactBlockBase(const BlockSettings& settings, const std::shared_ptr<const FactTraits>& traits,
                const BlockEnvironment& environment)
      : Block(settings, traits),
        traits_(*traits),
        models_(*environment.models),
        stats_(environment.stats) {}

  bool stable() const override { return true; }
  const FactTraits& traits() const { return traits_; }
  const FactOptions& facts() const { return traits_.options(); }

  void Ask(const FeedRequest& request, std::vector<StoredMessage> messages,
           ChatModel::Done done) const {
    ChatRequest chat;
    chat.messages = std::move(messages);
    AskChatModel(models_, stats_, traits_.chat_model(), name(), request, std::move(chat),
                 std::move(done));
  }

  void AskForText(const FeedRequest& request, std::string prompt,
                  std::function<void(absl::StatusOr<std::string>)> done) const {
    ChatRequest chat;
    chat.messages.push_back(UserMessage(std::move(prompt)));
    memoryd::AskForText(models_, stats_, traits_.chat_model(), name(), request, std::move(chat),
                        std::move(done));
  }

  BlockStats* stats() const { return stats_; }
  ModelDirectory& models() const { return models_; }

 private:
  const FactTraits& traits_;  // The block keeps them alive.
  ModelDirectory& models_;
  BlockStats* const stats_;
};

// ---- llama-index ----

// The state is {"version":1,"facts":[...]}.
absl::StatusOr<std::vector<std::string>> ReadLlamaState(std::string_view state,
                                                        const FactOptions& options) {
  if (state.empty()) return options.first_facts;
  const Json json = Json::parse(state, nullptr, false);
  std::vector<std::string> facts;
  const auto found = json.is_object() ? json.find("facts") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_array()) {
    return absl::DataLossError("the stored facts of a block can't be read back");
  }
  for (const Json& fact : *found) {
    if (!fact.is_string()) {
      return absl::DataLossError("the stored facts of a block can't be read back");
    }
    facts.push_back(fact.get<std::string>());
  }
  return facts;
}

absl::StatusOr<std::string> WriteLlamaState(const std::vector<std::string>& facts) {
  const Json json = {{"version", 1}, {"facts", facts}};
  std::string state = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (state.size() > kMaxBlockState) {
    return absl::ResourceExhaustedError("the facts of a block exceed 1 MiB");
  }
  return state;
}

class LlamaFactBlock final : public FactBlockBase {
 public:
  using FactBlockBase::FactBlockBase;

  void Feed(FeedRequest request, Done<FeedResult> done) const override {
    auto facts = ReadLlamaState(request.state.state, this->facts());
    if (!facts.ok()) {
      done(facts.status());
      return;
    }
    auto work = std::make_shared<Work>();
    work->block = std::static_pointer_cast<const LlamaFactBlock>(shared_from_this());
    work->facts = *std::move(facts);
    work->done = std::move(done);
    if (request.messages.empty()) {
      work->Finish();
      return;
    }
    for (BlockMessage& message : request.messages) {
      work->messages.push_back(std::move(message.parts));
      std::string& metadata = work->messages.back().metadata_json;
      metadata = WithStringMember(metadata, "session_id", request.session.key.session);
    }
    // The rows went, what they held stays.
    request.messages.clear();
    work->request = std::move(request);
    work->Extract();
  }

  void Render(RenderRequest request, Done<BlockContent> done) const override {
    const auto lines =
        lines_.Of(request.state, [this](std::string_view state) -> absl::StatusOr<std::string> {
          MEMORYD_ASSIGN_OR_RETURN(const std::vector<std::string> known,
                                   ReadLlamaState(state, facts()));
          return known.empty() ? std::string() : LlamaFactLines(known);
        });
    if (!lines.ok()) {
      done(lines.status());
      return;
    }
    BlockContent content;
    if (!(*lines)->empty()) content.parts.emplace_back().text = **lines;
    done(std::move(content));
  }

  absl::StatusOr<BlockKnowledge> Known(const BlockState& state) const override {
    MEMORYD_ASSIGN_OR_RETURN(std::vector<std::string> texts,
                             ReadLlamaState(state.state, this->facts()));
    FactState known;
    for (std::string& text : texts) {
      Fact& fact = known.facts.emplace_back();
      fact.text = std::move(text);
      fact.seen = 0;  // Nobody has counted.
    }
    return BlockKnowledge{std::move(known)};
  }

 private:
  struct Work : std::enable_shared_from_this<Work> {
    std::shared_ptr<const LlamaFactBlock> block;
    FeedRequest request;
    std::vector<StoredMessage> messages;
    std::vector<std::string> facts;
    Done<FeedResult> done;

    void Ask(std::string_view form, ChatModel::Done answered) {
      const std::string prompt =
          FillTemplate(form, {{"existing_facts", LlamaFactLines(facts)},
                              {"max_facts", std::to_string(block->facts().max_facts)}});
      std::vector<StoredMessage> all = messages;
      all.push_back(UserMessage(std::string(PythonStrip(prompt))));
      block->Ask(request, std::move(all), std::move(answered));
    }

    void Extract() {
      Ask(block->facts().extraction_prompt.text(),
          [self = shared_from_this()](absl::StatusOr<ChatReply> reply) {
            if (!reply.ok()) {
              self->done(reply.status());
              return;
            }
            for (std::string& fact : LlamaFacts(reply->text)) {
              if (std::find(self->facts.begin(), self->facts.end(), fact) == self->facts.end()) {
                self->facts.push_back(std::move(fact));
              }
            }
            if (self->facts.size() > self->block->facts().max_facts) {
              self->Condense();
            } else {
              self->Finish();
            }
          });
    }

    void Condense() {
      Ask(block->facts().condense_prompt.text(),
          [self = shared_from_this()](absl::StatusOr<ChatReply> reply) {
            if (!reply.ok()) {
              self->done(reply.status());
              return;
            }
            std::vector<std::string> condensed = LlamaFacts(reply->text);
            if (!condensed.empty()) self->facts = std::move(condensed);
            self->Finish();
          });
    }

    void Finish() {
      absl::StatusOr<std::string> state = WriteLlamaState(facts);
      if (!state.ok()) {
        done(state.status());
        return;
      }
      FeedResult result;
      result.state = *std::move(state);
      done(std::move(result));
    }
  };

  mutable LatestState<std::string> lines_;
};

// ---- default ----

std::string FactLines(const FactState& state) {
  std::string lines;
  for (const Fact& fact : state.facts) {
    if (!lines.empty()) lines += '\n';
    lines += fmt::format("<fact id=\"{}\">{}</fact>", fact.id, EscapeTags(fact.text, kTags));
  }
  return lines;
}

class FactBlock final : public FactBlockBase {
 public:
  FactBlock(const BlockSettings& settings, const std::shared_ptr<const FactTraits>& traits,
            const BlockEnvironment& environment)
      : FactBlockBase(settings, traits, environment),
        extraction_echo_(this->facts().extraction_prompt.text()),
        condense_echo_(this->facts().condense_prompt.text()) {}

  void Feed(FeedRequest request, Done<FeedResult> done) const override {
    auto state = traits().Read(request.state.state);
    if (!state.ok()) {
      done(state.status());
      return;
    }
    auto work = std::make_shared<Work>();
    work->block = std::static_pointer_cast<const FactBlock>(shared_from_this());
    work->state = *std::move(state);
    if (ttl_us() > 0) {
      RetireOldFacts(work->state, ttl_us(), {request.job_id, request.now_us});
    }
    work->pieces = Transcript(request.messages, kPieceBytes,
                              facts().extraction_prompt.ZoneOf(request.session));
    request.DropBodies(TextBytes(work->pieces));
    work->request = std::move(request);
    work->done = std::move(done);
    work->ExtractNext();
  }

  void Render(RenderRequest request, Done<BlockContent> done) const override {
    const auto content =
        content_.Of(request.state, [this](std::string_view state) -> absl::StatusOr<BlockContent> {
          MEMORYD_ASSIGN_OR_RETURN(const FactState known, traits().Read(WithoutHistory(state)));
          return ContentOf(known);
        });
    if (content.ok()) {
      done(**content);
    } else {
      done(content.status());
    }
  }

  absl::StatusOr<BlockKnowledge> Known(const BlockState& state) const override {
    MEMORYD_ASSIGN_OR_RETURN(FactState known, traits().Read(state.state));
    return BlockKnowledge{std::move(known)};
  }

  void Truncate(const BlockSession& /*session*/, BlockContent content, std::int64_t tokens,
                const TokenCounter& counter, BlockDeadline /*deadline*/,
                Done<BlockContent> done) const override {
    done(WithoutLowestRanks(std::move(content), tokens, counter));
  }

 private:
  struct Work : std::enable_shared_from_this<Work> {
    std::shared_ptr<const FactBlock> block;
    FeedRequest request;
    std::vector<TranscriptPiece> pieces;
    std::size_t next_piece = 0;
    FactState state;
    Done<FeedResult> done;
    // Of the answer that is being taken in.
    std::vector<AnsweredFact> answered;
    std::vector<FactSource> sources;

    FactJob Job() const { return {request.job_id, request.now_us}; }

    void CountNonsense() const {
      if (block->stats() != nullptr) Increment(block->stats()->unreadable_answers);
    }

    void ExtractNext() {
      if (next_piece == pieces.size()) {
        CondenseIfNeeded();
        return;
      }
      const TranscriptPiece& piece = pieces[next_piece++];
      const std::string known = FactLines(state);
      const std::string most = std::to_string(block->facts().max_facts);
      std::string prompt = block->facts().extraction_prompt.Fill(
          request, piece.text, {{"existing_facts", known}, {"max_facts", most}});
      block->AskForText(request, std::move(prompt),
                        [self = shared_from_this()](absl::StatusOr<std::string> reply) {
                          self->Extracted(std::move(reply));
                        });
    }

    void Extracted(absl::StatusOr<std::string> reply) {
      if (!reply.ok()) {
        done(reply.status());
        return;
      }
      FactAnswer answer = ReadFactAnswer(*reply);
      RemoveEchoes(block->extraction_echo_, answer);
      if (!answer.understood) CountNonsense();
      // Evidence numbers are those of the job's messages; one that is in none of the messages
      // that were shown is no evidence.
      const std::vector<std::size_t>& shown = pieces[next_piece - 1].messages;
      sources.clear();
      for (const std::size_t i : shown) {
        const StoredMessage& said = request.messages[i].parts;
        sources.push_back({request.messages[i].id, said.role == "user", said.untrusted});
      }
      for (AnsweredFact& fact : answer.facts) {
        std::vector<std::int64_t> evidence;
        for (const std::int64_t number : fact.evidence) {
          const auto place =
              std::find(shown.begin(), shown.end(), static_cast<std::size_t>(number - 1));
          if (place != shown.end()) evidence.push_back(place - shown.begin() + 1);
        }
        fact.evidence = std::move(evidence);
      }
      answered = std::move(answer.facts);
      FindSame();
    }

    // Has those that are new embedded beside the facts that there are, where the session has an
    // embedder. Without its answer they are taken as they are.
    void FindSame() {
      if (state.facts.empty() || request.session.embedder.model.empty()) return TakeAnswerIn();
      std::vector<std::size_t> unknown = UnknownFacts(answered, state);
      if (unknown.empty()) return TakeAnswerIn();
      std::vector<std::string> texts;
      texts.reserve(unknown.size() + state.facts.size());
      for (const std::size_t i : unknown) texts.push_back(answered[i].text);
      for (const Fact& fact : state.facts) texts.push_back(fact.text);
      // An embedder that does not answer leaves the job's time to the chat model.
      const BlockDeadline now = std::chrono::steady_clock::now();
      const BlockDeadline deadline = now + (request.deadline - now) / 4;
      AskEmbedder(block->models(), request.session.embedder, CallerOf(block->name(), request),
                  EmbedPurpose::kText, std::move(texts), deadline,
                  [self = shared_from_this(),
                   unknown = std::move(unknown)](absl::StatusOr<EmbedReply> reply) {
                    if (reply.ok()) {
                      MarkSame(self->answered, unknown, self->state, std::move(reply->vectors),
                               self->block->facts().same_similarity);
                    }
                    self->TakeAnswerIn();
                  });
    }

    void TakeAnswerIn() {
      TakeIn(state, answered, sources, Job());
      ExtractNext();
    }

    void CondenseIfNeeded() {
      if (state.facts.size() <= block->facts().max_facts) {
        Finish();
        return;
      }
      const std::string known = FactLines(state);
      const std::string most = std::to_string(block->facts().max_facts);
      std::string prompt = block->facts().condense_prompt.Fill(
          request, "", {{"existing_facts", known}, {"max_facts", most}});
      block->AskForText(request, std::move(prompt),
                        [self = shared_from_this()](absl::StatusOr<std::string> reply) {
                          self->Condensed(std::move(reply));
                        });
    }

    void Condensed(absl::StatusOr<std::string> reply) {
      if (!reply.ok()) {
        done(reply.status());
        return;
      }
      FactAnswer answer = ReadFactAnswer(*reply);
      RemoveEchoes(block->condense_echo_, answer);
      if (!answer.understood) {
        CountNonsense();
      } else if (!Condense(state, answer.facts, Job()) && block->stats() != nullptr) {
        Increment(block->stats()->refused_condensings);
      }
      const std::size_t max_facts = block->facts().max_facts;
      Evict(state, max_facts + max_facts / 2, Job());
      Finish();
    }

    void Finish() {
      FeedResult result;
      result.state = state.ToJson();
      done(std::move(result));
    }
  };

  // Facts stand in the order in which they were found; the least trusted go first, of equals the
  // oldest.
  static BlockContent ContentOf(const FactState& state) {
    std::vector<const Fact*> order;
    order.reserve(state.facts.size());
    for (const Fact& fact : state.facts) order.push_back(&fact);
    std::stable_sort(order.begin(), order.end(), [](const Fact* a, const Fact* b) {
      return a->trust != b->trust ? a->trust < b->trust : a->last_us < b->last_us;
    });
    BlockContent content;
    for (const Fact& fact : state.facts) {
      BlockPart& part = content.parts.emplace_back();
      part.text = fmt::format("<fact>{}</fact>", EscapeTags(fact.text, kTags));
      part.rank = std::find(order.begin(), order.end(), &fact) - order.begin();
    }
    return content;
  }

  static void RemoveEchoes(const PromptEcho& echo, FactAnswer& answer) {
    std::erase_if(answer.facts,
                  [&echo](const AnsweredFact& fact) { return echo.HasItem(fact.text); });
  }

  const PromptEcho extraction_echo_;
  const PromptEcho condense_echo_;
  mutable LatestState<BlockContent> content_;
};

}  // namespace

std::shared_ptr<const Block> MakeFactBlock(const BlockSettings& settings,
                                           const std::shared_ptr<const FactTraits>& traits,
                                           const BlockEnvironment& environment) {
  if (traits->is_llama()) {
    return std::make_shared<const LlamaFactBlock>(settings, traits, environment);
  }
  return std::make_shared<const FactBlock>(settings, traits, environment);
}

}  // namespace memoryd
