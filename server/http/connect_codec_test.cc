#include "server/http/connect_codec.h"

#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "memoryd/v1/item_service.pb.h"
#include "memoryd/v1/memory_service.pb.h"

namespace memoryd {
namespace {

constexpr int kMany = 10'000;

std::string Repeated(int times, const std::string& value) {
  std::string text;
  for (int i = 0; i < times; ++i) text += (i == 0 ? "" : ",") + value;
  return text;
}

// Protobuf's writer holds the message twice.
TEST(ConnectCodecTest, NoMessageTakesMoreThanIsTakenForIt) {
  const auto expect_bounded = [](const std::string& json, const auto& type) {
    const auto bytes = JsonToBytes(json, type);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_GT(bytes->size(), static_cast<std::size_t>(kMany));
    EXPECT_LE(2 * static_cast<std::int64_t>(bytes->size()), MostMemoryOf(json))
        << json.substr(0, 80);
  };
  const auto& item = *v1::ItemPut::descriptor();
  const auto& put = *v1::PutRequest::descriptor();
  expect_bounded("{\"vector\":[" + Repeated(kMany, "0") + "]}", item);
  expect_bounded("{\"messages\":[" + Repeated(kMany, "{}") + "]}", put);
  expect_bounded("{\"messages\":[{\"parts\":[" + Repeated(kMany, "{\"text\":\"\"}") + "]}]}", put);
  const auto& anything = *google::protobuf::Struct::descriptor();
  expect_bounded("{\"a\":[" + Repeated(kMany, "0") + "]}", anything);
  expect_bounded("{\"a\":[" + Repeated(kMany, "{\"\":[0]}") + "]}", anything);
  expect_bounded("{\"a\":\"" + std::string(kMany, 'x') + "\"}", anything);
}

}  // namespace
}  // namespace memoryd
