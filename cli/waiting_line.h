// What a person sees while a server takes its time.
#ifndef MEMORYD_CLI_WAITING_LINE_H_
#define MEMORYD_CLI_WAITING_LINE_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace memoryd::cli {

// From its second second on, the StatusLine counts them behind how far the command has come, until
// it ends. One at a time.
class WaitingLine {
 public:
  // `target`: what is waited for.
  explicit WaitingLine(const std::string& target);
  ~WaitingLine() = default;
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

 private:
  void Run(const std::stop_token& stop, const std::string& target);

  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  // Last, so that it ends first.
};

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_WAITING_LINE_H_
