#include "core/llm/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <signal.h>
#include <strings.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/mutex.h"

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;

// A server that says no need not say it at length.
constexpr std::size_t kMaxRefusalBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxHeaderBytes = std::size_t{256} << 10;
constexpr std::string_view kRetryAfter = "retry-after:";

void InitializeCurl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

long Milliseconds(Clock::duration duration) {
  // Rounded up: 0 would mean without end.
  const auto count = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<long>(std::clamp<std::int64_t>(count, 1, std::numeric_limits<int>::max()));
}

bool IsSuccess(long code) { return code >= 200 && code < 300; }

}  // namespace

struct HttpClient::Multi {
  Multi() : handle(curl_multi_init()) {}
  ~Multi() { curl_multi_cleanup(handle); }
  Multi(const Multi&) = delete;
  Multi& operator=(const Multi&) = delete;

  CURLM* const handle;
};

class HttpClient::Transfer {
 public:
  Transfer(HttpRequest request, Done done)
      : request_(std::move(request)), done_(std::move(done)), easy_(curl_easy_init()) {}
  ~Transfer() {
    curl_easy_cleanup(easy_);
    curl_slist_free_all(headers_);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  CURL* easy() { return easy_; }
  Done TakeDone() { return std::move(done_); }

  // False when libcurl does not take one of the options.
  bool Prepare() {
    const auto left = request_.deadline - Clock::now();
    Set(CURLOPT_PRIVATE, this);
    Set(CURLOPT_PROTOCOLS_STR, "http,https");
    Set(CURLOPT_URL, request_.url.c_str());
    Set(CURLOPT_FOLLOWLOCATION, 0L);
    Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    Set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    Set(CURLOPT_SSL_VERIFYPEER, 1L);
    Set(CURLOPT_SSL_VERIFYHOST, 2L);
    if (!request_.ca_file.empty()) {
      Set(CURLOPT_CAINFO, request_.ca_file.c_str());
      Set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
    }
    // An empty one also keeps libcurl from asking the environment.
    Set(CURLOPT_PROXY, request_.proxy.c_str());
    if (request_.proxy.empty()) Set(CURLOPT_NOPROXY, "*");
    // The key is for the model, not for a proxy on the way to it.
    Set(CURLOPT_HEADEROPT, static_cast<long>(CURLHEADER_SEPARATE));
    Set(CURLOPT_NOSIGNAL, 1L);
    // A look-up that hangs must not hold up the thread when its transfer ends.
    Set(CURLOPT_QUICK_EXIT, 1L);
    Set(CURLOPT_CONNECTTIMEOUT_MS,
        Milliseconds(std::min<Clock::duration>(request_.connect_timeout, left)));
    Set(CURLOPT_TIMEOUT_MS, Milliseconds(left));
    Set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(request_.max_answer_bytes));
    Set(CURLOPT_USERAGENT, "memoryd");
    // Without a wait for 100-continue.
    AddHeader("Expect:");
    AddHeader("Content-Type: application/json");
    for (const std::string& header : request_.headers) AddHeader(header.c_str());
    Set(CURLOPT_HTTPHEADER, headers_);
    Set(CURLOPT_POST, 1L);
    Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body->size()));
    Set(CURLOPT_POSTFIELDS, request_.body->c_str());
    Set(CURLOPT_WRITEFUNCTION, &OnBody);
    Set(CURLOPT_WRITEDATA, this);
    Set(CURLOPT_HEADERFUNCTION, &OnHeader);
    Set(CURLOPT_HEADERDATA, this);
    // The first sees an address before anything is sent there, the second a connection that another
    // model has opened.
    Set(CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
    Set(CURLOPT_OPENSOCKETDATA, this);
    Set(CURLOPT_PREREQFUNCTION, &BeforeRequest);
    Set(CURLOPT_PREREQDATA, this);
    return prepared_;
  }

  HttpAnswer Answer(CURLcode result) {
    HttpAnswer answer;
    long code = 0;
    long sent = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_getinfo(easy_, CURLINFO_REQUEST_SIZE, &sent);
    answer.code = static_cast<int>(code);
    answer.sent = sent > 0;
    answer.retry_after = std::move(retry_after_);
    answer.status = StatusOf(result, code, answer.sent);
    if (answer.status.ok() && IsSuccess(code)) answer.body = std::move(body_);
    answer.memory = std::move(request_.memory);
    return answer;
  }

 private:
  template <typename T>
  void Set(CURLoption option, T value) {
    prepared_ = prepared_ && easy_ != nullptr && curl_easy_setopt(easy_, option, value) == CURLE_OK;
  }

  void AddHeader(const char* header) {
    curl_slist* const longer = curl_slist_append(headers_, header);
    prepared_ = prepared_ && longer != nullptr;
    if (longer != nullptr) headers_ = longer;
  }

  static std::size_t OnBody(char* data, std::size_t, std::size_t size, void* self) {
    return static_cast<Transfer*>(self)->TakeBody({data, size}) ? size : CURL_WRITEFUNC_ERROR;
  }

  bool TakeBody(std::string_view data) {
    long code = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &code);
    if (!IsSuccess(code)) {
      refusal_bytes_ += data.size();
      return refusal_bytes_ <= kMaxRefusalBytes;
    }
    if (data.size() > request_.max_answer_bytes - body_.size()) {
      is_too_large_ = true;
      return false;
    }
    if (short_ = request_.memory.Grow(2 * static_cast<std::int64_t>(data.size())); !short_.ok()) {
      return false;
    }
    body_.append(data);
    return true;
  }

  static std::size_t OnHeader(char* data, std::size_t, std::size_t size, void* self) {
    return static_cast<Transfer*>(self)->TakeHeader({data, size}) ? size : 0;
  }

  bool TakeHeader(std::string_view line) {
    header_bytes_ += line.size();
    if (header_bytes_ > kMaxHeaderBytes) {
      is_too_large_ = true;
      return false;
    }
    if (line.starts_with("HTTP/")) retry_after_.clear();
    if (line.size() > kRetryAfter.size() &&
        strncasecmp(line.data(), kRetryAfter.data(), kRetryAfter.size()) == 0) {
      line.remove_prefix(kRetryAfter.size());
      const std::size_t begin = line.find_first_not_of(" \t");
      const std::size_t end = line.find_last_not_of(" \t\r\n");
      if (begin <= end && end != std::string_view::npos) {
        retry_after_ = line.substr(begin, end - begin + 1);
      }
    }
    return true;
  }

  static curl_socket_t OpenSocket(void* self, curlsocktype, curl_sockaddr* address) {
    auto* const transfer = static_cast<Transfer*>(self);
    const bool has_proxy = !transfer->request_.proxy.empty();
    if (!has_proxy && !transfer->request_.addresses.Allows(address->addr)) {
      transfer->is_forbidden_ = true;
      return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }

  static int BeforeRequest(void* self, char* address, char*, int, int) {
    auto* const transfer = static_cast<Transfer*>(self);
    const bool has_proxy = !transfer->request_.proxy.empty();
    if (has_proxy || transfer->request_.addresses.Allows(std::string(address))) {
      // Another address of the host may have been refused before this one.
      transfer->is_forbidden_ = false;
      return CURL_PREREQFUNC_OK;
    }
    transfer->is_forbidden_ = true;
    return CURL_PREREQFUNC_ABORT;
  }

  absl::Status StatusOf(CURLcode result, long code, bool sent) const {
    if (result == CURLE_OK) return absl::OkStatus();
    if (is_forbidden_) {
      return absl::FailedPreconditionError(
          "its address is not a public one; allow_private of its settings does not list it");
    }
    // What became of the rest of a refusal is of no interest.
    if (code >= 300) return absl::OkStatus();
    if (!short_.ok()) return short_;
    if (is_too_large_ || result == CURLE_FILESIZE_EXCEEDED) {
      return absl::ResourceExhaustedError(
          fmt::format("its answer is larger than {} bytes", request_.max_answer_bytes));
    }
    switch (result) {
      case CURLE_OPERATION_TIMEDOUT:
        // Its own bound is shorter where the connection is what takes so long.
        if (!sent && Clock::now() + std::chrono::milliseconds(5) < request_.deadline) {
          return absl::UnavailableError("it can't be reached");
        }
        return absl::DeadlineExceededError("it has not answered in time");
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
      case CURLE_SSL_ISSUER_ERROR:
        return absl::FailedPreconditionError("its certificate is not one to be trusted");
      case CURLE_URL_MALFORMAT:
        return absl::FailedPreconditionError("its URL is malformed");
      case CURLE_UNSUPPORTED_PROTOCOL:
        // Also of an answer without a status line.
      case CURLE_WEIRD_SERVER_REPLY:
      case CURLE_BAD_CONTENT_ENCODING:
        if (!sent) return absl::FailedPreconditionError("its URL is not of http or https");
        return absl::DataLossError("its answer is not HTTP");
      case CURLE_PARTIAL_FILE:
      case CURLE_GOT_NOTHING:
      case CURLE_RECV_ERROR:
      case CURLE_SEND_ERROR:
        return absl::UnavailableError("it has cut the answer off");
      default:
        return absl::UnavailableError("it can't be reached");
    }
  }

  HttpRequest request_;
  Done done_;
  CURL* const easy_;
  curl_slist* headers_ = nullptr;
  bool prepared_ = true;
  std::string body_;
  std::string retry_after_;
  std::size_t refusal_bytes_ = 0;
  std::size_t header_bytes_ = 0;
  bool is_forbidden_ = false;
  bool is_too_large_ = false;
  absl::Status short_;
};

