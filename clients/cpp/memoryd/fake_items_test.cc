
#include <absl/status/status.h>
#include <absl/time/time.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "memoryd/client.h"
#include "memoryd/error_info.h"
#include "memoryd/fake_connection.h"

namespace memoryd::client {
namespace {

using ::testing::ElementsAre;
using Path = std::initializer_list<const char*>;

template <typename Request>
Request Of(Path path) {
  Request request;
  for (const char* const name : path) request.add_namespace_(name);
  return request;
}

class FakeItemsTest : public testing::Test {
 protected:
  static v1::PutItemRequest PutOf(Path path, const std::string& key, const std::string& json) {
    auto request = Of<v1::PutItemRequest>(path);
    request.mutable_put()->set_key(key);
    request.mutable_put()->set_json(json);
    return request;
  }
  std::int64_t Put(Path path, const std::string& key, const std::string& json = "1") {
    const auto reply = client_.PutItem(PutOf(path, key, json));
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->write().version() : 0;
  }
  v1::GetItemResponse Get(Path path, const std::string& key) {
    auto request = Of<v1::GetItemRequest>(path);
    request.mutable_get()->set_key(key);
    const auto reply = client_.GetItem(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : v1::GetItemResponse();
  }
  std::vector<std::string> AllKeys(v1::ListItemsRequest request) {
    std::vector<std::string> keys;
    do {
      const auto page = client_.ListItems(request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) return keys;
      for (const v1::Item& item : page->items()) keys.push_back(item.key());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return keys;
  }

  const std::shared_ptr<FakeConnection> fake_ = std::make_shared<FakeConnection>();
  const Client client_{fake_};
};

TEST_F(FakeItemsTest, AnItemIsReplacedAndDeletedUnderItsVersion) {
  v1::PutItemRequest put = PutOf({"a"}, "k", "1");
  put.mutable_put()->set_expected_version(0);
  const std::int64_t first = client_.PutItem(put)->write().version();
  const ErrorInfo lost = GetErrorInfo(client_.PutItem(put).status());
  EXPECT_EQ(lost.reason, "VERSION_MISMATCH");
  EXPECT_EQ(lost.details.at("version"), std::to_string(first));
  put.mutable_put()->set_expected_version(first);
  put.mutable_put()->set_json("2");
  EXPECT_GT(client_.PutItem(put)->write().version(), first);
  EXPECT_EQ(Get({"a"}, "k").item().json(), "2");
  EXPECT_EQ(Get({"a"}, "k").item().mime_type(), "application/json");
  auto remove = Of<v1::DeleteItemRequest>({"a"});
  remove.mutable_delete_()->set_key("k");
  EXPECT_TRUE(client_.DeleteItem(remove)->existed());
  EXPECT_FALSE(client_.DeleteItem(remove)->existed());
  EXPECT_FALSE(Get({"a"}, "k").has_item());
}

TEST_F(FakeItemsTest, ALostReplyIsRepeatedAndRequestIdsCount) {
  fake_->FailNext(absl::UnavailableError("lost"), FailAt::kReply);
  v1::PutItemRequest put = PutOf({"a"}, "k", "1");
  put.set_request_id("r");
  EXPECT_TRUE(client_.PutItem(put)->replayed());
  EXPECT_EQ(fake_->attempts(), 2);
  put.mutable_put()->set_json("2");
  EXPECT_EQ(GetErrorInfo(client_.PutItem(put).status()).reason, "REQUEST_ID_REUSED");
  EXPECT_EQ(Get({"a"}, "k").item().json(), "1");
}

TEST_F(FakeItemsTest, RefusesWithTheField) {
  const auto field = [this](const v1::PutItemRequest& request) {
    return GetErrorInfo(client_.PutItem(request).status()).field;
  };
  EXPECT_EQ(field(PutOf({}, "k", "1")), "namespace");
  EXPECT_EQ(field(PutOf({"memoryd"}, "k", "1")), "namespace[0]");
  EXPECT_EQ(field(PutOf({"a"}, "", "1")), "put.key");
  EXPECT_EQ(field(Of<v1::PutItemRequest>({"a"})), "put.key");
  v1::PutItemRequest typed = PutOf({"a"}, "k", "1");
  typed.mutable_put()->set_mime_type("text/plain");
  EXPECT_EQ(field(typed), "put.mime_type");
}

TEST_F(FakeItemsTest, ItemsExpireByTheFakesClockAndReadsKeepThem) {
  v1::PutItemRequest put = PutOf({"a"}, "k", "1");
  put.mutable_config()->mutable_default_ttl()->set_seconds(10);
  ASSERT_TRUE(client_.PutItem(put).ok());
  fake_->Wait(absl::Seconds(9));
  EXPECT_TRUE(Get({"a"}, "k").has_item());
  fake_->Wait(absl::Seconds(9));
  auto request = Of<v1::GetItemRequest>({"a"});
  request.mutable_get()->set_key("k");
  request.mutable_get()->set_refresh_ttl(false);
  EXPECT_TRUE(client_.GetItem(request)->has_item());
  fake_->Wait(absl::Seconds(1));
  EXPECT_FALSE(Get({"a"}, "k").has_item());
  put.mutable_config()->mutable_default_ttl()->set_seconds(11);
  EXPECT_EQ(GetErrorInfo(client_.PutItem(put).status()).reason, "CONFIG_MISMATCH");
}

TEST_F(FakeItemsTest, PagesHaveEveryItemOnceInEveryOrder) {
  for (const char* const key : {"c", "a", "b"}) Put({"n"}, key);
  auto request = Of<v1::ListItemsRequest>({"n"});
  request.set_page_size(1);
  EXPECT_THAT(AllKeys(request), ElementsAre("a", "b", "c"));
  request.set_order(v1::ITEM_ORDER_KEY_DESCENDING);
  EXPECT_THAT(AllKeys(request), ElementsAre("c", "b", "a"));
  request.set_order(v1::ITEM_ORDER_OLDEST_FIRST);
  EXPECT_THAT(AllKeys(request), ElementsAre("c", "a", "b"));
  request.set_order(v1::ITEM_ORDER_NEWEST_FIRST);
  EXPECT_THAT(AllKeys(request), ElementsAre("b", "a", "c"));
  request.set_start_key("b");
  request.set_end_key("c");
  EXPECT_THAT(AllKeys(request), ElementsAre("b"));
  request = Of<v1::ListItemsRequest>({"n"});
  request.set_page_size(1);
  request.set_page_token(client_.ListItems(request)->next_page_token());
  ASSERT_TRUE(client_.DeleteNamespace(Of<v1::DeleteNamespaceRequest>({"n"})).ok());
  EXPECT_EQ(GetErrorInfo(client_.ListItems(request).status()).reason, "NAMESPACE_REPLACED");
}

TEST_F(FakeItemsTest, ASearchRanksWhatAnswersFirst) {
  Put({"a", "x"}, "tea", R"("green tea")");
  Put({"a"}, "coffee", R"("coffee")");
  Put({"b"}, "other", R"("green tea")");
  v1::SearchItemsRequest request;
  request.add_namespace_prefix("a");
  request.set_query("tea green");
  const auto found = client_.SearchItems(request);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->results_size(), 2);
  EXPECT_EQ(found->results(0).item().key(), "tea");
  EXPECT_TRUE(found->results(0).has_score());
  EXPECT_EQ(found->results(1).item().key(), "coffee");
  EXPECT_FALSE(found->results(1).has_score());
}

TEST_F(FakeItemsTest, ABatchIsStoredWholeOrNotAtAll) {
  const std::int64_t version = Put({"a"}, "k");
  v1::BatchItemsRequest request;
  v1::ItemBatch& fails = *request.add_batches();
  fails = Of<v1::ItemBatch>({"a"});
  fails.add_operations()->mutable_put()->set_key("new");
  fails.mutable_operations(0)->mutable_put()->set_json("1");
  fails.add_operations()->mutable_delete_()->set_key("k");
  fails.mutable_operations(1)->mutable_delete_()->set_expected_version(version + 1);
  v1::ItemBatch& reads = *request.add_batches();
  reads = Of<v1::ItemBatch>({"a"});
  reads.add_operations()->mutable_get()->set_key("k");
  reads.add_operations()->mutable_put()->set_key("k");
  reads.mutable_operations(1)->mutable_put()->set_json("2");
  const auto reply = client_.BatchItems(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  const v1::ItemError& error = reply->outcomes(0).error();
  EXPECT_EQ(error.reason(), "VERSION_MISMATCH");
  EXPECT_EQ(error.operation(), 1);
  EXPECT_EQ(error.version(), version);
  EXPECT_FALSE(Get({"a"}, "new").has_item());
  EXPECT_EQ(reply->outcomes(1).results(0).get().item().json(), "1");
  EXPECT_EQ(Get({"a"}, "k").item().json(), "2");
}

TEST_F(FakeItemsTest, NamespacesAreListedCopiedAndDeleted) {
  const auto get = Of<v1::GetNamespaceRequest>({"a"});
  EXPECT_EQ(GetErrorInfo(client_.GetNamespace(get).status()).reason, "NAMESPACE_NOT_FOUND");
  auto update = Of<v1::UpdateNamespaceRequest>({"a"});
  update.mutable_config()->set_subject("ada");
  EXPECT_TRUE(client_.UpdateNamespace(update)->namespace_().config().refresh_ttl());
  Put({"a"}, "k");
  Put({"a", "b", "c"}, "k");
  EXPECT_EQ(client_.GetNamespace(get)->namespace_().item_count(), 1);

  v1::CopyNamespaceRequest copy = Of<v1::CopyNamespaceRequest>({"a"});
  copy.add_new_namespace("z");
  copy.set_recursive(true);
  EXPECT_EQ(client_.CopyNamespace(copy)->item_count(), 2);
  EXPECT_EQ(GetErrorInfo(client_.CopyNamespace(copy).status()).reason, "NAMESPACE_EXISTS");
  EXPECT_TRUE(Get({"z", "b", "c"}, "k").has_item());
  copy.add_new_namespace("deeper");
  copy.set_new_namespace(0, "a");
  EXPECT_EQ(GetErrorInfo(client_.CopyNamespace(copy).status()).field, "new_namespace");

  v1::ListNamespacesRequest list;
  list.set_subject("ada");
  EXPECT_EQ(client_.ListNamespaces(list)->namespaces_size(), 1);
  list.clear_subject();
  list.set_max_depth(2);
  v1::NamespaceMatch& match = *list.add_matches();
  match.set_end(v1::NamespaceMatch::END_SUFFIX);
  match.add_names("*");
  match.add_names("c");
  const auto listed = client_.ListNamespaces(list);
  ASSERT_EQ(listed->namespaces_size(), 2);
  EXPECT_THAT(listed->namespaces(0).namespace_(), ElementsAre("a", "b"));
  EXPECT_THAT(listed->namespaces(1).namespace_(), ElementsAre("z", "b"));

  auto remove = Of<v1::DeleteNamespaceRequest>({"a"});
  EXPECT_EQ(client_.DeleteNamespace(remove)->namespace_count(), 1);
  remove.set_recursive(true);
  EXPECT_EQ(client_.DeleteNamespace(remove)->item_count(), 1);
  EXPECT_FALSE(Get({"a", "b", "c"}, "k").has_item());
}

}  // namespace
}  // namespace memoryd::client
