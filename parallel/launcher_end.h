// An end for a launcher that stays when all of its processes have gone.
#pragma once

namespace tandem::parallel {

// To be called by a process that ends for good: leaves one behind that looks after the launcher, which is the
// parent, until that has ended, and ends it by SIGKILL after `seconds`. What is left behind holds no file.
// Where there can be none, nothing happens.
//
// mpirun of Open MPI 4.1 waits for ever for a lock of PMIx, in PMIx_server_finalize, after a few of a hundred
// ends of ranks that were stopped while they started; a job of a cluster would keep its machines.
void end_launcher_after(double seconds);

}  // namespace tandem::parallel
