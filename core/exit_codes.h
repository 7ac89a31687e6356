// Exit codes of the program, with their descriptions in its help.
#pragma once

namespace tandem {

inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitDiverged = 3;
inline constexpr int kExitInterrupted = 75;     // EX_TEMPFAIL of sysexits.h
inline constexpr int kExitStoppedAtOnce = 130;  // 128 + SIGINT, as shells have it

struct ExitCode {
  int code;
  const char* meaning;
};

inline constexpr ExitCode kExitCodes[] = {
    {0, "done"},
    {kExitFailure,
     "failure of a file, a device, memory or a process; a difference that `compare --require`\n"
     "      or `plan diff` found"},
    {kExitUsage, "mistake in the command line, the configuration or the data"},
    {kExitDiverged, "training diverged"},
    {kExitInterrupted, "interrupted and saved: the same command resumes"},
    {kExitStoppedAtOnce, "stopped at once by a second signal; only the newest checkpoint is saved"},
};

}  // namespace tandem
