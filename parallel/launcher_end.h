// Termination of a launcher that hangs after its processes have ended.
#pragma once

namespace tandem::parallel {

// Call from a process that is ending: forks a process that waits for the launcher, its parent, and kills it
// by SIGKILL after `seconds`. The fork holds no files. Without fork, no effect.
//
// mpirun of Open MPI 4.1 sometimes (a few in a hundred) waits forever for a lock of PMIx, in
// PMIx_server_finalize, when ranks were stopped during their start; a cluster job would keep its machines.
void end_launcher_after(double seconds);

}  // namespace tandem::parallel