HttpClient::HttpClient() : multi_((InitializeCurl(), std::make_unique<Multi>())) {
  thread_ = std::thread([this] { Loop(); });
}

HttpClient::~HttpClient() { Stop(); }

bool HttpClient::Run(std::function<void()> function) {
  {
    MutexLock lock(mutex_);
    if (stopped_) return false;
    queue_.push_back(std::move(function));
  }
  curl_multi_wakeup(multi_->handle);
  return true;
}

void HttpClient::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  curl_multi_wakeup(multi_->handle);
  if (thread_.joinable()) thread_.join();
}

void HttpClient::Post(HttpRequest request, Done done) {
  auto owned = std::make_unique<Transfer>(std::move(request), std::move(done));
  Transfer* const transfer = owned.get();
  transfers_.emplace(transfer, std::move(owned));
  absl::Status failure;
  if (stopping_) {
    failure = absl::CancelledError("the server stops");
  } else if (!transfer->Prepare()) {
    failure = absl::FailedPreconditionError("its settings can't be used");
  } else if (curl_multi_add_handle(multi_->handle, transfer->easy()) == CURLM_OK) {
    return;
  } else {
    failure = absl::UnavailableError("it can't be reached");
  }
  RunAt(Clock::now(), [this, transfer, failure] {
    HttpAnswer answer;
    answer.status = failure;
    End(transfer, std::move(answer));
  });
}

