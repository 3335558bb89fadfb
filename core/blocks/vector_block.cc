#include "core/blocks/vector_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/blocks/block.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_knowledge.h"
#include "core/blocks/block_options.h"
#include "core/blocks/block_text.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entry_search.h"
#include "core/blocks/latest_state.h"
#include "core/blocks/memory_text.h"
#include "core/blocks/model_answer.h"
#include "core/blocks/model_calls.h"
#include "core/blocks/turn_entries.h"
#include "core/blocks/vector_entry.h"
#include "core/llm/model.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/model/usage_count.h"
#include "core/tokens/python_repr.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxTopK = 100;
constexpr std::int64_t kMaxWindow = 1000;
// Of a query in profile `default`.
constexpr std::size_t kQueryBytes = 2000;
constexpr std::array<std::string_view, 1> kTags = {"messages"};

struct VectorSettings {
  std::size_t top_k = 2;
  std::size_t window = 5;
  std::optional<double> threshold;
  json filter;
  std::string format;  // Empty: the text as it is.
};

class VectorTraits final : public BlockTraits {
 public:
  VectorTraits(Values values, VectorSettings vector, Profile profile)
      : BlockTraits(std::move(values)), vector_(std::move(vector)), profile_(profile) {}

  const VectorSettings& vector() const { return vector_; }

  absl::StatusOr<std::shared_ptr<const Block>> Make(
      const BlockSettings& settings, const std::string& field,
      const BlockEnvironment& environment) const override;

 private:
  const VectorSettings vector_;
  const Profile profile_;
};

class VectorBlock : public Block {
 public:
  VectorBlock(const BlockSettings& settings, const std::shared_ptr<const VectorTraits>& traits,
              const BlockEnvironment& environment)
      : Block(settings, traits),
        vector_(traits->vector()),
        embedder_(traits->embedder()),
        models_(*environment.models),
        entries_(*environment.entries),
        run_(environment.run) {}

  void Feed(FeedRequest request, Done<FeedResult> done) const override {
    absl::StatusOr<EmbeddingState> known = EmbeddingState::FromJson(request.state.state);
    if (!known.ok()) {
      done(known.status());
      return;
    }
    if (!request.entries.empty()) {
      EmbedAnew(request, *std::move(known), std::move(done));
      return;
    }
    absl::StatusOr<std::vector<EntryDraft>> drafts = DraftsOf(request);
    if (!drafts.ok()) {
      done(drafts.status());
      return;
    }
    if (drafts->empty()) {
      FeedResult result;
      result.state = std::move(request.state.state);
      done(std::move(result));
      return;
    }
    if (known->next.has_value()) {
      done(ResultOf(*std::move(drafts), {}, *known));
      return;
    }
    std::vector<std::string> texts;
    texts.reserve(drafts->size());
    for (const EntryDraft& draft : *drafts) texts.push_back(draft.text);
    EmbedTexts(
        request, std::move(texts), *std::move(known),
        [drafts = *std::move(drafts)](EmbeddingState& state, Vectors vectors) mutable {
          return ResultOf(std::move(drafts), std::move(vectors), state);
        },
        std::move(done));
  }

  void Render(RenderRequest request, Done<BlockContent> done) const override {
    std::string query = QueryText(request.messages);
    if (query.empty()) {
      done(BlockContent());
      return;
    }
    EntryQuery entries;
    entries.key = request.session.key;
    entries.top_k = vector_.top_k;
    entries.filter = vector_.filter;
    entries.now_us = request.now_us;
    entries.ttl_us = ttl_us();
    if (request.state != nullptr) {
      entries.generation = request.state->entry_generation;
      entries.next_entry = request.state->next_entry;
    }
    const auto known = state_.Of(request.state, &EmbeddingState::FromJson);
    if (!known.ok()) {
      done(known.status());
      return;
    }
    entries.log = (*known)->log;
    if (SkipsEmbedding(entries)) {
      done(BlockContent());
      return;
    }
    // What made the vectors, though others are made by now.
    const EmbeddingSource& made = (*known)->source;
    const bool is_named = !made.embedder.empty();
    const ModelName embedder = is_named ? ModelName{made.worker, made.embedder} : embedder_;
    AskEmbedder(models_, embedder, CallerOf(request.session, "", request.usage),
                EmbedPurpose::kQuery, {std::move(query)}, request.deadline,
                [self = Self(), entries = std::move(entries), source = made, embedder,
                 done = std::move(done)](absl::StatusOr<EmbedReply> reply) mutable {
                  absl::Status status = reply.status();
                  if (status.ok() && source.size > 0) {
                    status = source.Accepts(SourceOf(embedder, *reply));
                  }
                  if (!status.ok()) {
                    done(std::move(status));
                    return;
                  }
                  self->Search(std::move(entries), std::move(reply->vectors[0]), std::move(done));
                });
  }

