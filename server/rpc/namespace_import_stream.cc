#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/engine/engine.h"
#include "core/lifecycle/namespace_import.h"
#include "core/storage/item_store.h"
#include "memoryd/v1/item_service.pb.h"
#include "server/rpc/import_stream.h"
#include "server/rpc/item_reply.h"
#include "server/rpc/parse_request.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/write_only_reply.h"
#include "server/wire/convert.h"
#include "server/wire/convert_item.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

std::int64_t NowMicros() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

class NamespaceImportStream final : public ImportStream {
 public:
  NamespaceImportStream(Engine& engine, std::size_t item_bytes, const CallEnvironment& environment,
                        RpcCallPtr rpc)
      : ImportStream(environment, Method::kImportNamespace, Method::kPutItem, std::move(rpc)),
        engine_(engine),
        item_bytes_(item_bytes) {}
  ~NamespaceImportStream() override { EndCancelled(); }

 private:
  struct ParsedRequest {
    MemoryBudget::Hold hold;
    v1::ImportNamespaceRequest request;
  };

  std::shared_ptr<NamespaceImportStream> Self() {
    return std::static_pointer_cast<NamespaceImportStream>(shared_from_this());
  }

  absl::Status Take(std::string_view bytes) override {
    const auto parsed = std::make_shared<ParsedRequest>();
    v1::ImportNamespaceRequest& request = parsed->request;
    MEMORYD_ASSIGN_OR_RETURN(parsed->hold, ParseRequest(rpc(), bytes, request));
    const bool begins = request.step_case() == v1::ImportNamespaceRequest::kBegin;
    if (begins != (import_ == nullptr)) {
      return InvalidField("begin", "must be set in the first request of a stream, and there alone");
    }
    switch (request.step_case()) {
      case v1::ImportNamespaceRequest::kBegin: {
        MEMORYD_ASSIGN_OR_RETURN(NamespaceImportRequest import,
                                 FromProto(request.begin(), caller().tenant));
        path_ = import.key.path;
        import_ = engine_.namespaces().Import(std::move(import));
        import_->Begin([self = Self()](absl::Status status) {
          // Else there is nothing of it to be dropped.
          self->begun_ = status.ok();
          self->GoOn(std::move(status));
        });
        break;
      }
      case v1::ImportNamespaceRequest::kItems: {
        ImportedNamespaceItems items;
        MEMORYD_ASSIGN_OR_RETURN(items.items,
                                 FromProto(*request.mutable_items(), NowMicros(), item_bytes_));
        MEMORYD_RETURN_IF_ERROR(parsed->hold.Grow(DecodedBytes(items.items.size())));
        items.keep_alive = parsed;
        import_->Add(std::move(items),
                     [self = Self()](absl::Status status) { self->GoOn(std::move(status)); });
        break;
      }
      case v1::ImportNamespaceRequest::kEnd:
        import_->Publish(
            request.end().item_count(),
            [self = Self()](const absl::StatusOr<NamespaceRow>& row) { self->Answer(row); });
        break;
      case v1::ImportNamespaceRequest::STEP_NOT_SET:
        return InvalidField("step", "one of begin, items and end must be set");
    }
    return absl::OkStatus();
  }

  void Drop() override {
    if (begun_) import_->Drop();
  }
  std::string name_space() const override {
    std::string joined;
    for (const std::string_view name : path_.names()) joined.append(name).push_back('/');
    return joined;
  }

  void Answer(const absl::StatusOr<NamespaceRow>& row) {
    v1::ImportNamespaceResponse response;
    absl::Status status = row.status();
    if (status.ok()) status = Fill(path_, *row, *response.mutable_namespace_());
    if (!status.ok()) {
      End(status, {});
      return;
    }
    std::string reply = response.SerializeAsString();
    if (!caller().rights.Has(Right::kRead)) {
      reply = WithoutStoredText(Method::kImportNamespace, std::move(reply));
    }
    End(absl::OkStatus(), std::move(reply));
  }

  Engine& engine_;
  const std::size_t item_bytes_;
  NamespacePath path_;
  std::shared_ptr<NamespaceImport> import_;  // Null before the first request.
  bool begun_ = false;
};

}  // namespace

void RunNamespaceImport(Engine& engine, std::size_t item_bytes, const CallEnvironment& environment,
                        RpcCallPtr rpc) {
  std::make_shared<NamespaceImportStream>(engine, item_bytes, environment, std::move(rpc))->Begin();
}

}  // namespace memoryd
