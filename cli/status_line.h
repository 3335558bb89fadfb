// The one line of a terminal that tells what a command is at.
#ifndef MEMORYD_CLI_STATUS_LINE_H_
#define MEMORYD_CLI_STATUS_LINE_H_

#include <mutex>
#include <string>

namespace memoryd::cli {

// On standard error, where that is a terminal, else nothing. Thread-safe: what works and what waits
// tell of it side by side.
class StatusLine {
 public:
  // That of the process.
  static StatusLine& Instance();

  // Whether anything is written.
  bool is_shown() const { return width_ > 0; }

  // How far the work has come, and behind it what is waited for; empty for nothing. Where both are
  // nothing the line is gone.
  void ShowWork(std::string text);
  void ShowWaiting(std::string text);

 private:
  StatusLine();

  void Draw();  // Under `mutex_`.

  const int width_;  // 0: no terminal.
  std::mutex mutex_;
  std::string work_;
  std::string waiting_;
  bool drawn_ = false;
};

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_STATUS_LINE_H_