  absl::StatusOr<BlockKnowledge> Known(const BlockState& state) const override {
    MEMORYD_ASSIGN_OR_RETURN(EmbeddingState known, EmbeddingState::FromJson(state.state));
    return BlockKnowledge{KnownEntries{CountEntries(state), std::move(known.source),
                                       std::move(known.next), state.next_entry}};
  }

 protected:
  const VectorSettings& vector() const { return vector_; }

 private:
  using Vectors = std::vector<std::vector<float>>;

  virtual absl::StatusOr<std::vector<EntryDraft>> DraftsOf(const FeedRequest& request) const = 0;
  virtual std::string QueryText(const std::vector<BlockMessage>& messages) const = 0;
  virtual bool SkipsEmbedding(const EntryQuery& query) const = 0;
  virtual BlockContent ContentOf(const std::vector<EntryHit>& hits) const = 0;

  // Entries of the drafts; without vectors where there are none.
  static FeedResult ResultOf(std::vector<EntryDraft> drafts, Vectors vectors,
                             EmbeddingState& state) {
    FeedResult result;
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      VectorEntry entry;
      if (i < vectors.size()) entry.vector = std::move(vectors[i]);
      entry.text = std::move(drafts[i].text);
      entry.metadata_json = std::move(drafts[i].metadata_json);
      entry.sources = std::move(drafts[i].sources);
      const std::int64_t begin = entry.sources.front().position;
      // Messages that are fed once more say nothing new.
      const bool again = begin < state.log.fed_to;
      result.entry_messages.push_back({begin, entry.sources.back().position + 1,
                                       again ? drafts[i].ingest_us : 0, drafts[i].expire_us});
      result.entries.push_back(EncodeVectorEntry(entry));
    }
    result.state = state.ToJson();
    return result;
  }

  // Embeds what entries say by what makes those that are to take their place.
  void EmbedAnew(const FeedRequest& request, EmbeddingState state, Done<FeedResult> done) const {
    std::vector<VectorEntry> entries;
    std::vector<std::string> texts;
    FeedResult result;
    for (const MessagePtr& row : request.entries) {
      absl::StatusOr<VectorEntry> entry = DecodeVectorEntry(row->body);
      // What can't be read is not found either.
      if (!entry.ok() || entry->sources.empty()) continue;
      texts.push_back(entry->text);
      result.entry_positions.push_back(row->position);
      result.entry_messages.push_back({entry->sources.front().position,
                                       entry->sources.back().position + 1, row->ingest_us,
                                       row->ids->expire_us});
      entries.push_back(*std::move(entry));
    }
    if (entries.empty()) {
      result.state = state.ToJson();
      done(std::move(result));
      return;
    }
    EmbedTexts(
        request, std::move(texts), std::move(state),
        [entries = std::move(entries), result = std::move(result)](EmbeddingState& embedded,
                                                                   Vectors vectors) mutable {
          // Else it begins anew, with those that another model has embedded.
          if (!vectors.empty()) {
            for (std::size_t i = 0; i < entries.size(); ++i) {
              entries[i].vector = std::move(vectors[i]);
              result.entries.push_back(EncodeVectorEntry(entries[i]));
            }
          } else {
            result.entry_positions.clear();
            result.entry_messages.clear();
          }
          result.state = embedded.ToJson();
          return std::move(result);
        },
        std::move(done));
  }

  // Has texts embedded for entries. `then` gets no vectors where another model has answered than
  // made the entries that there are: those are made anew.
  void EmbedTexts(const FeedRequest& request, std::vector<std::string> texts, EmbeddingState state,
                  std::function<FeedResult(EmbeddingState&, Vectors)> then,
                  Done<FeedResult> done) const {
    AskEmbedder(models_, embedder_, CallerOf(request.session, request.job_id, request.usage),
                EmbedPurpose::kText, std::move(texts), request.deadline,
                [state = std::move(state), name = embedder_, then = std::move(then),
                 done = std::move(done)](absl::StatusOr<EmbedReply> reply) mutable {
                  if (!reply.ok()) {
                    done(reply.status());
                    return;
                  }
                  // Entries from before this was kept are taken to be of what is asked now.
                  const auto counts = state.AnsweredEntries(SourceOf(name, *reply));
                  if (!counts.ok()) {
                    done(counts.status());
                    return;
                  }
                  done(then(state, *counts ? std::move(reply->vectors) : Vectors()));
                });
  }

  std::shared_ptr<const VectorBlock> Self() const {
    return std::static_pointer_cast<const VectorBlock>(shared_from_this());
  }

  ModelCaller CallerOf(const BlockSession& session, const std::string& job_id,
                       const std::shared_ptr<UsageCount>& usage) const {
    return {session.key.tenant, session.key.session, name(), job_id, usage, session.trace};
  }

  // Runs on a model's thread, which the scan must not hold.
  void Search(EntryQuery query, std::vector<float> numbers, Done<BlockContent> done) const {
    const std::string tenant = query.key.tenant;
    auto search = [self = Self(), query = std::move(query), numbers = std::move(numbers),
                   done = std::move(done)]() mutable {
      query.vector = numbers;
      const auto hits = self->entries_.Nearest(query);
      if (hits.ok()) {
        done(self->ContentOf(*hits));
      } else {
        done(hits.status());
      }
    };
    if (run_) {
      run_(tenant, std::move(search));
    } else {
      search();
    }
  }

  // The traits', which the block keeps alive.
  const VectorSettings& vector_;
  const ModelName& embedder_;
  ModelDirectory& models_;
  EntrySearch& entries_;
  const std::function<void(std::string_view, std::function<void()>)> run_;
  mutable LatestState<EmbeddingState> state_;
};

