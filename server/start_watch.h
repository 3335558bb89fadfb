// What a start takes its time for.
#ifndef MEMORYD_SERVER_START_WATCH_H_
#define MEMORYD_SERVER_START_WATCH_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace memoryd {

// Tells of each step of a start that takes longer than `patience`, once. By one thread.
class StartWatch {
 public:
  // `tell` gets what Begin() was given, on another thread.
  explicit StartWatch(std::function<void(const std::string& step)> tell,
                      std::chrono::milliseconds patience = std::chrono::seconds(1));
  ~StartWatch() = default;
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  // Ends the step before. `step` such as "opening the store".
  void Begin(std::string step);
  // Ends the last step. `tell` is not called afterwards, nor while this returns.
  void End();

 private:
  void Run(const std::stop_token& stop);

  const std::function<void(const std::string& step)> tell_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string step_;  // Empty for none, and for one that was told of.
  std::chrono::steady_clock::time_point due_;
  std::jthread thread_;  // Last, so that it ends first.
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_START_WATCH_H_
