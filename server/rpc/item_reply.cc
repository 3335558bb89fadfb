#include "server/rpc/item_reply.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/items/item.h"
#include "core/items/namespace_config.h"
#include "core/items/namespace_path.h"
#include "core/reads/item_reads.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_store.h"
#include "core/writes/items/item_call.h"
#include "server/wire/convert_item.h"
#include "server/wire/duration.h"
#include "server/wire/rpc_status.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

void FillSearch(std::string_view stored, v1::ItemSearch& search) {
  const auto paths = nlohmann::json::parse(stored.begin(), stored.end(), nullptr, false);
  for (const auto& path : paths) {
    if (path.is_string()) search.add_fields(path.get<std::string>());
  }
}

void FillPath(const NamespacePath& path, Names& names) {
  for (const std::string_view name : path.names()) names.Add(std::string(name));
}

std::int64_t ToNumber(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The operation that does the write of this index.
int OperationOf(std::int64_t write, const std::vector<bool>& is_get) {
  // Of a request that was refused it is the operation's already.
  if (is_get.empty()) return static_cast<int>(write);
  for (std::size_t i = 0; i < is_get.size(); ++i) {
    if (!is_get[i] && write-- == 0) return static_cast<int>(i);
  }
  return 0;
}

}  // namespace

void Fill(const NamespacePath& path, Item item, v1::Item& proto) {
  FillPath(path, *proto.mutable_namespace_());
  proto.set_key(std::move(item.key));
  ItemContent& content = item.content;
  const bool is_json = content.kind == ItemValueKind::kJson;
  proto.set_mime_type(is_json                     ? kJsonType
                      : content.mime_type.empty() ? std::string(kOctetsType)
                                                  : std::move(content.mime_type));
  if (is_json) {
    // No JSON value is empty: this one was not read.
    if (!content.value.empty()) proto.set_json(std::move(content.value));
  } else {
    proto.set_bytes_value(std::move(content.value));
  }
  proto.set_version(item.version);
  SetTime(proto.mutable_create_time(), item.create_us);
  SetTime(proto.mutable_update_time(), item.update_us);
  if (item.expire_us != 0) SetTime(proto.mutable_expire_time(), item.expire_us);
  if (item.ttl_us != 0) SetDuration(*proto.mutable_ttl(), item.ttl_us);
  if (content.search.has_value()) FillSearch(*content.search, *proto.mutable_search());
  proto.mutable_vector()->Add(content.vector.begin(), content.vector.end());
  proto.set_writer(std::move(content.writer));
  proto.set_untrusted(content.untrusted);
}

void Fill(const ItemWriteResult& result, std::int64_t update_us, v1::ItemWrite& proto) {
  proto.set_version(result.version);
  SetTime(proto.mutable_create_time(), result.create_us);
  SetTime(proto.mutable_update_time(), update_us);
  if (result.expire_us != 0) SetTime(proto.mutable_expire_time(), result.expire_us);
}

absl::Status Fill(const NamespacePath& path, const NamespaceRow& row, v1::Namespace& proto) {
  MEMORYD_ASSIGN_OR_RETURN(const NamespaceConfig config, ConfigOf(row));
  FillPath(path, *proto.mutable_namespace_());
  if (!config.subject.empty()) proto.mutable_config()->set_subject(config.subject);
  if (config.ttl_us != 0)
    SetDuration(*proto.mutable_config()->mutable_default_ttl(), config.ttl_us);
  proto.mutable_config()->set_refresh_ttl(config.refresh_ttl);
  FillSearch(config.search, *proto.mutable_config()->mutable_search());
  proto.set_item_count(row.item_count);
  proto.set_item_bytes(row.item_bytes);
  proto.set_vector_size(static_cast<std::int32_t>(row.vector_size));
  proto.set_version(row.version);
  SetTime(proto.mutable_create_time(), row.create_us);
  SetTime(proto.mutable_update_time(), row.update_us);
  return absl::OkStatus();
}

void Fill(const CheckedBatch& batch, const ItemsWritten& written,
          std::vector<std::optional<Item>>& items, std::size_t first,
          v1::ItemBatchOutcome& outcome) {
  std::size_t write = 0;
  outcome.set_replayed(written.replayed);
  for (const bool is_get : batch.is_get) {
    v1::ItemOperationResult& result = *outcome.add_results();
    if (is_get) {
      v1::GetItemResponse& get = *result.mutable_get();
      std::optional<Item>& item = items[first++];
      if (item.has_value()) Fill(batch.batch.key.path, *std::move(item), *get.mutable_item());
      continue;
    }
    const ItemWriteResult& done = written.writes[write];
    // The batch itself has gone to be written.
    if (batch.is_put[write++]) {
      Fill(done, written.update_us, *result.mutable_put());
    } else {
      result.mutable_delete_()->set_existed(done.existed);
    }
  }
}

void Fill(const absl::Status& status, const std::vector<bool>& is_get, v1::ItemError& error) {
  FillError(status, error);
  for (const auto& [name, value] : ErrorDetails(status)) {
    if (name == "operation") error.set_operation(OperationOf(ToNumber(value), is_get));
    if (name == "version") error.set_version(ToNumber(value));
  }
}

}  // namespace memoryd
