#include "server/rpc/block_reply.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "core/blocks/block_knowledge.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/summary_block.h"
#include "core/blocks/vector_entry.h"
#include "core/reads/block_view.h"
#include "core/writes/write.h"
#include "server/wire/convert_config.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

v1::FactEnd ToProto(FactEnd end) {
  switch (end) {
    case FactEnd::kReplaced:
      return v1::FACT_END_REPLACED;
    case FactEnd::kCondensed:
      return v1::FACT_END_CONDENSED;
    case FactEnd::kEvicted:
      return v1::FACT_END_EVICTED;
    case FactEnd::kUndone:
      return v1::FACT_END_UNDONE;
    case FactEnd::kRetired:
      return v1::FACT_END_RETIRED;
    case FactEnd::kCorrected:
      return v1::FACT_END_CORRECTED;
    case FactEnd::kDeleted:
      return v1::FACT_END_DELETED;
  }
  return v1::FACT_END_UNSPECIFIED;
}

void Fill(const EmbeddingSource& source, v1::EmbeddingSource& proto) {
  proto.set_embedder(source.embedder);
  proto.set_worker(source.worker);
  proto.set_model(source.model);
  proto.set_dimensions(static_cast<std::int32_t>(source.size));
}

// One for each form of BlockKnowledge.
struct KnowledgeFiller {
  v1::GetBlockResponse& reply;

  void operator()(std::monostate /*nothing*/) const {}
  void operator()(const FactState& state) const {
    v1::KnownFacts& proto = *reply.mutable_facts();
    for (const Fact& fact : state.facts) Fill(fact, *proto.add_facts());
    for (const PastFact& past : state.history) {
      v1::PastFact& gone = *proto.add_history();
      Fill(past.fact, *gone.mutable_fact());
      gone.set_end(ToProto(past.end));
      gone.set_change(past.change);
      SetTime(gone.mutable_time(), past.time_us);
      gone.set_job_id(past.job_id);
      for (const std::int64_t id : past.by) gone.add_replaced_by(id);
      for (const std::int64_t id : past.brought) gone.add_brought(id);
      gone.set_writer(past.writer);
    }
  }
  void operator()(const SummaryState& state) const {
    v1::KnownSummary& proto = *reply.mutable_summary();
    proto.set_text(state.summary);
    for (const std::string& summary : state.earlier) proto.add_earlier(summary);
    proto.set_message_count(state.messages);
    proto.set_first_message_id(state.first_id);
    proto.set_last_message_id(state.last_id);
  }
  void operator()(const EntityState& state) const {
    v1::KnownEntities& proto = *reply.mutable_entities();
    for (const Entity& entity : state.entities) Fill(entity, *proto.add_entities());
    for (const PastEntity& past : state.history) {
      v1::PastEntity& gone = *proto.add_history();
      Fill(past.entity, *gone.mutable_entity());
      SetTime(gone.mutable_time(), past.time_us);
      gone.set_job_id(past.job_id);
    }
  }
  void operator()(const KnownEntries& entries) const {
    v1::KnownEntries& proto = *reply.mutable_entries();
    proto.set_entry_count(entries.count);
    if (entries.source.size > 0) Fill(entries.source, *proto.mutable_source());
    if (!entries.next.has_value()) return;
    v1::NextEmbeddings& made = *proto.mutable_next();
    Fill(entries.next->source, *made.mutable_source());
    made.set_done_count(entries.next->done - 1);
    made.set_total_count(entries.next_entry - 1);
  }
  void operator()(const KnownEmbeddings& embeddings) const {
    v1::KnownEmbeddings& proto = *reply.mutable_embeddings();
    Fill(embeddings.state.source, *proto.mutable_source());
    if (!embeddings.state.next.has_value()) return;
    const NextEmbeddings& next = *embeddings.state.next;
    v1::NextEmbeddings& made = *proto.mutable_next();
    Fill(next.source, *made.mutable_source());
    // Those before the first one have gone meanwhile.
    made.set_done_count(std::max<std::int64_t>(0, next.done - embeddings.first_position));
    made.set_total_count(embeddings.next_position - embeddings.first_position);
  }
  void operator()(const WorkerState& state) const { reply.set_worker_state(state.bytes); }
};

template <typename Reply>
std::string EditedFactReply(const WriteResult& result) {
  Reply reply;
  reply.set_revision(result.revision);
  Fill(result.edited_fact.fact, *reply.mutable_fact());
  reply.set_change(result.edited_fact.change);
  return reply.SerializeAsString();
}

}  // namespace

void Fill(const Fact& fact, v1::Fact& proto) {
  proto.set_fact_id(fact.id);
  proto.set_text(fact.text);
  for (const std::string& id : fact.evidence) proto.add_message_ids(id);
  // 0: nobody has said it.
  if (fact.first_us != 0) SetTime(proto.mutable_first_time(), fact.first_us);
  if (fact.last_us != 0) SetTime(proto.mutable_last_time(), fact.last_us);
  proto.set_seen_count(fact.seen);
  proto.set_trust(fact.trust);
  proto.set_writer(fact.writer);
  proto.set_change(fact.change);
}

void Fill(const Entity& entity, v1::Entity& proto) {
  proto.set_name(entity.name);
  proto.set_text(entity.line);
  for (const std::string& id : entity.evidence) proto.add_message_ids(id);
  SetTime(proto.mutable_first_time(), entity.first_us);
  SetTime(proto.mutable_last_time(), entity.last_us);
}

std::string GetBlockReply(const BlockView& view) {
  v1::GetBlockResponse reply;
  *reply.mutable_block() = ToProto(view.settings);
  reply.set_revision(view.revision);
  if (view.state != nullptr) {
    reply.set_jobs_made(view.state->next - 1);
    reply.set_jobs_ended(view.state->done);
    SetTime(reply.mutable_update_time(), view.state->update_us);
  }
  std::visit(KnowledgeFiller{reply}, view.knowledge.of_kind);
  return reply.SerializeAsString();
}

std::string ListBlockEntriesReply(const EntryPage& page, std::string_view next_page_token) {
  v1::ListBlockEntriesResponse reply;
  for (const Entry& entry : page.entries) {
    v1::BlockEntry& proto = *reply.add_entries();
    proto.set_position(entry.position);
    proto.set_text(entry.entry.text);
    proto.set_metadata_json(entry.entry.metadata_json);
    for (const EntrySource& source : entry.entry.sources) {
      v1::EntrySource& from = *proto.add_sources();
      from.set_message_id(source.message_id);
      from.set_position(source.position);
    }
    proto.set_dimensions(static_cast<std::int32_t>(entry.entry.vector.size()));
    SetTime(proto.mutable_create_time(), entry.ingest_us);
  }
  reply.set_next_page_token(std::string(next_page_token));
  return reply.SerializeAsString();
}

std::string UndoBlockChangeReply(const WriteResult& result) {
  v1::UndoBlockChangeResponse reply;
  reply.set_revision(result.revision);
  for (const Fact& fact : result.facts) Fill(fact, *reply.add_facts());
  return reply.SerializeAsString();
}

std::string AddFactReply(const WriteResult& result) {
  return EditedFactReply<v1::AddFactResponse>(result);
}

std::string UpdateFactReply(const WriteResult& result) {
  return EditedFactReply<v1::UpdateFactResponse>(result);
}

std::string DeleteFactReply(const WriteResult& result) {
  return EditedFactReply<v1::DeleteFactResponse>(result);
}

}  // namespace memoryd
