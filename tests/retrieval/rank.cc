// What compare.py runs: ranks the messages of chats for their questions, as the server does.
//
//   rank VECTORS [WORKLOAD]
//
// Reads JSON, from standard input without a file: {"options": {...}, "precision": 8 or 16, "chats":
// [{"messages": [{"name", "role", "thread_id", "create_us", "text"}], "questions": ["..."]}]},
// where options are those of RankingOptions, and writes for each chat and question the hits, best
// first:
// [[index of the message, score, [parts]]]. VECTORS `none`: by words alone.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/model/language.h"
#include "core/model/ranking_options.h"
#include "core/retrieval/quantized_vectors.h"
#include "core/retrieval/search.h"
#include "core/retrieval/session_index.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

using Json = nlohmann::json;

RankingOptions OptionsOf(const Json& json) {
  RankingOptions options;
  for (const auto& [name, value] : json.items()) {
    if (name == "bm25_k1")
      options.bm25_k1 = value;
    else if (name == "bm25_b")
      options.bm25_b = value;
    else if (name == "vector_weight")
      options.vector_weight = value;
    else if (name == "vector_threshold")
      options.vector_threshold = value;
    else if (name == "author_weight")
      options.author_weight = value;
    else if (name == "neighbour_weight")
      options.neighbour_weight = value;
    else if (name == "neighbour_tokens")
      options.neighbour_tokens = value;
    else if (name == "length_weight")
      options.length_weight = value;
    else if (name == "length_tokens")
      options.length_tokens = value;
    else if (name == "user_weight")
      options.user_weight = value;
    else if (name == "answer_factor")
      options.answer_factor = value;
    else if (name == "thread_weight")
      options.thread_weight = value;
    else if (name == "recency_weight")
      options.recency_weight = value;
    else if (name == "expansion")
      options.expansion = value.get<bool>();
    else if (name == "dates")
      options.dates = value;
    else if (name == "language")
      options.language = value;
    else
      throw std::invalid_argument("no option " + name);
  }
  return options;
}

Json Rank(const Json& chat, const IndexOptions& index_options, const RankingOptions& ranking) {
  SessionIndex index(index_options);
  std::int64_t position = 0;
  for (const Json& message : chat.at("messages")) {
    const std::string name = message.value("name", "");
    const std::string role = message.value("role", "");
    const std::string thread = message.value("thread_id", "");
    const std::string text = message.value("text", "");
    IndexedItem item;
    item.position = position++;
    item.name = name;
    item.role = role;
    item.thread_id = thread;
    item.text = text;
    if (message.contains("create_us")) item.create_us = message["create_us"].get<std::int64_t>();
    index.Add(item);
  }
  Json answers = Json::array();
  for (const Json& question : chat.at("questions")) {
    const auto query = question.get<std::string>();
    SearchRequest request;
    request.query = query;
    request.top_k = 60;
    request.ranking = ranking;
    Json answer = Json::array();
    for (const SearchHit& hit : index.Search(request)) {
      answer.push_back({hit.position, hit.raw_score});
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

int Main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: rank VECTORS [WORKLOAD]\n";
    return 2;
  }
  Json workload;
  if (argc == 3) {
    std::ifstream(argv[2]) >> workload;
  } else {
    std::cin >> workload;
  }
  const RankingOptions ranking = OptionsOf(workload.at("options"));
  IndexOptions options;
  options.precision = workload.value("precision", 8) == 16 ? Precision::k16Bits : Precision::k8Bits;
  options.expansion = ranking.expansion;
  options.dates = ranking.dates;
  if (!ranking.language.empty()) options.language = FindLanguage(ranking.language);
  if (const std::string table = argv[1]; table != "none") {
    auto vectors = WordVectors::Load(table);
    if (!vectors.ok()) {
      std::cerr << vectors.status() << '\n';
      return 1;
    }
    options.vectors = *std::move(vectors);
  }
  Json answers = Json::array();
  for (const Json& chat : workload.at("chats")) answers.push_back(Rank(chat, options, ranking));
  std::cout << answers << '\n';
  return 0;
}

}  // namespace
}  // namespace memoryd

int main(int argc, char** argv) { return memoryd::Main(argc, argv); }
