// Shared memory that Open MPI's ranks leave where their mpirun was killed; otherwise it removes them itself.
#pragma once

#include <filesystem>

namespace tandem::parallel {

// Removes from `shared_memory` the files vader_segment.HOST.UID.JOB.RANK of every mpirun that is known to be
// gone: of this user, on this host, with a folder beside `session` (ompi.HOST.UID/pid.N, that of the mpirun
// which started this process) that names the jobs and the process. Those of any other one stay.
void remove_leftover_segments(const std::filesystem::path& session,
                              const std::filesystem::path& shared_memory = "/dev/shm");

}  // namespace tandem::parallel
