// StopRequest: Ctrl-C and SIGTERM. The first signal requests a clean stop at the end of the step; the second
// ends the process at once with exit code 130. A timeout after the first signal does the same, so that a
// kernel that hangs cannot block the stop.
#pragma once

#include <string_view>

namespace tandem::train {

// Installs the handlers, including SIGALRM's, and restores the previous ones at its end. Only one may exist.
class StopRequest {
 public:
  static constexpr int kTimeout = 120;  // seconds

  // `message`: message after the first signal, at most 1000 bytes; "": none. `timeout_s`: timeout in seconds
  // from the first signal if asked() is not called; it grows to ten times the longest pause between two calls
  // so far.
  explicit StopRequest(std::string_view message = "Stopping after this step; once more stops now.",
                       int timeout_s = kTimeout);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool asked() const;
};

}  // namespace tandem::train
