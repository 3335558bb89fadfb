#include "core/reads/item_reads.h"

#include <gmock/gmock.h>

#include "core/base/field_path.h"
#include "tests/support/engine_fixture.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using Names = std::vector<std::string>;

NamespacePath Path(const Names& names) {
  return NamespacePath::Make(FieldPath(), "namespace", names).value();
}

class ItemReadsTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Start(Options());
  }

  void Put(const Names& names, const std::string& key) {
    ItemWrite write;
    write.key = key;
    write.content.emplace().value = "1";
    const ItemBatch batch{{"tenant", Path(names)}, {std::move(write)}};
    const auto results = real_->Items().WriteItems({&batch, 1}, ++now_us_);
    ASSERT_EQ(results.front().outcome, ItemBatchOutcome::kWritten) << results.front().status;
  }

  absl::StatusOr<NamespaceList> ListPage(NamespaceListRequest request) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<NamespaceList>>>();
    auto future = promise->get_future();
    engine_->item_reads().ListNamespaces(std::move(request), Far(),
                                         [promise](absl::StatusOr<NamespaceList> page) {
                                           promise->set_value(Detached(std::move(page)));
                                         });
    return Await(std::move(future));
  }
  // The stored paths of all pages.
  std::vector<NamespacePath> ListAll(std::size_t max_depth, std::int64_t page_size) {
    std::vector<NamespacePath> paths;
    NamespaceListRequest request{.tenant = "tenant", .max_depth = max_depth};
    request.max_namespaces = page_size;
    for (bool more = true; more;) {
      auto page = ListPage(request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) return paths;
      for (const ListedNamespace& listed : page->namespaces) paths.push_back(listed.path);
      request.after = page->after;
      more = page->more;
    }
    return paths;
  }
};

TEST_F(ItemReadsTest, APathThatIsShorterThanTheDepthHidesNothingBelowIt) {
  for (const Names& path :
       std::vector<Names>{{"b"}, {"b", "*", "a"}, {"b", "*", "a", "z"}, {"b", "b"}, {"c", "d"}}) {
    Put(path, "k");
  }
  for (const std::int64_t page_size : {1, 2, 100}) {
    EXPECT_THAT(ListAll(3, page_size), ElementsAre(Path({"b"}), Path({"b", "*", "a"}),
                                                   Path({"b", "b"}), Path({"c", "d"})));
    EXPECT_THAT(ListAll(2, page_size),
                ElementsAre(Path({"b"}), Path({"b", "*"}), Path({"b", "b"}), Path({"c", "d"})));
    EXPECT_THAT(ListAll(1, page_size), ElementsAre(Path({"b"}), Path({"c"})));
    EXPECT_THAT(ListAll(0, page_size),
                ElementsAre(Path({"b"}), Path({"b", "*", "a"}), Path({"b", "*", "a", "z"}),
                            Path({"b", "b"}), Path({"c", "d"})));
  }
}

}  // namespace
}  // namespace memoryd
