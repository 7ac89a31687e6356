// RankStatusBoard: status of each rank for timeout reports.
//
// Calls of a communicator are numbered from 1, the same on all ranks. A rank records the call it starts, the
// first unfinished one, and the time of its last progress, with one store each, in memory shared by the ranks
// of a host. The record is readable while its owner computes, is stopped or is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::parallel {

enum class Call : std::uint8_t {
  none,
  start,  // ranks connect
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  gather,
  barrier,
  end,     // ranks disconnect
  closing  // all ranks have disconnected, and MPI is closed
};

std::string_view name_of(Call call);

enum class ProcessState : std::uint8_t { unknown, runs, stopped, ended };

// One rank's record, also sent as a message.
struct RankStatus {
  std::int32_t rank = 0;
  std::int32_t process = 0;    // process id on its host; 0 before it exists
  std::uint64_t begun = 0;     // number of the last started call; 0: none
  std::uint64_t oldest = 1;    // number of the first unfinished call; begun + 1: none
  std::int64_t silent_ms = 0;  // since its last progress in communication
  Call call = Call::none;      // the last one
  ProcessState state = ProcessState::unknown;
};

// The state of a process on this host, from /proc.
ProcessState state_of_process(std::int32_t process);
// Start time in ticks since boot, which distinguishes it from a later process with the same id; 0 if gone.
std::uint64_t start_of_process(std::int32_t process);

class RankStatusBoard {
 public:
  // Shared with the processes that use the same folder and `size`; private if the folder is empty or
  // unusable. The file exists until `unlink`, with a few kilobytes.
  RankStatusBoard(int rank, int size, const std::string& folder);
  ~RankStatusBoard();
  RankStatusBoard(const RankStatusBoard&) = delete;
  RankStatusBoard& operator=(const RankStatusBoard&) = delete;

  // Equal for all processes that share it, and unique.
  std::uint64_t id() const;
  void unlink();

  // For this rank.
  void begun(std::uint64_t number, Call call);
  void ended_below(std::uint64_t oldest);
  void looked();

  // True for the first caller, which prints the reason for the end and then confirms it.
  bool first_to_abort();
  void has_told();
  bool is_told() const;
  // Kills the processes of other ranks: stopped ones, which would not notice another end, or all.
  void kill_stopped() const;
  void kill_others() const;
  // Records of the existing ranks.
  std::vector<RankStatus> read() const;
  RankStatus own() const { return read_slot(rank_); }

 private:
  struct Header;
  struct Slot;

  Slot& slot(int rank) const;
  RankStatus read_slot(int rank) const;
  void kill_where(bool (*applies)(const RankStatus&)) const;

  int rank_, size_;
  std::string path_;  // empty if not shared
  std::size_t bytes_;
  Header* header_;  // followed by size_ slots
};

}  // namespace tandem::parallel
