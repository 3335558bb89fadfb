// The RPCs of this server, as far as one needs to know them before looking at the request.
#ifndef MEMORYD_SERVER_WIRE_METHOD_H_
#define MEMORYD_SERVER_WIRE_METHOD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace memoryd {

// What a credential may do within its tenant. kNone: any credential will do.
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

enum class Method : std::uint8_t {
  kPut,
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
  kGetServerInfo,
  kAttach,
};

struct MethodTraits {
  std::string_view name;
  Right right;
  // Takes memory in proportion to the request or the session: refused where that is short.
  bool takes_memory = false;
};

// In the order of Method.
inline constexpr std::array<MethodTraits, 34> kMethods = {{
    {"Put", Right::kWrite, true},
    {"Get", Right::kRead},
    {"GetAll", Right::kRead},
    {"Set", Right::kWrite, true},
    {"Reset", Right::kWrite},
    {"Query", Right::kRead, true},
    {"UpdateContext", Right::kRead, true},
    {"StreamAll", Right::kRead},
    {"UpdateMessage", Right::kWrite, true},
    {"DeleteMessage", Right::kWrite},
    {"GetContent", Right::kRead},
    {"UpdateContent", Right::kWrite, true},
    {"DeleteContent", Right::kWrite},
    {"CreateSession", Right::kWrite, true},
    {"GetSession", Right::kRead},
    {"ListSessions", Right::kRead},
    {"UpdateSession", Right::kWrite, true},
    {"DeleteSession", Right::kWrite},
    {"ForkSession", Right::kWrite, true},
    {"ImportSession", Right::kAdmin, true},
    {"EraseSubject", Right::kWrite},
    {"ListJobs", Right::kRead},
    {"GetJob", Right::kRead},
    {"RetryJob", Right::kWrite},
    {"CancelJob", Right::kWrite},
    {"GetUsage", Right::kRead},
    {"GetBlock", Right::kRead},
    {"ListBlockEntries", Right::kRead},
    {"UndoBlockChange", Right::kWrite},
    {"AddFact", Right::kWrite, true},
    {"UpdateFact", Right::kWrite},
    {"DeleteFact", Right::kWrite},
    {"GetServerInfo", Right::kNone},
    {"Attach", Right::kWorker},
}};

constexpr const MethodTraits& TraitsOf(Method method) {
  return kMethods[static_cast<std::size_t>(method)];
}

// The service of memoryd.v1 that has it.
constexpr std::string_view ServiceOf(Method method) {
  if (method <= Method::kDeleteContent) return "MemoryService";
  if (method <= Method::kEraseSubject) return "SessionService";
  if (method <= Method::kGetUsage) return "JobService";
  if (method <= Method::kDeleteFact) return "BlockService";
  return method == Method::kGetServerInfo ? "ServerService" : "WorkerService";
}

// `/memoryd.v1.MemoryService/Put`.
inline std::string PathOf(Method method) {
  return std::string("/memoryd.v1.")
      .append(ServiceOf(method))
      .append("/")
      .append(TraitsOf(method).name);
}

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_METHOD_H_