// ---- llama-index ----

class LlamaVectorBlock final : public VectorBlock {
 public:
  using VectorBlock::VectorBlock;

 private:
  absl::StatusOr<std::vector<EntryDraft>> DraftsOf(const FeedRequest& request) const override {
    EntryDraft draft;
    bool any = false;
    for (const BlockMessage& message : request.messages) {
      std::string text = JoinedText(message.parts);
      if (text.empty()) continue;
      const std::string kwargs = WithoutMember(message.parts.metadata_json, "session_id");
      if (!kwargs.empty()) {
        MEMORYD_ASSIGN_OR_RETURN(const std::string repr, PythonRepr(kwargs));
        text += fmt::format("\nAdditional Info: ({})", repr);
      }
      if (any) draft.text += '\n';
      draft.text += fmt::format("<message role='{}'>{}</message>", message.parts.role, text);
      draft.Add(message);
      any = true;
    }
    std::vector<EntryDraft> drafts;
    if (!any) return drafts;
    draft.metadata_json = WithStringMember("", "session_id", request.session.key.session);
    drafts.push_back(std::move(draft));
    return drafts;
  }

  std::string QueryText(const std::vector<BlockMessage>& messages) const override {
    std::size_t begin = 0;
    if (vector().window > 1 && messages.size() >= vector().window) {
      begin = messages.size() - vector().window;
    }
    std::string query;
    for (std::size_t i = begin; i < messages.size(); ++i) {
      if (i > begin) query += ' ';
      query += JoinedText(messages[i].parts);
    }
    return query;
  }

  // The library asks its embedder whether or not there is anything to be found.
  bool SkipsEmbedding(const EntryQuery& /*query*/) const override { return false; }

