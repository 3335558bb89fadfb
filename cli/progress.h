// How far long work has come, on the StatusLine.
#ifndef MEMORYD_CLI_PROGRESS_H_
#define MEMORYD_CLI_PROGRESS_H_

#include <chrono>
#include <functional>
#include <string>

namespace memoryd::cli {

// Work of the command; one at a time. What is shown goes when it ends.
class Progress {
 public:
  Progress() = default;
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Whether anything is written.
  static bool IsShown();

  // Shows what `text` says, at most ten times a second.
  void Show(const std::function<std::string()>& text);
  // Shows nothing until the next Show(): before the command prints to the terminal itself.
  void Clear();

 private:
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_PROGRESS_H_
