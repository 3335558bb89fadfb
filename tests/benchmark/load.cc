// Loads a memoryd server, or the echo beside it, and prints what was measured as one line of JSON.

#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/benchmark/load_client.h"
#include "tests/benchmark/workload.h"

namespace memoryd::benchmark {
namespace {

struct Flags {
  std::string target;
  std::string ca_file;
  std::size_t connections = 1;
  std::size_t fill = 0;
  double seconds = 5;
  double warmup = 1;
  double call_timeout = 10;
  WorkloadOptions workload;
  LoadOptions load;
};

std::chrono::nanoseconds Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

void AddFlags(CLI::App& app, Flags& flags) {
  using Kind = WorkloadOptions::Kind;
  static const std::map<std::string, Kind> kKinds = {{"put", Kind::kPut},
                                                     {"put_batch", Kind::kPutBatch},
                                                     {"get", Kind::kGet},
                                                     {"get_all", Kind::kGetAll},
                                                     {"mix", Kind::kMix}};
  app.add_option("--target", flags.target, "HOST:PORT or unix:PATH")->required();
  app.add_option("--ca_file", flags.ca_file, "PEM file of authorities: the calls go over TLS")
      ->check(CLI::ExistingFile);
  app.add_option("--method", flags.workload.kind, "put, put_batch, get, get_all or mix")
      ->transform(CLI::Transformer(kKinds));
  app.add_option("--outstanding", flags.load.outstanding, "calls in flight, at most")
      ->check(CLI::PositiveNumber);
  app.add_option("--connections", flags.connections, "connections the calls are spread over")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", flags.load.threads, "threads that complete calls")
      ->check(CLI::PositiveNumber);
  app.add_option("--sessions", flags.workload.sessions, "sessions the calls go over in turn")
      ->check(CLI::PositiveNumber);
  app.add_option("--first_session", flags.workload.first_session, "the number they begin with");
  app.add_option("--session_prefix", flags.workload.session_prefix, "sessions are PREFIX-NUMBER");
  app.add_option("--message_bytes", flags.workload.message_bytes, "text of one message");
  app.add_option("--messages_per_put", flags.workload.messages_per_put)->check(CLI::PositiveNumber);
  app.add_option("--puts_per_call", flags.workload.puts_per_call, "Puts of a put_batch")
      ->check(CLI::Range(1, 1000));
  app.add_option("--put_share", flags.workload.put_share, "share of Puts in a mix")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--profile", flags.workload.profile, "of the sessions Puts create");
  app.add_option("--token_limit", flags.workload.token_limit, "of the sessions Puts create");
  app.add_option("--token_flush_size", flags.workload.token_flush_size,
                 "of the sessions Puts create");
  app.add_flag("--request_id", flags.workload.with_request_id, "Puts carry a new request_id");
  app.add_option("--fill", flags.fill, "messages put into every session first");
  app.add_option("--seconds", flags.seconds, "length of what is counted")
      ->check(CLI::PositiveNumber);
  app.add_option("--warmup", flags.warmup, "seconds before that; none with --count")
      ->check(CLI::NonNegativeNumber);
  const CLI::Option* count = app.add_option("--count", flags.load.count, "calls to make instead");
  app.add_option("--rate", flags.load.rate,
                 "calls per second that arrive however slow the server is; latency counts from "
                 "the arrival")
      ->check(CLI::PositiveNumber)
      ->excludes(const_cast<CLI::Option*>(count));
  app.add_option("--token", flags.load.token, "bearer token of the calls");
  app.add_option("--call_timeout", flags.call_timeout, "deadline of a call in seconds")
      ->check(CLI::PositiveNumber);
}

// Microseconds below which a share of the sorted latencies lie; 0 when there are none.
double Percentile(const std::vector<std::int64_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return static_cast<double>(sorted[std::min(rank, sorted.size() - 1)]) / 1000;
}

std::uint64_t ErrorCount(const LoadResult& result) {
  std::uint64_t errors = 0;
  for (std::size_t i = 1; i < result.by_code.size(); ++i) errors += result.by_code[i];
  return errors;
}

std::string ToJson(LoadResult result) {
  std::sort(result.latencies_ns.begin(), result.latencies_ns.end());
  std::sort(result.refused_ns.begin(), result.refused_ns.end());
  const auto ops = static_cast<double>(result.by_code[0]);
  nlohmann::ordered_json json;
  json["ops"] = result.by_code[0];
  json["seconds"] = result.seconds;
  json["ops_per_second"] = ops / result.seconds;
  json["p50_us"] = Percentile(result.latencies_ns, 0.5);
  json["p99_us"] = Percentile(result.latencies_ns, 0.99);
  json["p999_us"] = Percentile(result.latencies_ns, 0.999);
  json["max_us"] = Percentile(result.latencies_ns, 1);
  json["reply_bytes"] = ops > 0 ? static_cast<double>(result.reply_bytes) / ops : 0;
  json["cpu_seconds"] = result.cpu_seconds;
  json["errors"] = nlohmann::ordered_json::object();
  for (std::size_t i = 1; i < result.by_code.size(); ++i) {
    if (result.by_code[i] > 0) json["errors"][std::to_string(i)] = result.by_code[i];
  }
  if (!result.refused_ns.empty()) {
    json["refused_p50_us"] = Percentile(result.refused_ns, 0.5);
    json["refused_p99_us"] = Percentile(result.refused_ns, 0.99);
  }
  if (!result.first_error.empty()) json["first_error"] = result.first_error;
  return json.dump();
}

// Puts `flags.fill` messages into every session, as many in a Put as it may have.
absl::Status Fill(LoadClient& client, const Flags& flags) {
  constexpr std::size_t kMostPerPut = 1000;
  WorkloadOptions workload = flags.workload;
  workload.kind = WorkloadOptions::Kind::kPut;
  LoadOptions load = flags.load;
  load.outstanding = 16;
  load.rate = 0;
  std::size_t left = flags.fill;
  while (left > 0) {
    workload.messages_per_put = std::min(left, kMostPerPut);
    const std::size_t full_puts = left / workload.messages_per_put;
    load.count = full_puts * workload.sessions;
    const LoadResult filled = client.Run(Workload(workload), load);
    if (ErrorCount(filled) > 0) return absl::InternalError(filled.first_error);
    left -= full_puts * workload.messages_per_put;
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  // Debian builds Abseil with its search for lock cycles on, which gRPC pays for with every call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  Flags flags;
  CLI::App app("Loads a memoryd server and prints one line of JSON.");
  AddFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  flags.load.warmup = Seconds(flags.warmup);
  flags.load.duration = Seconds(flags.seconds);
  flags.load.call_timeout = Seconds(flags.call_timeout);

  std::ifstream ca(flags.ca_file);
  const std::string ca_pem((std::istreambuf_iterator<char>(ca)), std::istreambuf_iterator<char>());
  auto client =
      LoadClient::Connect(flags.target, flags.connections, std::chrono::seconds(10), ca_pem);
  if (!client.ok()) {
    fmt::print(stderr, "memoryd_load: {}\n", std::string(client.status().message()));
    return 1;
  }
  if (const absl::Status filled = Fill(*client, flags); !filled.ok()) {
    fmt::print(stderr, "memoryd_load: fill: {}\n", std::string(filled.message()));
    return 1;
  }
  fmt::print("{}\n", ToJson(client->Run(Workload(flags.workload), flags.load)));
  return 0;
}

}  // namespace
}  // namespace memoryd::benchmark

int main(int argc, char** argv) { return memoryd::benchmark::Main(argc, argv); }