  BlockContent ContentOf(const std::vector<EntryHit>& hits) const override {
    BlockContent content;
    if (hits.empty()) return content;
    std::string text;
    bool any = false;
    for (const EntryHit& hit : hits) {
      if (vector().threshold.has_value() && hit.similarity < *vector().threshold) continue;
      if (any) text += "\n\n";
      text += hit.entry->text;
      any = true;
    }
    if (!vector().format.empty()) text = FillTemplate(vector().format, {{"text", text}});
    // An empty str is nothing.
    if (!text.empty()) content.parts.emplace_back().text = std::move(text);
    return content;
  }
};

// ---- default ----

class DefaultVectorBlock final : public VectorBlock {
 public:
  using VectorBlock::VectorBlock;

  void Truncate(const BlockSession& /*session*/, BlockContent content, std::int64_t tokens,
                const TokenCounter& counter, BlockDeadline /*deadline*/,
                Done<BlockContent> done) const override {
    done(WithoutLowestRanks(std::move(content), tokens, counter));
  }

 private:
  absl::StatusOr<std::vector<EntryDraft>> DraftsOf(const FeedRequest& request) const override {
    return EntriesOfTurns(request.messages);
  }

  std::string QueryText(const std::vector<BlockMessage>& messages) const override {
    const std::size_t window = std::max<std::size_t>(vector().window, 1);
    const std::size_t begin = messages.size() > window ? messages.size() - window : 0;
    std::string query;
    for (std::size_t i = begin; i < messages.size(); ++i) {
      const std::string words = SpokenWords(messages[i].parts);
      if (PythonStrip(words).empty()) continue;
      if (!query.empty()) query += '\n';
      query += PythonStrip(words);
    }
    return std::string(Tail(query, kQueryBytes));
  }

  bool SkipsEmbedding(const EntryQuery& query) const override {
    return query.generation == 0 || query.log.count.value_or(query.next_entry - 1) == 0;
  }

  BlockContent ContentOf(const std::vector<EntryHit>& hits) const override {
    BlockContent content;
    for (const EntryHit& hit : hits) {
      if (vector().threshold.has_value() && hit.similarity < *vector().threshold) continue;
      const std::string text = EscapeTags(hit.entry->text, kTags);
      BlockPart& part = content.parts.emplace_back();
      part.text = vector().format.empty() ? fmt::format("<messages>\n{}\n</messages>", text)
                                          : FillTemplate(vector().format, {{"text", text}});
      part.rank = -static_cast<std::int64_t>(content.parts.size());
    }
    return content;
  }
};

absl::StatusOr<std::shared_ptr<const Block>> VectorTraits::Make(
    const BlockSettings& settings, const std::string& /*field*/,
    const BlockEnvironment& environment) const {
  const auto self = std::static_pointer_cast<const VectorTraits>(shared_from_this());
  if (profile_ == Profile::kLlamaIndex) {
    return std::make_shared<const LlamaVectorBlock>(settings, self, environment);
  }
  return std::make_shared<const DefaultVectorBlock>(settings, self, environment);
}

}  // namespace

std::shared_ptr<const BlockTraits> ReadVectorTraits(const BlockSettings& settings,
                                                    const std::string& field, Profile profile) {
  BlockOptions options(OptionsField(field), settings.options_json);
  BlockTraits::Values values = ValuesOf(settings, options);
  VectorSettings vector;
  values.has_entries = true;
  values.embedder = {settings.worker, options.RequiredText("embedder")};
  vector.top_k = static_cast<std::size_t>(options.Integer("top_k", 2, 1, kMaxTopK));
  vector.window =
      static_cast<std::size_t>(options.Integer("retrieval_context_window", 5, 0, kMaxWindow));
  vector.threshold = options.Number("similarity_threshold", -1, 1);
  vector.filter = options.Scalars("filter");
  vector.format = options.Template("format_template", "", {"text"});
  values.feed = FeedOption(options, BlockFeed::kArchived);
  values.ttl_us = TtlOption(options);
  values.section = SectionOption(options);
  values.status = options.Finish();
  return std::make_shared<const VectorTraits>(std::move(values), std::move(vector), profile);
}

}  // namespace memoryd
