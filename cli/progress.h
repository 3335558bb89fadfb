// How far long work has come, on one line of the terminal.
#ifndef MEMORYD_CLI_PROGRESS_H_
#define MEMORYD_CLI_PROGRESS_H_

#include <chrono>
#include <functional>
#include <string>

namespace memoryd::cli {

// Writes to standard error where that is a terminal, else nothing. The line goes when it ends.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Whether anything is written.
  static bool IsShown();

  // Shows what `text` says, at most ten times a second.
  void Show(const std::function<std::string()>& text);

 private:
  const int width_;  // 0: no terminal.
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_PROGRESS_H_
