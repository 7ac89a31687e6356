// This program started once more, with pipes to it.
//
// The child is in a process group of its own, so a Ctrl-C reaches the parent alone, which passes it on once;
// the child never outlives the parent.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "train/signals.h"

namespace tandem::compare {

struct Exit {
  int code = 0;     // 128 + n after signal n
  std::string out;  // what was not read line by line
  std::string err;

  // The last line that says something; for messages.
  std::string last_words() const;
};

class Process {
 public:
  // `arguments` without the program's name. Throws VendorError when it cannot be started.
  Process(const std::vector<std::string>& arguments, const train::StopRequest& stop);
  ~Process();  // kills
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Sends a line; a child that has ended is noticed when it is read from.
  void send(const std::string& line);
  // The next line of its output; absent when the output has ended.
  std::optional<std::string> read_line();
  // Ends its input and waits.
  Exit finish();

 private:
  bool pump();  // waits for output; false when all output has ended

  const train::StopRequest& stop_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  bool told_to_stop_ = false;
  Exit exit_;
};

// Runs to the end.
Exit run_program(const std::vector<std::string>& arguments, const train::StopRequest& stop);

}  // namespace tandem::compare
