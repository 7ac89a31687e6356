// What a rank that ends for good says: one line on stderr, whatever becomes of the process.
#pragma once

#include <string>
#include <string_view>

namespace tandem::parallel {

// "rank 2 of 4: MESSAGE", one line; a process that is alone has no number.
std::string words_of_rank(int rank, int size, std::string_view message);

// Writes the line to stderr at once, past all buffers: of several processes lines stay whole. Where nobody
// takes it for half a second it is lost.
void write_abort_message(const std::string& line);

}  // namespace tandem::parallel
