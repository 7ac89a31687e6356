// Process: a child process that runs this program, with pipes to it.
//
// The child has its own process group, so only the parent receives Ctrl-C and passes it on once. The child
// never outlives the parent.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "train/signals.h"

namespace tandem::compare {

struct Exit {
  int code = 0;     // 128 + n after signal n
  std::string out;  // the part that was not read by read_line()
  std::string err;

  // The last non-empty line, for messages.
  std::string last_line() const;
};

class Process {
 public:
  // `arguments`: without the program's name. Throws VendorError if it cannot be started.
  Process(const std::vector<std::string>& arguments, const train::StopRequest& stop);
  ~Process();  // kills
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Sends a line. If the child has ended, the next read reports it.
  void send(const std::string& line);
  // The next line of output; absent at its end.
  std::optional<std::string> read_line();
  // Closes the child's input and waits for its end.
  Exit finish();

 private:
  bool pump();  // waits for output; false at the end of all output

  const train::StopRequest& stop_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  bool interrupt_sent_ = false;
  Exit exit_;
};

Exit run_program(const std::vector<std::string>& arguments, const train::StopRequest& stop);  // to its end

}  // namespace tandem::compare