HttpClient::TimerId HttpClient::RunAt(Time time, std::function<void()> function) {
  const TimerId id(time, next_timer_++);
  timers_.emplace(id, std::move(function));
  return id;
}

void HttpClient::RunQueue() {
  std::vector<std::function<void()>> functions;
  {
    MutexLock lock(mutex_);
    functions.swap(queue_);
    stopping_ = stop_;
  }
  for (const auto& function : functions) function();
}

void HttpClient::RunTimers() {
  // Those set meanwhile are for the next time, so that requests get their turn in between.
  const TimerId end(stopping_ ? Time::max() : Clock::now(), next_timer_);
  while (!timers_.empty() && timers_.begin()->first < end) {
    auto timer = timers_.extract(timers_.begin());
    timer.mapped()();
  }
}

void HttpClient::End(Transfer* transfer, HttpAnswer answer) {
  const auto found = transfers_.find(transfer);
  const std::unique_ptr<Transfer> owned = std::move(found->second);
  transfers_.erase(found);
  const Done done = owned->TakeDone();
  done(std::move(answer));
}

void HttpClient::EndTransfers() {
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi_->handle, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CURL* const easy = message->easy_handle;
    // The message is gone with the handle.
    const CURLcode result = message->data.result;
    char* address = nullptr;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &address);
    auto* const transfer = reinterpret_cast<Transfer*>(address);
    curl_multi_remove_handle(multi_->handle, easy);
    End(transfer, transfer->Answer(result));
  }
}

void HttpClient::Loop() {
  // OpenSSL writes to connections that may be closed.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  constexpr std::chrono::milliseconds kLongest(60'000);
  for (;;) {
    RunQueue();
    if (stopping_) break;
    RunTimers();
    int running = 0;
    curl_multi_perform(multi_->handle, &running);
    EndTransfers();
    Clock::duration wait = kLongest;
    if (!timers_.empty()) wait = std::min(wait, timers_.begin()->first.first - Clock::now());
    const int timeout = wait <= Clock::duration::zero() ? 0 : static_cast<int>(Milliseconds(wait));
    curl_multi_poll(multi_->handle, nullptr, 0, timeout, nullptr);
  }
  for (;;) {
    // Each ends in a timer of Post(), or here.
    std::vector<Transfer*> open;
    open.reserve(transfers_.size());
    for (const auto& [address, transfer] : transfers_) open.push_back(transfer.get());
    RunTimers();
    for (Transfer* const transfer : open) {
      if (!transfers_.contains(transfer)) continue;
      curl_multi_remove_handle(multi_->handle, transfer->easy());
      HttpAnswer answer;
      answer.status = absl::CancelledError("the server stops");
      End(transfer, std::move(answer));
    }
    RunQueue();
    if (!transfers_.empty() || !timers_.empty()) continue;
    MutexLock lock(mutex_);
    if (!queue_.empty()) continue;
    stopped_ = true;
    return;
  }
}

}  // namespace memoryd
