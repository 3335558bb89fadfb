// Writes lines to a file descriptor that somebody else may read slowly, or not at all.
#ifndef MEMORYD_SERVER_WIRE_DESCRIPTOR_WRITER_H_
#define MEMORYD_SERVER_WIRE_DESCRIPTOR_WRITER_H_

#include <atomic>
#include <chrono>
#include <string_view>

namespace memoryd {

// Used by one thread alone, but for StopAt().
class DescriptorWriter {
 public:
  // Borrows `descriptor`.
  explicit DescriptorWriter(int descriptor) : descriptor_(descriptor) {}

  // All of `text`, as much at once as the descriptor takes. False when it failed, or could not
  // before it was time to stop; a part may have been written.
  bool Write(std::string_view text);

  // From `time` on it waits no more for a reader. Any thread.
  void StopAt(std::chrono::steady_clock::time_point time) {
    stop_at_.store(time.time_since_epoch().count());
  }

  void set_descriptor(int descriptor) { descriptor_ = descriptor; }

 private:
  // False when it is time to stop.
  bool AwaitRoom() const;

  int descriptor_;
  std::atomic<std::chrono::steady_clock::rep> stop_at_{
      std::chrono::steady_clock::time_point::max().time_since_epoch().count()};
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_DESCRIPTOR_WRITER_H_
