// The RPCs of this server, as far as one needs to know them before looking at the request.
#ifndef MEMORYD_SERVER_WIRE_METHOD_H_
#define MEMORYD_SERVER_WIRE_METHOD_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace memoryd {

// What a credential may do within its tenant. kNone: any credential will do, as far as the method
// knows by its headers.
enum class Right : std::uint8_t { kNone, kRead, kWrite, kAdmin, kWorker };

// As files, tokens and messages name them, in the order of Right.
inline constexpr std::array<std::string_view, 5> kRights = {"none", "read", "write", "admin",
                                                            "worker"};

constexpr std::string_view NameOf(Right right) { return kRights[static_cast<std::size_t>(right)]; }

// One that can be granted; nullopt for another word.
constexpr std::optional<Right> RightOf(std::string_view name) {
  for (std::size_t i = 1; i < kRights.size(); ++i) {
    if (kRights[i] == name) return static_cast<Right>(i);
  }
  return std::nullopt;
}

// What a method reaches, and so what a caller of one subject may do with it (docs/adr/0064).
enum class Reach : std::uint8_t {
  kTenant,     // More than one subject's, or who knows: such a caller is refused.
  kSession,    // The session that the request names.
  kNamespace,  // Namespaces, of which ItemView and ItemBatch::subject leave it those of its
               // subject.
  kSubject,    // The subject that the request names.
  kParts,      // What its parts reach, each a call of its own.
  kServer,     // Nobody's memory.
};

// Each has a row in kMethods, in this order.
enum class Method : std::uint8_t {
  kPut,
  kPutBatch,
  kGet,
  kGetAll,
  kSet,
  kReset,
  kQuery,
  kUpdateContext,
  kStreamAll,
  kUpdateMessage,
  kDeleteMessage,
  kGetContent,
  kUpdateContent,
  kDeleteContent,
  kCreateSession,
  kGetSession,
  kListSessions,
  kWatchSession,
  kUpdateSession,
  kDeleteSession,
  kForkSession,
  kImportSession,
  kEraseSubject,
  kListJobs,
  kGetJob,
  kRetryJob,
  kCancelJob,
  kGetUsage,
  kGetBlock,
  kListBlockEntries,
  kUndoBlockChange,
  kAddFact,
  kUpdateFact,
  kDeleteFact,
  kPutItem,
  kGetItem,
  kDeleteItem,
  kListItems,
  kSearchItems,
  kBatchItems,
  kGetNamespace,
  kUpdateNamespace,
  kListNamespaces,
  kCopyNamespace,
  kDeleteNamespace,
  kImportNamespace,
  kGetServerInfo,
  kAttach,
};

struct MethodTraits {
  Method method;
  std::string_view service;  // Of the package kPackage.
  std::string_view name;     // As its proto has it.
  Right right;
  // Takes memory in proportion to the request or the session: refused where that is short.
  bool takes_memory = false;
  // A new method is refused to callers of one subject until it says otherwise.
  Reach reach = Reach::kTenant;
};

inline constexpr std::string_view kPackage = "memoryd.v1";

