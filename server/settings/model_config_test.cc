#include "server/settings/model_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/llm/model_settings.h"

namespace memoryd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

absl::StatusOr<std::vector<ModelSettings>> Parse(const std::string& yaml) {
  return ParseModels(YAML::Load(yaml), "/m.yaml");
}

std::string Chat(const std::string& more) {
  return "- name: c\n  kind: chat\n  url: https://h/v1\n  model: m\n" + more;
}

std::string Embedding(const std::string& more) {
  return "- name: e\n  kind: embedding\n  url: https://h/v1\n  model: m\n" + more;
}

// Expects an error in `line` that says `word`.
void ExpectRefused(const std::string& yaml, int line, const std::string& word) {
  const auto models = Parse(yaml);
  EXPECT_TRUE(absl::IsInvalidArgument(models.status())) << yaml;
  const std::string message(models.status().message());
  EXPECT_THAT(message, StartsWith(fmt::format("/m.yaml:{}: models: ", line))) << yaml;
  EXPECT_THAT(message, HasSubstr(word));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

TEST(ModelConfigTest, WhatIsNotGivenHasADefault) {
  const auto models = Parse(Chat(""));
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->size(), 1);
  const ModelSettings& model = models->front();
  EXPECT_EQ(model.name, "c");
  EXPECT_EQ(model.kind, ModelKind::kChat);
  EXPECT_EQ(model.url, "https://h/v1");
  EXPECT_EQ(model.model, "m");
  EXPECT_EQ(model.timeout, std::chrono::seconds(60));
  EXPECT_EQ(model.retries, 2);
  EXPECT_FALSE(model.addresses.Allows("127.0.0.1"));
  EXPECT_FALSE(model.temperature.has_value());
  EXPECT_TRUE(Parse("[]")->empty());
  EXPECT_TRUE(Parse("")->empty());
}

TEST(ModelConfigTest, EveryKeyIsTaken) {
  const auto models = Parse(
      "- {name: c, kind: chat, url: 'http://h:1/v1//', model: m, key_file: /k, ca_file: /ca,\n"
      "   proxy: 'http://p:3128', connect_timeout_ms: 7, timeout_ms: 8, max_answer_bytes: 2048,\n"
      "   max_calls: 3, max_waiting: 4, retries: 0, temperature: 0.5, images: false,\n"
      "   max_tokens_key: max_completion_tokens, headers: {X-Org: team a}, allow_private: true}\n"
      "- {name: e, kind: embedding, url: 'https://h', model: m, dimensions: 384, batch_size: 5,\n"
      "   text_prefix: 'passage: ', query_prefix: 'query: ', allow_private: [10.1.0.0/16, '::1']}");
  ASSERT_TRUE(models.ok()) << models.status();
  const ModelSettings& chat = models->at(0);
  EXPECT_EQ(chat.url, "http://h:1/v1");
  EXPECT_EQ(chat.key_file, "/k");
  EXPECT_EQ(chat.ca_file, "/ca");
  EXPECT_EQ(chat.proxy, "http://p:3128");
  EXPECT_EQ(chat.connect_timeout.count(), 7);
  EXPECT_EQ(chat.timeout.count(), 8);
  EXPECT_EQ(chat.max_answer_bytes, 2048);
  EXPECT_EQ(chat.max_calls, 3);
  EXPECT_EQ(chat.max_waiting, 4);
  EXPECT_EQ(chat.retries, 0);
  EXPECT_EQ(chat.temperature, 0.5);
  EXPECT_FALSE(chat.takes_images);
  EXPECT_EQ(chat.max_tokens_key, "max_completion_tokens");
  EXPECT_EQ(chat.headers.at("X-Org"), "team a");
  EXPECT_TRUE(chat.addresses.Allows("192.168.1.1"));
  const ModelSettings& embedder = models->at(1);
  EXPECT_EQ(embedder.kind, ModelKind::kEmbedding);
  EXPECT_EQ(embedder.dimensions, 384);
  EXPECT_EQ(embedder.batch_size, 5);
  EXPECT_EQ(embedder.text_prefix, "passage: ");
  EXPECT_EQ(embedder.query_prefix, "query: ");
  EXPECT_TRUE(embedder.addresses.Allows("10.1.2.3"));
  EXPECT_TRUE(embedder.addresses.Allows("::1"));
  EXPECT_FALSE(embedder.addresses.Allows("10.2.0.1"));
}

