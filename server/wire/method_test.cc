#include "server/wire/method.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "memoryd/v1/block_service.pb.h"
#include "memoryd/v1/item_service.pb.h"
#include "memoryd/v1/job_service.pb.h"
#include "memoryd/v1/memory_service.pb.h"
#include "memoryd/v1/server_service.pb.h"
#include "memoryd/v1/session_service.pb.h"
#include "memoryd/v1/worker_service.pb.h"

namespace memoryd {
namespace {

using ::testing::ContainerEq;
using ::testing::UnorderedElementsAreArray;

// Of each file with a service one message, so that the file is linked.
void LinkServices() {
  v1::GetBlockRequest::descriptor();
  v1::GetItemRequest::descriptor();
  v1::GetJobRequest::descriptor();
  v1::GetRequest::descriptor();
  v1::GetServerInfoRequest::descriptor();
  v1::GetSessionRequest::descriptor();
  v1::AttachRequest::descriptor();
}

// Of all files in proto/memoryd/v1, so that a new one is not forgotten.
std::vector<const google::protobuf::ServiceDescriptor*> Services() {
  LinkServices();
  const auto* const pool = google::protobuf::DescriptorPool::generated_pool();
  std::vector<const google::protobuf::ServiceDescriptor*> services;
  const std::filesystem::path root(MEMORYD_PROTO_DIRECTORY);
  for (const auto& entry : std::filesystem::directory_iterator(root / "memoryd" / "v1")) {
    if (entry.path().extension() != ".proto") continue;
    const std::string name = entry.path().lexically_relative(root).generic_string();
    const auto* const file = pool->FindFileByName(name);
    if (file == nullptr) {
      ADD_FAILURE() << name << " is not linked: name a message of it in LinkServices()";
      continue;
    }
    for (int i = 0; i < file->service_count(); ++i) services.push_back(file->service(i));
  }
  return services;
}

TEST(MethodTest, TheTableHasTheMethodsOfTheProtosAndNoOthers) {
  std::set<std::string> in_protos;
  for (const auto* const service : Services()) {
    for (int i = 0; i < service->method_count(); ++i) {
      in_protos.insert("/" + service->full_name() + "/" + service->method(i)->name());
    }
  }
  std::set<std::string> in_table;
  for (const MethodTraits& method : kMethods) {
    EXPECT_TRUE(in_table.insert(PathOf(method)).second) << PathOf(method) << " has two rows";
  }
  EXPECT_THAT(in_table, ContainerEq(in_protos));
}

TEST(MethodTest, TheServicesOfTheTableAreThoseOfTheProtos) {
  std::vector<std::string> in_protos;
  for (const auto* const service : Services()) in_protos.push_back(service->full_name());
  EXPECT_THAT(ServicesOfMethods(), UnorderedElementsAreArray(in_protos));
}

TEST(MethodTest, AMethodHasItsOwnRow) {
  EXPECT_EQ(TraitsOf(Method::kPut).name, "Put");
  EXPECT_EQ(PathOf(TraitsOf(Method::kPut)), "/memoryd.v1.MemoryService/Put");
  EXPECT_EQ(PathOf(TraitsOf(Method::kAttach)), "/memoryd.v1.WorkerService/Attach");
}

}  // namespace
}  // namespace memoryd
