// The output of a command: its result on stdout, remarks on its course on stderr.
//
// Nothing here throws: what a command does is not lost because nobody can be told of it. Remarks that cannot
// be written are dropped. A result that cannot be written makes the command fail when everything else is
// done, as `output_error` tells; that a reader went away (`| head`) is no failure, and the rest is for
// nobody then. Whatever users' files and names hold is printed as text (core/printable.h): a terminal obeys
// what it is sent.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/printable.h"

namespace tandem::output {

// To be called once, before any file is opened. A standard file that is closed stays unwritable, instead of
// becoming the next file that is opened, and writes that fail are errors of the write, not signals that end
// the process.
void prepare_output();

void write_result(std::string_view text);
void write_remark(std::string_view text);
// Gives the system what was written of the result so far.
void flush_result();
// Why the result could not be written; nothing when it could, or nobody wanted to read on.
std::optional<std::string> output_error();

template <class... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_result(printable_lines(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

template <class... Arguments>
void remark(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_remark(printable_lines(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

// "tandem: …" on stderr, on one line whatever the text holds.
inline void print_error(std::string_view text) { remark("tandem: {}\n", printable(text)); }

}  // namespace tandem::output
