// Cleanup of shared memory that Open MPI's ranks leave behind when their mpirun was killed.
#pragma once

#include <filesystem>

namespace tandem::parallel {

// Removes from `shared_memory` the files vader_segment.HOST.UID.JOB.RANK of every mpirun known to have ended:
// of this user on this host, with a folder beside `session` (ompi.HOST.UID/pid.N, of the mpirun that started
// this process) that names its jobs and process. Other files stay.
void remove_leftover_segments(const std::filesystem::path& session,
                              const std::filesystem::path& shared_memory = "/dev/shm");

}  // namespace tandem::parallel
