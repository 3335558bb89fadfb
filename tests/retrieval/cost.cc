// What the index of a session costs: makes it of messages like those given, and asks it.
//
//   retrieval_cost VECTORS WORKLOAD [MESSAGES...]
//
// WORKLOAD is what rank reads; its messages are taken in turn, all as one chat, and its questions
// are asked. VECTORS `none`: by words alone. Prints a line for each number of messages: the time
// to index a message, the median and the 99th of 100 of the times that 1,000 questions take, the
// memory of a message.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/retrieval/search.h"
#include "core/retrieval/session_index.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

using Json = nlohmann::json;
// Of this thread on a processor, so that others on the machine don't count.
double Microseconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

struct Said {
  std::string name, thread, text;
};

void Measure(const IndexOptions& options, const std::vector<Said>& said,
             const std::vector<std::string>& questions, std::size_t count) {
  SessionIndex index(options);
  double start = Microseconds();
  for (std::size_t i = 0; i < count; ++i) {
    const Said& one = said[i % said.size()];
    IndexedItem item;
    item.position = static_cast<std::int64_t>(i);
    item.name = one.name;
    item.role = "user";
    item.thread_id = one.thread;
    item.text = one.text;
    index.Add(item);
  }
  const double indexing = (Microseconds() - start) / static_cast<double>(count);
  std::vector<double> times;
  std::size_t hits = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    SearchRequest request;
    request.query = questions[i * 7919 % questions.size()];
    request.top_k = 10;
    start = Microseconds();
    hits += index.Search(request).size();
    times.push_back((Microseconds() - start) / 1000);
  }
  std::sort(times.begin(), times.end());
  std::printf("%zu messages: %.1f us to index one, question %.2f ms (99th %.2f), %zu bytes each\n",
              count, indexing, times[500], times[990], index.ByteSize() / count);
  if (hits == 0) std::exit(1);
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: retrieval_cost VECTORS WORKLOAD [MESSAGES...]\n";
    return 2;
  }
  IndexOptions options;
  if (const std::string table = argv[1]; table != "none") {
    const double start = Microseconds();
    auto vectors = WordVectors::Load(table);
    if (!vectors.ok()) {
      std::cerr << vectors.status() << '\n';
      return 1;
    }
    options.vectors = *std::move(vectors);
    std::printf("the table: %.0f ms to load\n", (Microseconds() - start) / 1000);
  }
  Json workload;
  std::ifstream(argv[2]) >> workload;
  std::vector<Said> said;
  std::vector<std::string> questions;
  for (const Json& chat : workload.at("chats")) {
    for (const Json& message : chat.at("messages")) {
      said.push_back(
          {message.value("name", ""), message.value("thread_id", ""), message.value("text", "")});
    }
    for (const Json& question : chat.at("questions")) questions.push_back(question);
  }
  std::vector<std::size_t> counts = {1'000, 10'000, 100'000};
  if (argc > 3) counts.clear();
  for (int i = 3; i < argc; ++i) counts.push_back(std::stoull(argv[i]));
  for (const std::size_t count : counts) Measure(options, said, questions, count);
  return 0;
}

}  // namespace
}  // namespace memoryd

int main(int argc, char** argv) { return memoryd::Main(argc, argv); }
