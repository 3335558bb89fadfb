#include "core/blocks/embedding_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/entry_log.h"
#include "core/llm/model.h"
#include "core/model/job.h"

namespace memoryd {
namespace {

using nlohmann::json;

json ToObject(const EmbeddingSource& source) {
  json object = {{"model", source.model}, {"size", source.size}};
  if (!source.embedder.empty()) object["embedder"] = source.embedder;
  if (!source.worker.empty()) object["worker"] = source.worker;
  return object;
}

// Throws as `json` does.
void Read(const json& object, EmbeddingSource& source) {
  object.at("model").get_to(source.model);
  object.at("size").get_to(source.size);
  source.embedder = object.value("embedder", "");
  source.worker = object.value("worker", "");
}

// How an error calls it.
std::string NameOf(const EmbeddingSource& source) {
  if (!source.model.empty()) return fmt::format("model {}", source.model);
  return source.worker.empty()
             ? fmt::format("embedder {}", source.embedder)
             : fmt::format("embedder {} of worker {}", source.embedder, source.worker);
}

}  // namespace

absl::Status EmbeddingSource::Accepts(const EmbeddingSource& other) const {
  if (size != other.size) {
    return Error(absl::StatusCode::kFailedPrecondition, "EMBEDDING_SIZE",
                 fmt::format("the vectors that are stored have {} numbers, the embedder's now {}",
                             size, other.size));
  }
  const bool say_models = !model.empty() && !other.model.empty();
  const bool known = !embedder.empty() && !other.embedder.empty();
  const bool same = say_models ? model == other.model : !known || other.IsNamed(worker, embedder);
  if (same) return absl::OkStatus();
  return Error(absl::StatusCode::kFailedPrecondition, "EMBEDDING_MODEL",
               fmt::format("the vectors that are stored are by {}, the embedder's now by {}",
                           NameOf(*this), NameOf(other)));
}

absl::Status CheckEmbeddingSize(std::size_t size) {
  if (size <= kMaxEmbeddingSize) return absl::OkStatus();
  return Error(
      absl::StatusCode::kFailedPrecondition, "EMBEDDING_SIZE",
      fmt::format("the embedder's vectors have {} numbers, more than {}", size, kMaxEmbeddingSize));
}

std::string EmbeddingState::ToJson() const {
  json object = ToObject(source);
  object["cuts"] = cuts;
  if (look_again != 0) object["look_again"] = look_again;
  log.WriteTo(object);
  if (next.has_value()) {
    json& made = object["next"] = ToObject(next->source);
    made["generation"] = next->generation;
    made["next_entry"] = next->next_entry;
    made["done"] = next->done;
    made["caught_up"] = next->caught_up;
    if (next->job != 0) made["job"] = next->job;
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

EmbeddingState EmbeddingState::FromJsonOrNone(std::string_view json) {
  return FromJson(json).value_or(EmbeddingState());
}

absl::StatusOr<EmbeddingState> EmbeddingState::FromJson(std::string_view text) {
  EmbeddingState state;
  if (text.empty()) return state;
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    Read(object, state.source);
    object.at("cuts").get_to(state.cuts);
    state.look_again = object.value("look_again", std::int64_t{0});
    state.log = EntryLog::ReadFrom(object);
    if (const auto made = object.find("next"); made != object.end()) {
      NextEmbeddings& next = state.next.emplace();
      Read(*made, next.source);
      made->at("generation").get_to(next.generation);
      made->at("next_entry").get_to(next.next_entry);
      made->at("done").get_to(next.done);
      made->at("caught_up").get_to(next.caught_up);
      next.job = made->value("job", std::int64_t{0});
    }
  } catch (const json::exception&) {
    return absl::DataLossError("the state of a block's vectors can't be read back");
  }
  return state;
}

std::int64_t CountEntries(const BlockState& block) {
  const std::int64_t ever = block.next_entry - 1;
  const auto state = EmbeddingState::FromJson(block.entry_generation == 0 ? "" : block.state);
  return state.ok() ? state->log.count.value_or(ever) : ever;
}

absl::StatusOr<bool> EmbeddingState::Answered(const EmbeddingSource& by) {
  MEMORYD_RETURN_IF_ERROR(CheckEmbeddingSize(by.size));
  EmbeddingSource& made = next.has_value() ? next->source : source;
  if (made.size == 0 || made.Accepts(by).ok()) {
    const std::string model = made.model;
    made = by;
    if (made.model.empty()) made.model = model;
    return true;
  }
  // Written before it was kept: then it is the one that the session has had since.
  if (source.embedder.empty()) {
    source.embedder = by.embedder;
    source.worker = by.worker;
  }
  const bool is_old =
      next.has_value() && source.IsNamed(by.worker, by.embedder) && source.Accepts(by).ok();
  if (is_old) {
    next.reset();
    look_again = 1;
  } else {
    next.emplace().source = by;
  }
  return false;
}

absl::StatusOr<bool> EmbeddingState::AnsweredEntries(const EmbeddingSource& by) {
  const std::int64_t without_vector = look_again;
  MEMORYD_ASSIGN_OR_RETURN(const bool counts, Answered(by));
  look_again = without_vector;
  if (next.has_value() || (counts && look_again == 0)) return counts;
  next.emplace().source = by;
  return false;
}

std::optional<EmbeddingState> StateWithNext(std::string_view state) {
  // Between quotes of JSON the same would have backslashes.
  if (state.find("\"next\":{") == std::string_view::npos) return std::nullopt;
  auto read = EmbeddingState::FromJson(state);
  if (!read.ok() || !read->next.has_value()) return std::nullopt;
  return *std::move(read);
}

absl::StatusOr<std::int64_t> EntriesDueUs(const BlockState& block, std::int64_t ttl_us,
                                          std::int64_t now_us) {
  std::int64_t due_us = 0;
  if (block.entry_generation == 0 || (ttl_us == 0 && !MayHideEntries(block.state))) return due_us;
  MEMORYD_ASSIGN_OR_RETURN(const EmbeddingState known, EmbeddingState::FromJson(block.state));
  const EntryLog& log = known.log;
  if (log.HasMarks()) due_us = std::max(now_us, log.not_before_us);
  if (ttl_us > 0 && log.count != 0) {
    const std::int64_t old_us = log.oldest_us == 0 ? now_us : log.oldest_us + ttl_us;
    due_us = due_us == 0 ? old_us : std::min(due_us, old_us);
  }
  return due_us;
}

}  // namespace memoryd
