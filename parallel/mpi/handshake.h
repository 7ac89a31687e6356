// Handshake: exchange of rank status between hosts by messages, after a timeout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "parallel/mpi/library.h"
#include "parallel/rank_status.h"

namespace tandem::parallel {

// A waiting rank regularly answers questions with the records of its host, so one waiting rank speaks for its
// host. The messages have their own tags.
class Handshake {
 public:
  Handshake(const MpiLibrary& mpi, const RankStatusBoard& board) : mpi_(mpi), board_(board) {}

  // The board id of each rank's host (RankStatusBoard::id). No questions are sent before.
  void set_boards(std::vector<std::uint64_t> boards) { boards_ = std::move(boards); }

  // Whether all ranks share this rank's board.
  bool is_one_board() const {
    return std::ranges::all_of(boards_, [this](std::uint64_t id) { return id == board_.id(); });
  }

  // Answers pending questions without waiting.
  void serve();

  // Status of all ranks: this host's records, and answers of other hosts within `patience_s` seconds. Ranks
  // that are not in the result were not reachable.
  std::vector<RankStatus> call(double patience_s);

 private:
  // A question is empty; an answer has a record for every rank, with process 0 for ranks of other hosts.
  struct Message {
    std::vector<RankStatus> records;
    MPI_Request request = nullptr;
    bool is_answer_to_us = false;
  };

  bool probe(int tag, int& source);
  void send(int rank, int tag, std::vector<RankStatus> records);
  void receive(int rank, int tag, std::size_t records);
  // Removes completed messages, and keeps the records in answers.
  void collect();

  const MpiLibrary& mpi_;
  const RankStatusBoard& board_;
  std::vector<std::uint64_t> boards_;
  std::vector<RankStatus> heard_;
  std::list<Message> messages_;  // in flight; addresses of buffers are stable
};

}  // namespace tandem::parallel
