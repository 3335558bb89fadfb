#include "core/recall/recall.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/ranking_options.h"
#include "core/model/session_config.h"
#include "core/recall/known_texts.h"
#include "core/recall/searched_session.h"
#include "core/recall/session_search.h"
#include "core/recall/update_context.h"
#include "core/retrieval/search.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

// Of a profile that returns all contents.
constexpr std::int64_t kMaxListed = 100'000;
// Their text stands twice in the reply of UpdateContext, bytes four times as long.
constexpr std::int64_t kMaxListedContext = std::int64_t{8} << 20;
// Of the stable prefix, so that reading it does not grow with the session.
constexpr std::int64_t kMaxPrefixContents = 1000;
constexpr std::int64_t kMaxPrefixBytes = std::int64_t{4} << 20;
constexpr std::size_t kMaxRecalled = 5;
// Looked at, since some may be in the context already.
constexpr std::size_t kRecallCandidates = 20;
// Of a message that is inserted for its likeness to the question alone.
constexpr double kLeastRecallCosine = 0.3;

// What a context holds besides chat history.
std::int64_t LongTermTokens(const SessionConfig& config) {
  const auto limit = static_cast<double>(config.token_limit);
  return config.token_limit - static_cast<std::int64_t>(limit * config.chat_history_token_ratio);
}

bool IsList(const SessionInfo& info) {
  return info.config->counting.profile == Profile::kAutogenList;
}

SearchRequest ToSearch(const QueryRequest& request, const RankingOptions& ranking) {
  SearchRequest search;
  search.query = request.query;
  search.top_k = request.top_k;
  search.ranking = ranking;
  search.ranking.vector_threshold = request.vector_threshold.value_or(ranking.vector_threshold);
  search.least_cosine = request.score_threshold;
  return search;
}

// Multiplies scores, so that those of several searches have one measure.
void Scale(double factor, std::vector<FoundItem>& items) {
  for (FoundItem& item : items) {
    item.score *= factor;
    for (double* part : EachOf(item.parts)) *part *= factor;
  }
}

// Adds what one search found to what others did; of equal scores the others' come first.
void Join(Found found, Found& all) {
  if (found.best > all.best) {
    if (all.best > 0) Scale(all.best / found.best, all.items);
    all.best = found.best;
  } else if (all.best > 0 && found.best > 0) {
    Scale(found.best / all.best, found.items);
  }
  std::vector<FoundItem> items;
  items.reserve(all.items.size() + found.items.size());
  std::merge(std::make_move_iterator(all.items.begin()), std::make_move_iterator(all.items.end()),
             std::make_move_iterator(found.items.begin()),
             std::make_move_iterator(found.items.end()), std::back_inserter(items),
             [](const FoundItem& a, const FoundItem& b) { return a.score > b.score; });
  all.items = std::move(items);
}

// Leaves as many of the best as are wanted and as there is room for.
void Keep(const QueryRequest& request, std::vector<FoundItem>& items) {
  std::vector<FoundItem> kept;
  std::int64_t left = request.shape.token_budget.value_or(std::numeric_limits<std::int64_t>::max());
  for (FoundItem& item : items) {
    if (kept.size() == request.top_k) break;
    if (item.shown_tokens > left) continue;
    left -= item.shown_tokens;
    kept.push_back(std::move(item));
  }
  for (FoundItem& item : kept) {
    std::erase_if(item.neighbours, [&left](const MessagePtr& neighbour) {
      if (neighbour->token_count > left) return true;
      left -= neighbour->token_count;
      return false;
    });
  }
  items = std::move(kept);
}

