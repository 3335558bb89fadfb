#include "server/access/session_templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/llm/model_settings.h"
#include "core/model/session_config.h"
#include "server/access/tenant_limits.h"
#include "server/wire/convert_config.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

auto Parse(const std::string& yaml) { return ParseTemplates(YAML::Load(yaml), "/m.yaml"); }

absl::StatusOr<SessionTemplates> Make(const std::string& yaml) {
  const auto sources = Parse(yaml);
  if (!sources.ok()) return sources.status();
  return MakeTemplates(*sources);
}

SessionTemplates MustMake(const std::string& yaml) {
  auto templates = Make(yaml);
  EXPECT_TRUE(templates.ok()) << templates.status();
  return templates.ok() ? *std::move(templates) : SessionTemplates();
}

v1::SessionConfig ConfigOf(const std::string& yaml) {
  const SessionTemplates templates = MustMake("t:\n" + yaml);
  const auto config = SessionConfig::Resolve(templates.at("t")->settings);
  EXPECT_TRUE(config.ok()) << config.status();
  return ToProto(*config);
}

TEST(SessionTemplatesTest, FieldsMeanWhatTheyMeanInARequest) {
  const v1::SessionConfig config = ConfigOf(R"(
  token_limit: 5000
  chat_history_token_ratio: 0.25
  insert_method: INSERT_METHOD_USER
  cut_highest_first: false
  user_roles: [client_b, "7"]
  retrieval: {recency_weight: 0.5, dates: false}
  retention:
    message_ttl: 90.5s
    keep_messages: 1000
  blocks:
    - name: rules
      kind: static
      priority: 1
      content:
        - text: "5"
        - image: {data: AAE=, mime_type: image/png}
)");
  EXPECT_EQ(config.token_limit(), 5000);
  EXPECT_EQ(config.chat_history_token_ratio(), 0.25);
  EXPECT_EQ(config.insert_method(), v1::INSERT_METHOD_USER);
  EXPECT_FALSE(config.cut_highest_first());
  EXPECT_THAT(config.user_roles(), ElementsAre("client_b", "7"));
  EXPECT_EQ(config.retrieval().recency_weight(), 0.5);
  EXPECT_FALSE(config.retrieval().dates());
  EXPECT_EQ(config.retention().message_ttl().nanos(), 500'000'000);
  EXPECT_EQ(config.retention().keep_messages(), 1000);
  ASSERT_EQ(config.blocks_size(), 1);
  EXPECT_EQ(config.blocks(0).priority(), 1);
  EXPECT_EQ(config.blocks(0).content(0).text(), "5");
  EXPECT_EQ(config.blocks(0).content(1).image().data(), std::string("\0\1", 2));
}

TEST(SessionTemplatesTest, OptionsMayBeWrittenAsAMap) {
  const v1::SessionConfig config = ConfigOf(R"(
  blocks:
    - name: facts
      kind: fact-extraction
      options_json:
        model: chat
        max_facts: 20
        facts_trust: 0.5
        accept_short_term_memory: true
        facts: ["1", no, He lives in Porto.]
        ttl: ~
    - name: summary
      kind: summary
      options_json: '{"model": "chat"}'
)");
  EXPECT_EQ(config.blocks(0).options_json(),
            R"({"model":"chat","max_facts":20,"facts_trust":0.5,"accept_short_term_memory":true,)"
            R"("facts":["1","no","He lives in Porto."],"ttl":null})");
  EXPECT_EQ(config.blocks(1).options_json(), R"({"model": "chat"})");
}

TEST(SessionTemplatesTest, EachKnowsItsName) {
  const SessionTemplates templates = MustMake("a: {}\nb: {subject: team}\n");
  ASSERT_EQ(templates.size(), 2u);
  EXPECT_EQ(templates.at("a")->name, "a");
  EXPECT_EQ(templates.at("a")->settings.template_name, "a");
  EXPECT_EQ(templates.at("b")->settings.subject, "team");
  EXPECT_TRUE(Make("")->empty());
}

void ExpectRefused(const std::string& yaml, int line, const std::string& said) {
  const auto made = Make(yaml);
  ASSERT_TRUE(absl::IsInvalidArgument(made.status())) << yaml;
  const std::string start = "/m.yaml:" + std::to_string(line) + ": templates: ";
  EXPECT_THAT(std::string(made.status().message()), HasSubstr(start + said)) << yaml;
}

