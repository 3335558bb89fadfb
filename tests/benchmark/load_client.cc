#include "tests/benchmark/load_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "tests/benchmark/workload.h"

namespace memoryd::benchmark {
namespace {

using Clock = std::chrono::steady_clock;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One run. Every slot makes one call at a time and belongs to whoever holds it: a worker between
// completion and the next start, the list of idle slots, or gRPC.
class Run {
 public:
  Run(const std::vector<std::unique_ptr<grpc::GenericStub>>& stubs, const Workload& workload,
      const LoadOptions& options);

  LoadResult Execute();

 private:
  struct Worker;
  struct Slot {
    Worker* worker = nullptr;
    grpc::GenericStub* stub = nullptr;
    Clock::time_point arrival;
    // gRPC's queue hands the slot from the thread that starts a call to the one that completes it.
    // ThreadSanitizer does not see into that queue, so the order is said here as well.
    std::atomic<bool> handed_over{false};
    // A ClientContext serves one call only.
    std::optional<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
    grpc::ByteBuffer reply;
    grpc::Status status;
  };
  struct Worker {
    grpc::CompletionQueue queue;
    std::thread thread;
    LoadResult result;
    std::size_t in_flight = 0;        // Of a closed loop.
    Clock::time_point last_reply_at;  // Of those counted.
  };

  bool open_loop() const { return options_.rate > 0; }
  // Returns false, and starts nothing, when the run's last call has been made.
  bool Start(Slot& slot, Clock::time_point arrival);
  void Complete(Worker& worker);
  void Record(Slot& slot, Clock::time_point now);
  void MakeArrivals();
  // Gives an idle slot to the oldest call that waits for one.
  void Release(Slot& slot);
  void ShutDownIfDone() MEMORYD_REQUIRES(mutex_);

  const Workload& workload_;
  const LoadOptions options_;
  std::vector<Slot> slots_;
  std::vector<Worker> workers_;
  Clock::time_point begin_;  // Of what is counted.
  Clock::time_point end_;
  std::atomic<std::uint64_t> made_ = 0;

  // An open loop's calls, which arrive whether or not there is a slot.
  Mutex mutex_;
  std::vector<Slot*> idle_ MEMORYD_GUARDED_BY(mutex_);
  std::deque<Clock::time_point> waiting_ MEMORYD_GUARDED_BY(mutex_);
  bool arrivals_over_ MEMORYD_GUARDED_BY(mutex_) = false;
};

Run::Run(const std::vector<std::unique_ptr<grpc::GenericStub>>& stubs, const Workload& workload,
         const LoadOptions& options)
    : workload_(workload),
      options_(options),
      slots_(options.outstanding),
      workers_(std::min(options.threads, options.outstanding)) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].worker = &workers_[i % workers_.size()];
    slots_[i].stub = stubs[i % stubs.size()].get();
  }
}

bool Run::Start(Slot& slot, Clock::time_point arrival) {
  const std::uint64_t number = made_.fetch_add(1, std::memory_order_relaxed);
  if (options_.count > 0 && number >= options_.count) return false;
  const Workload::Call call = workload_.Make(number);
  slot.arrival = arrival;
  slot.reader.reset();
  slot.context.emplace();
  slot.context->set_deadline(std::chrono::system_clock::now() + options_.call_timeout);
  if (!options_.token.empty()) {
    slot.context->AddMetadata("authorization", "Bearer " + options_.token);
  }
  slot.reply.Clear();
  slot.reader =
      slot.stub->PrepareUnaryCall(&*slot.context, *call.method, call.request, &slot.worker->queue);
  slot.handed_over.store(true, std::memory_order_release);
  slot.reader->StartCall();
  slot.reader->Finish(&slot.reply, &slot.status, &slot);
  return true;
}

void Run::Record(Slot& slot, Clock::time_point now) {
  LoadResult& result = slot.worker->result;
  const grpc::StatusCode code = slot.status.error_code();
  const Clock::time_point counted_at = open_loop() ? slot.arrival : now;
  const bool counted = options_.count > 0 || (counted_at >= begin_ && counted_at < end_);
  const std::int64_t took =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - slot.arrival).count();
  if (code != grpc::StatusCode::OK) {
    ++result.by_code.at(static_cast<std::size_t>(code));
    if (result.first_error.empty()) result.first_error = slot.status.error_message();
    if (counted && code == grpc::StatusCode::RESOURCE_EXHAUSTED) result.refused_ns.push_back(took);
  } else if (counted) {
    ++result.by_code[0];
    slot.worker->last_reply_at = now;
    result.reply_bytes += slot.reply.Length();
    result.latencies_ns.push_back(took);
  }
}