absl::StatusOr<std::vector<ContentValue>> Values(const BodyReader& bodies,
                                                 const std::vector<ContentPtr>& contents) {
  std::vector<ContentValue> values;
  values.reserve(contents.size());
  for (const ContentPtr& content : contents) {
    MEMORYD_ASSIGN_OR_RETURN(ContentValue value, bodies.ReadContent(content->body));
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

bool Recall::NeedsIndex(const SessionInfo& info, const QueryRequest&) {
  return info.exists() && !IsList(info);
}

bool QueryRequest::AsksBlocks() const {
  // No field of a message's holds for what a block knows.
  return !without_blocks && filter.IsStatusAlone() && filter.status == StatusFilter::kAll;
}

absl::StatusOr<Found> Recall::Answer(const SessionInfo& info, const SessionSearch::Index& index,
                                     const QueryRequest& request, bool accept_missing,
                                     const QueryEmbedding& embedding, const KnownTexts* texts) {
  if (!info.exists()) {
    search_.Forget(request.key);
    return Found();
  }
  if (IsList(info)) {
    return AllContents(request.key, info.row, static_cast<std::int64_t>(kMaxReplyBytes),
                       request.shape.now_us, accept_missing);
  }
  SearchRequest search = ToSearch(request, info.config->ranking);
  if (texts != nullptr) search.scale = texts->index().Scale(search);
  MEMORYD_ASSIGN_OR_RETURN(Found found, search_.Find(index, search, request.filter, request.shape,
                                                     accept_missing, embedding));
  if (texts != nullptr) {
    search.scale = found.scale;
    // What has no embedding counts the likeness of its vector instead.
    if (found.embedding_counted) search.ranking.vector_weight += search.ranking.embedder_weight;
    Join(SessionSearch::FindKnown(*texts, search, request.shape), found);
    Keep(request, found.items);
  }
  const bool embeds = info.config->EmbedsMessages() && info.config->ranking.embedder_weight > 0;
  if (!embeds) found.pending_embeddings = 0;
  found.lacks_vectors = info.config->ranking.vector_weight > 0 && !search_.has_vectors();
  return found;
}

std::vector<std::string> Recall::OtherSessions(const SessionInfo& info,
                                               const QueryRequest& request) {
  std::vector<std::string> others;
  const MessageFilter& filter = request.filter;
  // What these name is something of the session's own.
  const bool own_only = filter.thread_id.has_value() || !filter.message_ids.empty() ||
                        filter.status != StatusFilter::kAll;
  if (!info.exists() || IsList(info) || own_only) return others;
  for (const BlockSettings& block : info.config->blocks) {
    std::optional<std::string> other = block.traits->other_session();
    if (!other.has_value() || *other == request.key.session) continue;
    if (std::find(others.begin(), others.end(), *other) == others.end()) {
      others.push_back(*std::move(other));
    }
  }
  return others;
}

bool Recall::NeedsIndex(const SessionInfo& info, const PrepareRequest&) {
  return info.exists() && !IsList(info);
}

absl::StatusOr<PreparedSession> Recall::Answer(const SessionInfo& info,
                                               const SessionSearch::Index& index,
                                               const PrepareRequest& request,
                                               std::shared_ptr<const KnownTexts> texts) {
  return PreparedSession{request.key, info, index, std::move(texts)};
}

absl::StatusOr<Found> Recall::AnswerWithOthers(PreparedSession asked, const QueryRequest& request,
                                               bool accept_missing,
                                               std::span<const PreparedSession> others) {
  const RankingOptions ranking = asked.info.config->ranking;
  std::vector<PreparedSession> places = {std::move(asked)};
  for (const PreparedSession& other : others) {
    if (other.index != nullptr) places.push_back(other);
  }
  std::vector<SearchRequest> searches;
  SearchScale scale;
  for (const PreparedSession& place : places) {
    SearchRequest& search = searches.emplace_back(ToSearch(request, ranking));
    // These are as its index was made.
    search.ranking.expansion = place.info.config->ranking.expansion;
    search.ranking.dates = place.info.config->ranking.dates;
    search.ranking.zone = place.info.config->ranking.zone;
    const auto measure = [&scale](const SearchScale& own) {
      scale.words = std::max(scale.words, own.words);
      scale.cosine = std::max(scale.cosine, own.cosine);
    };
    MEMORYD_ASSIGN_OR_RETURN(const SearchScale own, search_.Scale(place.index, search));
    measure(own);
    if (place.texts != nullptr) measure(place.texts->index().Scale(search));
  }
  Found all;
  for (std::size_t i = 0; i < places.size(); ++i) {
    searches[i].scale = scale;
    MEMORYD_ASSIGN_OR_RETURN(Found found, search_.Find(places[i].index, searches[i], request.filter,
                                                       request.shape, accept_missing));
    if (places[i].texts != nullptr) {
      Join(SessionSearch::FindKnown(*places[i].texts, searches[i], request.shape), found);
    }
    if (i == 0) {
      all.row = std::move(found.row);
    } else {
      const auto place = std::make_shared<const OtherPlace>(
          OtherPlace{places[i].key.session, std::move(found.row)});
      for (FoundItem& item : found.items) item.other = place;
    }
    all.filter_limit |= found.filter_limit;
    Join(std::move(found), all);
  }
  MEMORYD_RETURN_IF_ERROR(LeaveOutCopies(request.key.session, all.row.generation, all.items));
  Keep(request, all.items);
  all.lacks_vectors = ranking.vector_weight > 0 && !search_.has_vectors();
  return all;
}

absl::Status Recall::LeaveOutCopies(const std::string& asked, std::uint64_t generation,
                                    std::vector<FoundItem>& items) const {
  using Origin = std::pair<std::string, std::string>;  // A session and a message of it.
  std::set<Origin> seen;
  std::vector<std::optional<Origin>> copied_from(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const FoundItem& item = items[i];
    if (item.message == nullptr) continue;
    MEMORYD_ASSIGN_OR_RETURN(MessageHead head, bodies_.ReadHead(item.message->body));
    if (!head.source_session_id.empty()) {
      copied_from[i].emplace(std::move(head.source_session_id), std::move(head.source_message_id));
    } else if (item.other == nullptr) {
      seen.emplace(asked, MessageId(*item.message, generation));
    } else {
      seen.emplace(item.other->session_id, MessageId(*item.message, item.other->row.generation));
    }
  }
  std::vector<FoundItem> kept;
  kept.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool is_new = !copied_from[i].has_value() || seen.insert(*copied_from[i]).second;
    if (is_new) kept.push_back(std::move(items[i]));
  }
  items = std::move(kept);
  return absl::OkStatus();
}

bool Recall::NeedsIndex(const SessionInfo& info, const UpdateContextRequest&) {
  return info.exists() && !IsList(info) && info.row.archived_count > 0;
}

absl::StatusOr<UpdatedContext> Recall::Answer(const SessionInfo& info,
                                              const SessionSearch::Index& index,
                                              const UpdateContextRequest& request,
                                              bool accept_missing,
                                              std::span<const OfferedBlock> blocks) {
  if (info.exists() && IsList(info)) return UpdateListContext(info, request, accept_missing);
  UpdatedContext updated;
  std::vector<ContentValue> contents;
  std::vector<RecalledMessage> recalled;
  std::vector<StableBlock> said;
  std::int64_t tokens = 0;  // Left for what is recalled.
  if (info.exists()) {
    updated.found.row = info.row;
    tokens = LongTermTokens(*info.config);
    for (const OfferedBlock& offered : blocks) {
      if (offered.may_go && offered.tokens > tokens) {
        updated.blocks_dropped.push_back(offered.block.name);
        continue;
      }
      tokens = std::max<std::int64_t>(0, tokens - offered.tokens);
      updated.blocks_used.push_back(offered.block.name);
      said.push_back(offered.block);
    }
    // A quarter is left for what is recalled, however many contents there are.
    MEMORYD_ASSIGN_OR_RETURN(
        std::vector<ContentPtr> latest,
        LatestContents(request.key, info.row, tokens - tokens / 4, request.now_us, accept_missing));
    MEMORYD_ASSIGN_OR_RETURN(contents, Values(bodies_, latest));
    updated.contents_left_out = info.row.content_count - static_cast<std::int64_t>(latest.size());
    for (ContentPtr& content : latest) {
      tokens -= content->token_count;
      updated.found.items.push_back({0, nullptr, std::move(content), {}});
    }
  }
  const ContextRules rules{info.config->insert_method, request.alternate_roles,
                           !said.empty() || !contents.empty(), info.config->user_roles,
                           info.config->zone()};
  BareContext context = RemoveMemory(request.messages, rules);
  if (info.exists()) {
    MEMORYD_ASSIGN_OR_RETURN(std::vector<FoundItem> items,
                             RecallFor(info, index, request, context, tokens, accept_missing));
    for (FoundItem& item : items) {
      MEMORYD_ASSIGN_OR_RETURN(MessageText text, bodies_.ReadMessage(item.message->body));
      const std::int64_t time = text.create_us.value_or(item.message->ingest_us);
      recalled.push_back({std::move(text), time});
      updated.found.items.push_back(std::move(item));
    }
  }
  updated.insertions = InsertMemory(context, rules, said, contents, recalled);
  updated.kept = std::move(context.kept);
  return updated;
}

absl::StatusOr<std::vector<FoundItem>> Recall::RecallFor(const SessionInfo& info,
                                                         const SessionSearch::Index& index,
                                                         const UpdateContextRequest& request,
                                                         const BareContext& context,
                                                         std::int64_t tokens, bool accept_missing) {
  std::vector<FoundItem> items;
  if (context.question.text.empty()) return items;
  const std::uint64_t generation = info.row.generation;
  const auto kept = recent_.Find(request.key, generation, context.question, request.now_us);
  if (kept.has_value()) {
    std::vector<std::int64_t> positions;
    for (const RecentRecalls::Recalled& one : *kept) positions.push_back(one.position);
    if (positions.empty()) return items;
    MEMORYD_ASSIGN_OR_RETURN(std::vector<MessagePtr> messages,
                             store_.ReadPositions(request.key, generation, positions,
                                                  static_cast<std::int64_t>(kMaxReplyBytes)));
    for (MessagePtr& message : messages) {
      if (message->IsExpired(request.now_us)) continue;
      const auto same =
          std::find_if(kept->begin(), kept->end(), [&message](const RecentRecalls::Recalled& one) {
            return one.position == message->position;
          });
      items.push_back({same->score, std::move(message), nullptr, {}});
    }
    return items;
  }
  MEMORYD_ASSIGN_OR_RETURN(items,
                           RecallMessages(info, index, request, context, tokens, accept_missing));
  std::sort(items.begin(), items.end(), [](const FoundItem& a, const FoundItem& b) {
    return a.message->position < b.message->position;
  });
  std::vector<RecentRecalls::Recalled> recalled;
  recalled.reserve(items.size());
  for (const FoundItem& item : items) recalled.push_back({item.message->position, item.score});
  recent_.Keep(request.key, generation, context.question, request.now_us, std::move(recalled));
  return items;
}

absl::StatusOr<UpdatedContext> Recall::UpdateListContext(const SessionInfo& info,
                                                         const UpdateContextRequest& request,
                                                         bool accept_missing) {
  if (request.alternate_roles) {
    return InvalidField("alternate_roles",
                        "profile `autogen-list` puts a context in order as its library does: "
                        "leave it out");
  }
  UpdatedContext updated;
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    updated.kept.push_back({i});
  }
  MEMORYD_ASSIGN_OR_RETURN(updated.found, AllContents(request.key, info.row, kMaxListedContext,
                                                      request.now_us, accept_missing));
  if (updated.found.items.empty()) return updated;
  std::vector<ContentValue> values;
  for (const FoundItem& item : updated.found.items) {
    MEMORYD_ASSIGN_OR_RETURN(ContentValue value, bodies_.ReadContent(item.content->body));
    values.push_back(std::move(value));
  }
  MEMORYD_ASSIGN_OR_RETURN(std::string text, ListMemoryText(values));
  updated.insertions.messages.push_back({request.messages.size(), "system", std::move(text)});
  return updated;
}

