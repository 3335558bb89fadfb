#include "core/blocks/embedding_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace memoryd {
namespace {

using nlohmann::json;

// Of a vector: what many messages have is kept in memory.
constexpr std::size_t kMaxSize = 8192;

}  // namespace

std::string EmbeddingState::ToJson() const {
  const json object = {{"model", model}, {"size", size}, {"cuts", cuts}};
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<EmbeddingState> EmbeddingState::FromJson(std::string_view text) {
  EmbeddingState state;
  if (text.empty()) return state;
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    object.at("model").get_to(state.model);
    object.at("size").get_to(state.size);
    object.at("cuts").get_to(state.cuts);
  } catch (const json::exception&) {
    return absl::DataLossError("the state of a session's embeddings can't be read back");
  }
  return state;
}

absl::Status EmbeddingState::Accepts(std::size_t vector_size, std::string_view by_model) const {
  if (vector_size > kMaxSize) {
    return Error(
        absl::StatusCode::kFailedPrecondition, "EMBEDDING_SIZE",
        fmt::format("the embedder's vectors have {} numbers, more than {}", vector_size, kMaxSize));
  }
  if (size != 0 && vector_size != size) {
    return Error(absl::StatusCode::kFailedPrecondition, "EMBEDDING_SIZE",
                 fmt::format("the session's embeddings have {} numbers, the embedder's now {}: "
                             "clear config.retrieval.embedder and set it again, and all are made "
                             "anew",
                             size, vector_size));
  }
  if (!model.empty() && !by_model.empty() && by_model != model) {
    return Error(absl::StatusCode::kFailedPrecondition, "EMBEDDING_MODEL",
                 fmt::format("the session's embeddings are by model {}, the embedder's now by {}: "
                             "clear config.retrieval.embedder and set it again, and all are made "
                             "anew",
                             model, by_model));
  }
  return absl::OkStatus();
}

}  // namespace memoryd
