// Puts what it reads by the C++ client, for restarts.py and test_cpp_client.py.
//
// stdin, to its end: a message a line, `WRITER SESSION TEXT`, separated by tabs. Each writer is a
// thread that puts its messages in order, one after the other, with nothing but the client's own
// retries. stdout: for every Put, once it is answered, `SESSION TEXT MESSAGE_ID REPLAYED`,
// likewise, REPLAYED being 0 or 1. Exits 1 when a Put fails; what it failed with is on stderr.

#include <absl/base/thread_annotations.h>
#include <absl/strings/str_split.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <grpcpp/security/credentials.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "memoryd/client.h"
#include "memoryd/options.h"

namespace {

using memoryd::client::Client;
using memoryd::client::MakeMessage;

struct Item {
  std::string session;
  std::string text;
};

std::map<std::string, std::vector<Item>> ReadItems(std::istream& in) {
  std::map<std::string, std::vector<Item>> items;
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits('\t', 2));
    if (fields.size() == 3) items[fields[0]].push_back({fields[1], fields[2]});
  }
  return items;
}

// The answers of all writers, on stdout.
class Answers {
 public:
  void Print(const Item& item, const memoryd::v1::PutResponse& reply) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    std::cout << item.session << '\t' << item.text << '\t' << reply.message_ids(0) << '\t'
              << reply.replayed() << std::endl;
  }

 private:
  absl::Mutex mutex_;
};

bool Write(const Client& client, const std::vector<Item>& items, Answers& answers) {
  for (const Item& item : items) {
    const auto reply = client.Put(item.session, {MakeMessage("user", item.text)});
    if (!reply.ok()) {
      std::cerr << reply.status() << '\n';
      return false;
    }
    answers.Print(item, *reply);
  }
  return true;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  memoryd::client::Options options;
  std::string authority;
  std::string token;
  double seconds = 120;
  CLI::App app("Puts what it reads by the C++ client");
  app.add_option("--target", options.target, "address of the server")->required();
  app.add_option("--authority", authority, "PEM file of who signed the server; none: plain text");
  app.add_option("--token", token, "bearer token; none: no token");
  app.add_option("--timeout", seconds, "seconds that a Put may take")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  options.timeout = absl::Seconds(seconds);
  if (!authority.empty()) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = ReadFile(authority);
    options.credentials = grpc::SslCredentials(tls);
  }
  if (!token.empty()) options.token = [token] { return token; };

  const Client client(options);
  const auto items = ReadItems(std::cin);
  Answers answers;
  std::atomic<bool> failed = false;
  std::vector<std::thread> writers;
  writers.reserve(items.size());
  for (const auto& item : items) {
    // clang 14 captures no structured binding.
    writers.emplace_back([&client, &mine = item.second, &answers, &failed] {
      if (!Write(client, mine, answers)) failed = true;
    });
  }
  for (std::thread& writer : writers) writer.join();
  return failed ? 1 : 0;
}