absl::StatusOr<Found> Recall::AllContents(const SessionKey& key, const SessionRow& row,
                                          std::int64_t max_bytes, std::int64_t now_us,
                                          bool accept_missing) {
  Found found;
  found.row = row;
  if (row.content_count == 0) return found;
  if (row.content_count > kMaxListed) return ReplyTooLarge();
  MEMORYD_ASSIGN_OR_RETURN(
      const std::vector<ContentPtr> contents,
      store_.ReadRange(key, row.content_generation, StoredContents(row), kMaxListed, max_bytes));
  std::int64_t bytes = 0;
  for (const ContentPtr& content : contents) {
    bytes += static_cast<std::int64_t>(content->body.size());
    if (!content->IsExpired(now_us)) found.items.push_back({0, nullptr, content, {}});
  }
  if (bytes > max_bytes) return ReplyTooLarge();
  if (static_cast<std::int64_t>(contents.size()) == row.content_count) return found;
  // Cut by the limit, or gone?
  const PositionRange range = StoredContents(row);
  const PositionRange rest{contents.empty() ? range.begin : contents.back()->position + 1,
                           range.end};
  MEMORYD_ASSIGN_OR_RETURN(const std::vector<RowSize> left,
                           store_.ReadSizes(key, row.content_generation, rest, 1));
  if (!left.empty()) return ReplyTooLarge();
  if (!accept_missing) return SessionChanged();
  return found;
}

