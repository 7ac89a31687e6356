// Ctrl-C and SIGTERM: the first asks for a clean stop at the end of the step, the second ends the process at
// once with exit code 130.
#pragma once

namespace tandem::train {

// Installs the handlers for its life; the previous ones come back. One at a time.
class StopRequest {
 public:
  // `says_so`: tells the user that the first one was heard; of several ranks one does.
  explicit StopRequest(bool says_so = true);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool asked() const;
};

}  // namespace tandem::train
