// HTTP requests, many at once, on one thread.
#ifndef MEMORYD_CORE_LLM_HTTP_CLIENT_H_
#define MEMORYD_CORE_LLM_HTTP_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/llm/address_rules.h"

namespace memoryd {

struct HttpRequest {
  std::string url;                   // http or https.
  std::vector<std::string> headers;  // `Name: value`.
  std::shared_ptr<const std::string> body;
  std::chrono::milliseconds connect_timeout{0};
  std::chrono::steady_clock::time_point deadline;
  std::size_t max_answer_bytes = 0;
  // Grows by twice what is read of the answer, for what is made of it.
  MemoryBudget::Hold memory;
  AddressRules addresses;
  std::string proxy;    // Empty: none, whatever the environment says.
  std::string ca_file;  // Empty: the system's certificate authorities.
};

struct HttpAnswer {
  // OK: the server has answered, with whatever `code`. Else, without URL, header or body:
  //   UNAVAILABLE          unreachable, or cut off
  //   DEADLINE_EXCEEDED    no whole answer in time
  //   RESOURCE_EXHAUSTED   the answer is too large, or `MEMORY_SHORT`
  //   FAILED_PRECONDITION  the address is not allowed, or the server's certificate is no good
  //   DATA_LOSS            what came is not HTTP
  //   CANCELLED            the client stops
  absl::Status status;
  int code = 0;
  std::string body;           // Of a code from 200 to 299.
  std::string retry_after;    // The header; empty for none.
  bool sent = false;          // Whether any of the request has reached a server.
  MemoryBudget::Hold memory;  // The request's.
};

// Never follows a redirect, never accepts an encoding, keeps connections for later requests.
class HttpClient {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using TimerId = std::pair<Time, std::uint64_t>;
  using Done = std::function<void(HttpAnswer)>;

  HttpClient();
  // Stops.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Runs `function` on the client's thread, soon. False, and `function` never runs, once the client
  // has stopped. Any thread.
  bool Run(std::function<void()> function);

  // Ends all requests with CANCELLED, runs all timers at once, and returns when nothing is left.
  // Not on the client's thread.
  void Stop();

  // The rest is for the client's thread alone.

  bool stopping() const { return stopping_; }
  // `done` runs exactly once, on the client's thread, not before Post() has returned.
  void Post(HttpRequest request, Done done);
  TimerId RunAt(Time time, std::function<void()> function);
  void Cancel(const TimerId& timer) { timers_.erase(timer); }

 private:
  class Transfer;
  struct Multi;

  void Loop();
  void RunQueue();
  void RunTimers();
  void EndTransfers();
  // Of one that is no longer the multi handle's.
  void End(Transfer* transfer, HttpAnswer answer);

  const std::unique_ptr<Multi> multi_;
  std::map<TimerId, std::function<void()>> timers_;
  std::map<const Transfer*, std::unique_ptr<Transfer>> transfers_;
  std::uint64_t next_timer_ = 1;
  bool stopping_ = false;

  Mutex mutex_;
  std::vector<std::function<void()>> queue_ MEMORYD_GUARDED_BY(mutex_);
  bool stop_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool stopped_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LLM_HTTP_CLIENT_H_