absl::StatusOr<std::vector<ContentPtr>> Recall::LatestContents(const SessionKey& key,
                                                               const SessionRow& row,
                                                               std::int64_t tokens,
                                                               std::int64_t now_us,
                                                               bool accept_missing) {
  if (row.content_count == 0) return std::vector<ContentPtr>();
  MEMORYD_ASSIGN_OR_RETURN(
      const std::vector<RowSize> sizes,
      store_.ReadSizes(key, row.content_generation, StoredContents(row), kMaxPrefixContents));
  std::vector<std::int64_t> chosen;
  std::int64_t bytes = kMaxPrefixBytes;
  for (const RowSize& size : sizes) {
    if (size.token_count > tokens || size.bytes > bytes) continue;
    tokens -= size.token_count;
    bytes -= size.bytes;
    chosen.push_back(size.position);
  }
  std::reverse(chosen.begin(), chosen.end());
  MEMORYD_ASSIGN_OR_RETURN(
      std::vector<ContentPtr> contents,
      store_.ReadPositions(key, row.content_generation, chosen, kMaxPrefixBytes));
  const bool all_there =
      static_cast<std::int64_t>(sizes.size()) == std::min(row.content_count, kMaxPrefixContents) &&
      contents.size() == chosen.size();
  if (!all_there && !accept_missing) return SessionChanged();
  std::erase_if(contents,
                [now_us](const ContentPtr& content) { return content->IsExpired(now_us); });
  return contents;
}

