#include "core/storage/postgres/namespace_staging.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/items/item.h"
#include "core/items/namespace_path.h"
#include "core/storage/item_rows.h"
#include "core/storage/item_store.h"
#include "core/storage/postgres/batch_connection.h"
#include "core/storage/postgres/batch_writer.h"
#include "core/storage/postgres/item_writer.h"
#include "core/storage/postgres/namespace_queries.h"
#include "core/storage/postgres/namespace_writer.h"
#include "core/storage/postgres/query_connection.h"

namespace memoryd {
namespace {

using Parameters = std::vector<std::string>;

std::string Bits(std::uint64_t number) {
  return std::to_string(std::bit_cast<std::int64_t>(number));
}

absl::StatusOr<QueryResult> Run(const CommitContext& context, const Query& query,
                                const Parameters& parameters) {
  return RunItemQuery(context.readers, context.dropper, query, parameters, context.write_deadline);
}

// The columns of items, each as an array.
void AddColumns(std::span<const Item> items, Parameters& parameters) {
  const auto add = [&](const auto& value_of) {
    std::vector<std::string> column;
    column.reserve(items.size());
    for (const Item& item : items) column.push_back(value_of(item));
    parameters.push_back(ArrayParameter(column));
  };
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  add([](const Item& item) { return item.key; });
  add([&](const Item& item) { return number(item.version); });
  add([&](const Item& item) { return number(item.create_us); });
  add([&](const Item& item) { return number(item.update_us); });
  add([&](const Item& item) { return number(item.expire_us); });
  add([&](const Item& item) { return number(item.ttl_us); });
  add([&](const Item& item) { return number(CountedBytes(item.key, item.content)); });
  add([&](const Item& item) { return number(static_cast<std::int64_t>(item.content.kind)); });
  add([](const Item& item) { return std::string(item.content.untrusted ? "true" : "false"); });
  add([&](const Item& item) { return number(ItemChecksum(item.key, item.content)); });
  add([](const Item& item) { return item.content.mime_type; });
  add([](const Item& item) { return item.content.writer; });
  // Neither is ever empty where it is there.
  add([](const Item& item) { return BytesParameter(item.content.search.value_or("")); });
  add([](const Item& item) { return BytesParameter(EncodeVector(item.content.vector)); });
  add([](const Item& item) { return BytesParameter(item.content.value); });
}

}  // namespace

absl::StatusOr<std::optional<StagedNamespace>> StageNamespaceRow(const CommitContext& context,
                                                                 const NamespaceKey& key,
                                                                 std::int64_t now_us) {
  StagedNamespace staged{key, NewNamespaceGeneration(), FirstNamespaceVersion(now_us)};
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult found,
                           Run(context, kStageNamespace,
                               {key.tenant, DigestParameter(key), StagingId(staged.generation),
                                std::to_string(StagingTime(now_us))}));
  if (found.Int(0, 0) == 0) return std::nullopt;
  staged.first_version = std::max(staged.first_version, found.Int(0, 1) + 1);
  return std::optional<StagedNamespace>(std::move(staged));
}

absl::StatusOr<bool> StageItemRows(const CommitContext& context, const StagedNamespace& staged,
                                   std::span<const Item> items, std::int64_t now_us) {
  Parameters parameters = {staged.key.tenant, DigestParameter(staged.key),
                           StagingId(staged.generation), Bits(staged.generation),
                           std::to_string(StagingTime(now_us))};
  AddColumns(items, parameters);
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult stored, Run(context, kStageItems, parameters));
  return stored.Int(0, 0) > 0;
}

absl::StatusOr<bool> PublishNamespaceRow(const CommitContext& context,
                                         const StagedNamespace& staged, const NamespaceRow& row) {
  MEMORYD_ASSIGN_OR_RETURN(
      const BatchReply reply,
      RunDurably(context, kPublishNamespace,
                 {staged.key.tenant, DigestParameter(staged.key), StagingId(staged.generation),
                  staged.key.path.stored(), Bits(staged.generation), std::to_string(row.version),
                  std::to_string(row.vector_size), std::to_string(row.ttl_us),
                  std::to_string(row.create_us), std::to_string(row.update_us), row.subject,
                  BytesParameter(row.config), std::to_string(staged.first_version)}));
  return !reply.numbers.empty() && reply.numbers.front() > 0;
}

absl::Status DropStagedNamespace(const CommitContext& context, const StagedNamespace& staged) {
  return Run(context, kDropNamespace,
             {staged.key.tenant, DigestParameter(staged.key), StagingId(staged.generation),
              Bits(staged.generation)})
      .status();
}

}  // namespace memoryd
