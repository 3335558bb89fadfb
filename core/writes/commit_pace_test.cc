#include "core/writes/commit_pace.h"

#include <gtest/gtest.h>

#include <chrono>

namespace memoryd {
namespace {

using std::chrono::milliseconds;

TEST(CommitPaceTest, ExpectsNothingBeforeItHasSeenTwoBatches) {
  CommitPace pace;
  EXPECT_EQ(pace.Expected(1000).count(), 0);
  pace.Observe(10, milliseconds(50), /*full=*/false);
  EXPECT_EQ(pace.Expected(1000).count(), 0);
}

TEST(CommitPaceTest, WritesTakeAsLongAsInTheQuickerOfTheLastTwoBatches) {
  CommitPace pace;
  pace.Observe(10, milliseconds(50), /*full=*/false);
  pace.Observe(10, milliseconds(20), /*full=*/false);
  EXPECT_EQ(pace.Expected(7), milliseconds(14));
  // One that stalls is not believed, a second one is.
  pace.Observe(10, milliseconds(5000), /*full=*/false);
  EXPECT_EQ(pace.Expected(7), milliseconds(14));
  pace.Observe(10, milliseconds(4000), /*full=*/false);
  EXPECT_EQ(pace.Expected(7), milliseconds(2800));
}

TEST(CommitPaceTest, ABatchSaysLittleOfOneThatIsMuchLarger) {
  CommitPace pace;
  pace.Observe(1, milliseconds(2), /*full=*/false);
  pace.Observe(1, milliseconds(2), /*full=*/false);
  EXPECT_EQ(pace.Expected(3), milliseconds(6));
  EXPECT_EQ(pace.Expected(1000), milliseconds(8));
  pace.Observe(100, milliseconds(400), /*full=*/false);
  EXPECT_EQ(pace.Expected(1000), milliseconds(800));
}

TEST(CommitPaceTest, AFullBatchSaysAllOfWhatWaits) {
  CommitPace pace;
  pace.Observe(1, milliseconds(2), /*full=*/true);
  pace.Observe(1, milliseconds(2), /*full=*/false);
  EXPECT_EQ(pace.Expected(1000), milliseconds(2000));
  pace.Observe(1, milliseconds(2), /*full=*/false);
  EXPECT_EQ(pace.Expected(1000), milliseconds(8));
}

}  // namespace
}  // namespace memoryd