// A test holds them against the services in proto/memoryd/v1.
inline constexpr auto kMethods = std::to_array<MethodTraits>({
    {Method::kPut, "MemoryService", "Put", Right::kWrite, true, Reach::kSession},
    {Method::kPutBatch, "MemoryService", "PutBatch", Right::kWrite, true, Reach::kParts},
    {Method::kGet, "MemoryService", "Get", Right::kRead, false, Reach::kSession},
    {Method::kGetAll, "MemoryService", "GetAll", Right::kRead, false, Reach::kSession},
    {Method::kSet, "MemoryService", "Set", Right::kWrite, true, Reach::kSession},
    {Method::kReset, "MemoryService", "Reset", Right::kWrite, false, Reach::kSession},
    {Method::kQuery, "MemoryService", "Query", Right::kRead, true, Reach::kSession},
    {Method::kUpdateContext, "MemoryService", "UpdateContext", Right::kRead, true, Reach::kSession},
    {Method::kStreamAll, "MemoryService", "StreamAll", Right::kRead, false, Reach::kSession},
    {Method::kUpdateMessage, "MemoryService", "UpdateMessage", Right::kWrite, true,
     Reach::kSession},
    {Method::kDeleteMessage, "MemoryService", "DeleteMessage", Right::kWrite, false,
     Reach::kSession},
    {Method::kGetContent, "MemoryService", "GetContent", Right::kRead, false, Reach::kSession},
    {Method::kUpdateContent, "MemoryService", "UpdateContent", Right::kWrite, true,
     Reach::kSession},
    {Method::kDeleteContent, "MemoryService", "DeleteContent", Right::kWrite, false,
     Reach::kSession},
    {Method::kCreateSession, "SessionService", "CreateSession", Right::kWrite, true,
     Reach::kSession},
    {Method::kGetSession, "SessionService", "GetSession", Right::kRead, false, Reach::kSession},
    {Method::kListSessions, "SessionService", "ListSessions", Right::kRead, false, Reach::kSubject},
    {Method::kWatchSession, "SessionService", "WatchSession", Right::kRead, false, Reach::kSession},
    {Method::kUpdateSession, "SessionService", "UpdateSession", Right::kWrite, true,
     Reach::kSession},
    {Method::kDeleteSession, "SessionService", "DeleteSession", Right::kWrite, false,
     Reach::kSession},
    {Method::kForkSession, "SessionService", "ForkSession", Right::kWrite, true, Reach::kSession},
    {Method::kImportSession, "SessionService", "ImportSession", Right::kAdmin, true},
    {Method::kEraseSubject, "SessionService", "EraseSubject", Right::kWrite, false,
     Reach::kSubject},
    {Method::kListJobs, "JobService", "ListJobs", Right::kRead, false, Reach::kSession},
    {Method::kGetJob, "JobService", "GetJob", Right::kRead, false, Reach::kSession},
    {Method::kRetryJob, "JobService", "RetryJob", Right::kWrite, false, Reach::kSession},
    {Method::kCancelJob, "JobService", "CancelJob", Right::kWrite, false, Reach::kSession},
    {Method::kGetUsage, "JobService", "GetUsage", Right::kRead},
    {Method::kGetBlock, "BlockService", "GetBlock", Right::kRead, false, Reach::kSession},
    {Method::kListBlockEntries, "BlockService", "ListBlockEntries", Right::kRead, false,
     Reach::kSession},
    {Method::kUndoBlockChange, "BlockService", "UndoBlockChange", Right::kWrite, false,
     Reach::kSession},
    {Method::kAddFact, "BlockService", "AddFact", Right::kWrite, true, Reach::kSession},
    {Method::kUpdateFact, "BlockService", "UpdateFact", Right::kWrite, false, Reach::kSession},
    {Method::kDeleteFact, "BlockService", "DeleteFact", Right::kWrite, false, Reach::kSession},
    {Method::kPutItem, "ItemService", "PutItem", Right::kWrite, true, Reach::kNamespace},
    {Method::kGetItem, "ItemService", "GetItem", Right::kRead, false, Reach::kNamespace},
    {Method::kDeleteItem, "ItemService", "DeleteItem", Right::kWrite, false, Reach::kNamespace},
    {Method::kListItems, "ItemService", "ListItems", Right::kRead, false, Reach::kNamespace},
    {Method::kSearchItems, "ItemService", "SearchItems", Right::kRead, true, Reach::kNamespace},
    {Method::kBatchItems, "ItemService", "BatchItems", Right::kNone, true, Reach::kNamespace},
    {Method::kGetNamespace, "ItemService", "GetNamespace", Right::kRead, false, Reach::kNamespace},
    {Method::kUpdateNamespace, "ItemService", "UpdateNamespace", Right::kWrite, false,
     Reach::kNamespace},
    {Method::kListNamespaces, "ItemService", "ListNamespaces", Right::kRead, false,
     Reach::kNamespace},
    {Method::kCopyNamespace, "ItemService", "CopyNamespace", Right::kWrite, true,
     Reach::kNamespace},
    {Method::kDeleteNamespace, "ItemService", "DeleteNamespace", Right::kWrite, false,
     Reach::kNamespace},
    {Method::kImportNamespace, "ItemService", "ImportNamespace", Right::kAdmin, true},
    {Method::kGetServerInfo, "ServerService", "GetServerInfo", Right::kNone, false, Reach::kServer},
    {Method::kAttach, "WorkerService", "Attach", Right::kWorker},
});

constexpr bool IsEachRowAtItsMethod() {
  for (std::size_t i = 0; i < kMethods.size(); ++i) {
    if (kMethods[i].method != static_cast<Method>(i)) return false;
  }
  return true;
}
static_assert(IsEachRowAtItsMethod(), "kMethods must have a row for each Method, in its order");

constexpr const MethodTraits& TraitsOf(Method method) {
  return kMethods[static_cast<std::size_t>(method)];
}

// `memoryd.v1.MemoryService`.
inline std::string ServiceOf(const MethodTraits& method) {
  return std::string(kPackage).append(".").append(method.service);
}

// `/memoryd.v1.MemoryService/Put`.
inline std::string PathOf(const MethodTraits& method) {
  return std::string("/").append(ServiceOf(method)).append("/").append(method.name);
}

// The full names of the services that have these methods, each once.
inline std::vector<std::string> ServicesOfMethods() {
  std::vector<std::string> services;
  for (const MethodTraits& method : kMethods) {
    std::string service = ServiceOf(method);
    if (std::find(services.begin(), services.end(), service) == services.end()) {
      services.push_back(std::move(service));
    }
  }
  return services;
}

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_METHOD_H_
