// Abort message: one line on stderr from a rank that ends because of an error.
#pragma once

#include <string>
#include <string_view>

namespace tandem::parallel {

// "rank 2 of 4: MESSAGE", one line; without a number for a single process.
std::string words_of_rank(int rank, int size, std::string_view message);

// Writes the line to stderr unbuffered; lines of several processes stay whole. It is lost if it cannot be
// written within half a second.
void write_abort_message(const std::string& line);

}  // namespace tandem::parallel