TEST(ModelConfigTest, ErrorsNameTheLineAndTheKey) {
  ExpectRefused("a", 1, "list");
  ExpectRefused("- a", 1, "maps");
  ExpectRefused("- name: a", 1, "kind: is missing");
  ExpectRefused("- name: a\n  kind: image", 2, "kind");
  ExpectRefused("- kind: chat\n  name: a\n  url: https://h", 1, "model: is missing");
  ExpectRefused(Chat("  colour: red"), 5, "unknown key colour");
  ExpectRefused(Chat("  model: n"), 5, "model: is given twice");
  ExpectRefused(Chat("  retries: [1]"), 5, "retries: must be a single value");
  ExpectRefused(Chat("  retries: 11"), 5, "retries: must be a whole number");
  ExpectRefused(Chat("  timeout_ms: 0"), 5, "timeout_ms");
  ExpectRefused(Chat("  temperature: nan"), 5, "temperature");
  ExpectRefused(Chat("  dimensions: 3"), 5, "dimensions: is for models of the kind embedding");
  ExpectRefused(Embedding("  temperature: 0"), 5, "temperature: is for models of the kind chat");
  ExpectRefused(Chat("  allow_private: maybe"), 5, "allow_private");
  ExpectRefused(Chat("  allow_private: [10.0.0.0/33]"), 5, "allow_private");
  ExpectRefused(Chat("  allow_private: [localhost]"), 5, "allow_private");
  ExpectRefused(Chat("  headers: {Authorization: x}"), 5, "headers");
  ExpectRefused(Chat("  headers: {'X Y': x}"), 5, "headers");
  ExpectRefused(Chat("  headers: {X: \"a\\nB: c\"}"), 5, "headers: X");
  ExpectRefused(Chat("") + Chat(""), 5, "c: another model has the same name");
}

TEST(ModelConfigTest, OnlyPlainUrlsAreTaken) {
  for (const char* url :
       {"ftp://h", "file:///etc/passwd", "h/v1", "https://", "https:///v1", "https://h/?a=b",
        "https://h/#a", "https://user:secret@h/", "\"https://h/\\n\"", "https://h x"}) {
    const auto models =
        Parse(fmt::format("- {{name: a, kind: chat, model: m, url: {}}}",
                          url[0] == '"' ? std::string(url) : fmt::format("'{}'", url)));
    EXPECT_TRUE(absl::IsInvalidArgument(models.status())) << url;
    EXPECT_THAT(std::string(models.status().message()), HasSubstr("url: "));
    EXPECT_THAT(std::string(models.status().message()), Not(HasSubstr("secret")));
  }
  const auto proxied = Parse(Chat("  proxy: http://user:secret@proxy:3128\n"));
  EXPECT_TRUE(absl::IsInvalidArgument(proxied.status()));
  EXPECT_THAT(std::string(proxied.status().message()),
              HasSubstr("proxy: must not hold a user or a password"));
  EXPECT_THAT(std::string(proxied.status().message()), Not(HasSubstr("secret")));
}

TEST(ModelConfigTest, AKeyIsNotSentInPlainTextToTheWorld) {
  const std::string model = "- {name: a, kind: chat, model: m, key_file: /k, url: 'http://h'";
  ExpectRefused(model + "}", 1, "key_file");
  ExpectRefused(model + ", allow_private: false}", 1, "key_file");
  EXPECT_TRUE(Parse(model + ", allow_private: true}").ok());
}

TEST(ModelConfigTest, WhatIsPrintedReadsBackButForTheHeaders) {
  const std::string yaml = Chat("  headers: {X-Key: secret}\n  allow_private: [127.0.0.1]\n") +
                           "- {name: f, kind: embedding, url: 'https://h', model: m}\n";
  const std::string printed = YAML::Dump(MaskedModels(YAML::Load(yaml)));
  EXPECT_THAT(printed, Not(HasSubstr("secret")));
  const auto again = Parse(printed);
  ASSERT_TRUE(again.ok()) << again.status() << printed;
  ASSERT_EQ(again->size(), 2);
  EXPECT_EQ(again->at(0).headers.at("X-Key"), "***");
  EXPECT_TRUE(again->at(0).addresses.Allows("127.0.0.1"));
  EXPECT_EQ(again->at(1).name, "f");
}

TEST(ModelConfigTest, AHeaderThatIsNamedLikeASecretMayHoldOne) {
  for (const char* name : {"X-Api-Key", "Cookie", "X-AUTH", "x_token", "Client-Secret"}) {
    const auto models = Parse(Chat(std::string("  headers: {X-Version: 2, ") + name + ": x}\n"));
    ASSERT_TRUE(models.ok()) << models.status();
    EXPECT_TRUE(MayHoldSecret(models->front())) << name;
  }
  EXPECT_FALSE(MayHoldSecret(Parse(Chat("  headers: {X-Version: 2}\n"))->front()));
  EXPECT_FALSE(MayHoldSecret(Parse(Chat(""))->front()));
}

}  // namespace
}  // namespace memoryd