void Run::Complete(Worker& worker) {
  void* tag = nullptr;
  bool ok = false;
  while (worker.queue.Next(&tag, &ok)) {
    Slot& slot = *static_cast<Slot*>(tag);
    slot.handed_over.load(std::memory_order_acquire);
    const Clock::time_point now = Clock::now();
    Record(slot, now);
    if (open_loop()) {
      Release(slot);
    } else if ((options_.count == 0 && now >= end_) || !Start(slot, now)) {
      if (--worker.in_flight == 0) worker.queue.Shutdown();
    }
  }
}

void Run::Release(Slot& slot) {
  Clock::time_point arrival;
  {
    MutexLock lock(mutex_);
    if (waiting_.empty()) {
      idle_.push_back(&slot);
      ShutDownIfDone();
      return;
    }
    arrival = waiting_.front();
    waiting_.pop_front();
  }
  Start(slot, arrival);
}

void Run::ShutDownIfDone() {
  if (!arrivals_over_ || idle_.size() < slots_.size()) return;
  for (Worker& worker : workers_) worker.queue.Shutdown();
}

void Run::MakeArrivals() {
  std::minstd_rand random(2);
  std::exponential_distribution<double> gap(options_.rate);  // Seconds.
  Clock::time_point arrival = begin_ - options_.warmup;
  while (arrival < end_) {
    // gRPC's own alarms are a millisecond coarse, so arrivals come from a thread that sleeps.
    std::this_thread::sleep_until(arrival);
    Slot* slot = nullptr;
    {
      MutexLock lock(mutex_);
      if (idle_.empty()) {
        waiting_.push_back(arrival);
      } else {
        slot = idle_.back();
        idle_.pop_back();
      }
    }
    if (slot != nullptr) Start(*slot, arrival);
    arrival +=
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(gap(random)));
  }
  MutexLock lock(mutex_);
  arrivals_over_ = true;
  ShutDownIfDone();
}

LoadResult Run::Execute() {
  const Clock::time_point start = Clock::now();
  begin_ = options_.count > 0 ? start : start + options_.warmup;
  end_ = begin_ + options_.duration;
  double cpu = CpuSeconds();
  std::thread arrivals;
  if (open_loop()) {
    MutexLock lock(mutex_);
    for (Slot& slot : slots_) idle_.push_back(&slot);
    arrivals = std::thread(&Run::MakeArrivals, this);
  } else {
    for (Slot& slot : slots_) {
      if (Start(slot, Clock::now())) ++slot.worker->in_flight;
    }
  }
  for (Worker& worker : workers_) {
    // Growing it in the middle of a run would stall the calls.
    worker.result.latencies_ns.reserve(std::size_t{1} << 20);
    if (!open_loop() && worker.in_flight == 0) worker.queue.Shutdown();
    worker.thread = std::thread(&Run::Complete, this, std::ref(worker));
  }
  if (options_.count == 0) {
    std::this_thread::sleep_until(begin_);
    cpu = CpuSeconds();
  }
  if (arrivals.joinable()) arrivals.join();
  for (Worker& worker : workers_) worker.thread.join();

  LoadResult total;
  // An open loop that was too fast for the server is answered long after its last arrival.
  Clock::time_point last = options_.count > 0 ? begin_ : end_;
  for (const Worker& worker : workers_) {
    const LoadResult& part = worker.result;
    total.latencies_ns.insert(total.latencies_ns.end(), part.latencies_ns.begin(),
                              part.latencies_ns.end());
    total.refused_ns.insert(total.refused_ns.end(), part.refused_ns.begin(), part.refused_ns.end());
    for (std::size_t i = 0; i < total.by_code.size(); ++i) total.by_code[i] += part.by_code[i];
    total.reply_bytes += part.reply_bytes;
    if (total.first_error.empty()) total.first_error = part.first_error;
    last = std::max(last, worker.last_reply_at);
  }
  total.seconds = std::chrono::duration<double>(last - begin_).count();
  total.cpu_seconds = CpuSeconds() - cpu;
  return total;
}

}  // namespace

absl::StatusOr<LoadClient> LoadClient::Connect(const std::string& target, std::size_t connections,
                                               std::chrono::nanoseconds timeout,
                                               const std::string& ca_pem) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = ca_pem;
  const auto credentials =
      ca_pem.empty() ? grpc::InsecureChannelCredentials() : grpc::SslCredentials(tls);
  const auto deadline = std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout);
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs;
  for (std::size_t i = 0; i < connections; ++i) {
    grpc::ChannelArguments arguments;
    // Channels with equal arguments would share one connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    const auto channel = grpc::CreateCustomChannel(target, credentials, arguments);
    if (!channel->WaitForConnected(deadline)) {
      return absl::DeadlineExceededError(fmt::format("can't connect to {}", target));
    }
    stubs.push_back(std::make_unique<grpc::GenericStub>(channel));
  }
  return LoadClient(std::move(stubs));
}

LoadResult LoadClient::Run(const Workload& workload, const LoadOptions& options) {
  return benchmark::Run(stubs_, workload, options).Execute();
}

}  // namespace memoryd::benchmark
