// Ctrl-C and SIGTERM: the first asks for a clean stop at the end of the step, the second ends the process at
// once with exit code 130.
#pragma once

#include <string_view>

namespace tandem::train {

// Installs the handlers for its life; the previous ones come back. One at a time.
class StopRequest {
 public:
  // `heard`: what the user is told of the first one, in a line of at most 1000 bytes; "": nothing.
  explicit StopRequest(std::string_view heard = "Stopping after this step; once more stops now.");
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool asked() const;
};

}  // namespace tandem::train
