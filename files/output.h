// Output of a command: its result on stdout, remarks on stderr.
//
// Nothing here throws, so that output errors do not lose a command's work. Remarks that cannot be written are
// dropped. A result that cannot be written makes the command fail at its end, see `output_error`; a closed
// pipe (`| head`) is not a failure, and further output is dropped. Text from users' files and names is
// escaped (core/printable.h), since terminals interpret control characters.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/printable.h"

namespace tandem::output {

// Call it once, before any file is opened. A closed standard file stays unwritable instead of being reused by
// the next opened file, and failed writes are errors instead of signals.
void prepare_output();

void write_result(std::string_view text);
void write_remark(std::string_view text);
// Passes the buffered result to the system.
void flush_result();
// Error in writing the result; absent if there is none, or if the reader closed the pipe.
std::optional<std::string> output_error();

template <class... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_result(printable_lines(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

template <class... Arguments>
void remark(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_remark(printable_lines(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

// "tandem: …" on stderr, with line breaks in the text escaped.
inline void print_error(std::string_view text) { remark("tandem: {}\n", printable(text)); }

}  // namespace tandem::output