absl::StatusOr<std::vector<FoundItem>> Recall::RecallMessages(
    const SessionInfo& info, const SessionSearch::Index& index, const UpdateContextRequest& request,
    const BareContext& context, std::int64_t tokens, bool accept_missing) {
  std::vector<FoundItem> recalled;
  if (!NeedsIndex(info, request)) return recalled;
  SearchRequest search;
  search.query = context.question.text;
  search.top_k = kRecallCandidates;
  search.ranking = info.config->ranking;
  search.ranking.vector_threshold = std::max(search.ranking.vector_threshold, kLeastRecallCosine);
  MessageFilter archived;
  archived.status = StatusFilter::kArchived;
  AnswerShape shape;
  shape.now_us = request.now_us;
  MEMORYD_ASSIGN_OR_RETURN(Found found,
                           search_.Find(index, std::move(search), archived, shape, accept_missing));
  if (found.row.generation != info.row.generation) {
    if (!accept_missing) return SessionChanged();
    return recalled;
  }
  // Of what the context says already nothing is said again.
  std::unordered_set<std::string> present;
  for (const KeptMessage& kept : context.kept) {
    const ContextMessage& message = request.messages[kept.index];
    present.insert(WordsOf(message, kept));
    // Where roles alternate, each was a message once.
    if (kept.texts.has_value()) {
      present.insert(kept.texts->begin(), kept.texts->end());
    } else {
      for (const std::string_view text : message.texts) present.emplace(text);
    }
  }
  for (FoundItem& item : found.items) {
    if (recalled.size() == kMaxRecalled) break;
    MEMORYD_ASSIGN_OR_RETURN(MessageText text, bodies_.ReadMessage(item.message->body));
    if (item.message->token_count > tokens || !present.insert(std::move(text.text)).second) {
      continue;
    }
    tokens -= item.message->token_count;
    recalled.push_back(std::move(item));
  }
  return recalled;
}

}  // namespace memoryd
