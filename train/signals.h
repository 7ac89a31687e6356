// Ctrl-C and SIGTERM: the first asks for a clean stop at the end of the step, the second ends the process at
// once with exit code 130. So does time, where nobody asks whether there was a first one: a step that hangs
// in a kernel ends as well.
#pragma once

#include <string_view>

namespace tandem::train {

// Installs the handlers, SIGALRM's too, for its life; the previous ones come back. One at a time.
class StopRequest {
 public:
  static constexpr int kPatience = 120;  // seconds

  // `heard`: what the user is told of the first one, in a line of at most 1000 bytes; "": nothing.
  // `patience_s`: seconds from the first signal until the process ends if asked() is not called, or ten times
  // the longest pause between two calls so far, if that is more.
  explicit StopRequest(std::string_view heard = "Stopping after this step; once more stops now.",
                       int patience_s = kPatience);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool asked() const;
};

}  // namespace tandem::train
