// Where each rank is, for the one that waits: the record that says who did not come.
//
// Calls of a communicator are numbered from 1, the same on all ranks. A rank writes down what it begins, what
// it has not ended, and when it last looked after communication at all; one store each, to memory that the
// ranks of a host share. It can be read while its owner computes, is stopped or is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::parallel {

enum class Call : std::uint8_t {
  none,
  start,  // ranks find each other
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  gather,
  barrier,
  end,     // ranks part
  closing  // all have come to the end, and MPI is closed
};

std::string_view name_of(Call call);

enum class ProcessState : std::uint8_t { unknown, runs, stopped, ended };

// One rank's record, as it is sent, too.
struct RankStatus {
  std::int32_t rank = 0;
  std::int32_t process = 0;    // its number on its host; 0 before it is there
  std::uint64_t begun = 0;     // number of the last call that it has begun; 0: none
  std::uint64_t oldest = 1;    // of the first call that it has not ended; begun + 1 when it has ended all
  std::int64_t silent_ms = 0;  // since it last looked after communication
  Call call = Call::none;      // the last one
  ProcessState state = ProcessState::unknown;
};

// The state of a process of this host, from /proc.
ProcessState state_of_process(std::int32_t process);
// When it began, in ticks since the host did: what tells it from another one that got its number later. 0
// where it is gone.
std::uint64_t start_of_process(std::int32_t process);

class RankStatusBoard {
 public:
  // Shared with the processes that name the same folder, which each give the same `size`; alone when it is
  // empty or cannot be used. The file in it lies there until `unlink`, and is a few kilobytes long.
  RankStatusBoard(int rank, int size, const std::string& folder);
  ~RankStatusBoard();
  RankStatusBoard(const RankStatusBoard&) = delete;
  RankStatusBoard& operator=(const RankStatusBoard&) = delete;

  // The same for all that share it, and for nobody else.
  std::uint64_t id() const;
  void unlink();

  // Of this rank.
  void begun(std::uint64_t number, Call call);
  void ended_below(std::uint64_t oldest);
  void looked();

  // True for the first process that asks, which tells why all end, and then says that it has.
  bool first_to_abort();
  void has_told();
  bool is_told() const;
  // Ends the processes of other ranks: those that are stopped, which hear of no other end, or all.
  void kill_stopped() const;
  void kill_others() const;
  // Of those that are there.
  std::vector<RankStatus> read() const;
  RankStatus own() const { return read_slot(rank_); }

 private:
  struct Header;
  struct Slot;

  Slot& slot(int rank) const;
  RankStatus read_slot(int rank) const;
  void kill_where(bool (*applies)(const RankStatus&)) const;

  int rank_, size_;
  std::string path_;  // empty when it is not shared
  std::size_t bytes_;
  Header* header_;  // followed by size_ slots
};

}  // namespace tandem::parallel