TEST(SessionTemplatesTest, ABadOneIsNamedWithItsFieldAndLine) {
  ExpectRefused("- a\n", 1, "must be a map of names");
  ExpectRefused("a: {}\na: {}\n", 2, "a: is given twice");
  ExpectRefused("\"a\\nb\": {}\n", 1, "name: ");
  ExpectRefused("a: ~\n", 1, "a: must be a map of fields");
  ExpectRefused("a: {}\nb:\n  toke: 1\n", 3, "b: toke: memoryd.v1.SessionConfig has no such field");
  ExpectRefused("a:\n  tokenLimit: 1\n", 2, "a: tokenLimit: ");
  ExpectRefused("a:\n  token_limit:\n    - 1\n", 3, "a: token_limit: must be a whole number");
  ExpectRefused("a:\n  token_limit: ~\n", 2, "a: token_limit: must be a whole number");
  ExpectRefused("a:\n  token_limit: 1.5\n", 2, "a: token_limit: must be a whole number");
  ExpectRefused("a:\n  chat_history_token_ratio: x\n", 2,
                "a: chat_history_token_ratio: must be a number");
  ExpectRefused("a:\n  blocks:\n    - {name: b, kind: static}\n    - text\n", 4,
                "a: blocks[1]: must be a map of fields");
  ExpectRefused("a:\n  blocks:\n    - name: b\n      content:\n        - image: {data: '*'}\n", 5,
                "a: blocks[0].content[0].image.data: must be base64");
  ExpectRefused("~: {}\n", 1, "a name must be a text");
  ExpectRefused("? [a]\n: {}\n", 1, "a name must be a text");
  ExpectRefused("a:\n  ~: 1\n", 2, "a: a key must be a text");
  ExpectRefused("a:\n  ? [b]\n  : 1\n", 2, "a: a key must be a text");
  ExpectRefused("a:\n  blocks:\n    - name: ~\n", 3, "a: blocks[0].name: must be a text");
  for (const std::string value : {"1", "\"1\"", "9", "INSERT_METHOD_UNSPECIFIED"}) {
    ExpectRefused("a:\n  insert_method: " + value + "\n", 2,
                  "a: insert_method: must be one of INSERT_METHOD_SYSTEM, INSERT_METHOD_USER");
  }
  const std::string options = "a:\n  blocks:\n    - options_json:\n";
  ExpectRefused(options + "        model: a\n        model: b\n", 5,
                "a: blocks[0].options_json.model: is given twice");
  ExpectRefused(options + "        filter:\n          x: 1\n          x: 2\n", 6,
                "a: blocks[0].options_json.filter.x: is given twice");
  ExpectRefused(options + "        ? [model]\n        : a\n", 4,
                "a: blocks[0].options_json: a key must be a text");
  ExpectRefused(options + "        facts: [{~: 1}]\n", 4,
                "a: blocks[0].options_json.facts[0]: a key must be a text");
  // By what CreateSession says.
  ExpectRefused("a:\n  token_limit: 9\n  token_flush_size: 10\n", 3, "a: token_flush_size: ");
  ExpectRefused(
      "a:\n  blocks:\n    - name: b\n      kind: static\n    - name: c\n      kind: what\n", 6,
      "a: blocks[1].kind: ");
  ExpectRefused("a:\n  blocks:\n    - name: b\n      kind: entity\n", 3,
                "a: blocks[0].options_json: ");
  ExpectRefused("a:\n  retention:\n    keep_bytes: -1\n", 3, "a: retention.keep_bytes: ");
}

TEST(SessionTemplatesTest, ADefaultIsOneOfThem) {
  const auto sources = *Parse("b: {}\na: {}\n");
  TenantLimitTable tenants;
  EXPECT_TRUE(CheckTenantTemplates(sources, tenants).ok());
  tenants.usual.default_template = "a";
  tenants.exceptions["t"].default_template = "";
  EXPECT_TRUE(CheckTenantTemplates(sources, tenants).ok());
  tenants.exceptions["t"].default_template = "c";
  EXPECT_EQ(CheckTenantTemplates(sources, tenants).message(),
            "tenants: t: default_template: there is no template `c`; there are: a, b");
  EXPECT_EQ(CheckTenantTemplates({}, tenants).message(),
            "tenant_default_template: there is no template `a`; there are none");
}

TEST(SessionTemplatesTest, WhatATenantMayUseIsThereAndHasItsDefault) {
  const auto sources = *Parse("b: {}\na: {}\n");
  TenantLimitTable tenants;
  TenantLimitTable::Exception& t = tenants.exceptions["t"];
  t.templates = {"a"};
  EXPECT_TRUE(CheckTenantTemplates(sources, tenants).ok());
  t.templates->push_back("c");
  EXPECT_EQ(CheckTenantTemplates(sources, tenants).message(),
            "tenants: t: templates: there is no template `c`; there are: a, b");
  t.templates = {"a"};
  tenants.usual.default_template = "b";
  EXPECT_EQ(
      CheckTenantTemplates(sources, tenants).message(),
      "tenants: t: templates: must have `b`, the tenant's default; or give the tenant another "
      "default_template, '' for none");
  t.default_template = "a";
  EXPECT_TRUE(CheckTenantTemplates(sources, tenants).ok());
  t.templates->clear();
  EXPECT_FALSE(CheckTenantTemplates(sources, tenants).ok());
  t.default_template = "";
  EXPECT_TRUE(CheckTenantTemplates(sources, tenants).ok());
}

TEST(SessionTemplatesTest, ModelsThatAreNotThereAreNamed) {
  const SessionTemplates templates = MustMake(R"(
a:
  retrieval: {embedder: e}
  blocks:
    - {name: s, kind: summary, options_json: {model: chat}}
    - {name: v, kind: vector, options_json: {embedder: e}}
    - {name: w, kind: summary, worker: mine, options_json: {model: anything}}
    - {name: x, kind: worker, worker: mine, options_json: {model: anything}}
b:
  retrieval: {embedder: e, embedder_worker: mine}
)");
  EXPECT_THAT(
      MissingModels(templates, {}),
      ElementsAre("templates: a: retrieval.embedder: the setting models has no embedder `e`",
                  "templates: a: blocks[0]: the setting models has no chat model `chat`",
                  "templates: a: blocks[1]: the setting models has no embedder `e`"));
  ModelSettings chat;
  chat.name = "chat";
  ModelSettings embedder;
  embedder.name = "e";
  embedder.kind = ModelKind::kEmbedding;
  EXPECT_THAT(MissingModels(templates, {chat, embedder}), ElementsAre());
  embedder.kind = ModelKind::kChat;
  EXPECT_THAT(MissingModels(templates, {chat, embedder}), ::testing::SizeIs(2));
}

}  // namespace
}  // namespace memoryd
