// The end of a rank because of an error: one line on stderr, and termination of a launcher that hangs after
// its processes have ended.
#pragma once

#include <string>
#include <string_view>

namespace tandem::parallel {

// "rank 2 of 4: MESSAGE", one line; without a number for a single process.
std::string words_of_rank(int rank, int size, std::string_view message);

// Writes the line to stderr unbuffered; lines of several processes stay whole. It is lost if it cannot be
// written within half a second.
void write_abort_message(const std::string& line);

// Call from a process that is ending: forks a process that waits for the launcher, its parent, and kills it
// by SIGKILL after `seconds`. The fork holds no files. Without fork, no effect.
//
// mpirun of Open MPI 4.1 sometimes (a few in a hundred) waits forever for a lock of PMIx, in
// PMIx_server_finalize, when ranks were stopped during their start; a cluster job would keep its machines.
void end_launcher_after(double seconds);

}  // namespace tandem::parallel
